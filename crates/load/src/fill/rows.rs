// SPDX-License-Identifier: Apache-2.0
//! Generates the rows: random, and the same for the same seed whatever the number of connections.

use super::plan::BLOCK_ROWS;
use std::io::Write as _;
use workload::Rng;
use workload::distribution::{Distribution, Sampler};
use workload::rand_core::SeedableRng as _;
use workload::text::{C_GROUPS, PAD_GROUPS, push_groups};

/// Sums over rows: computed while writing, and compared with the server's sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Checksum {
    pub(super) rows: u64,
    pub(super) id_min: u64,
    pub(super) id_max: u64,
    pub(super) id_sum: u128,
    pub(super) k_sum: u128,
}

impl Checksum {
    fn add(&mut self, id: u64, k: u64) {
        self.id_min = if self.rows == 0 { id } else { self.id_min.min(id) };
        self.id_max = self.id_max.max(id);
        self.rows += 1;
        self.id_sum += u128::from(id);
        self.k_sum += u128::from(k);
    }

    /// The first sum that differs from `read`, with both values.
    pub(super) fn difference(&self, read: &Self) -> Option<(&'static str, u128, u128)> {
        let compared: [(&'static str, u128, u128); 5] = [
            ("the number of rows", self.rows.into(), read.rows.into()),
            ("the least id", self.id_min.into(), read.id_min.into()),
            ("the greatest id", self.id_max.into(), read.id_max.into()),
            ("the sum of id", self.id_sum, read.id_sum),
            ("the sum of k", self.k_sum, read.k_sum),
        ];
        compared.into_iter().find(|(_, written, read)| written != read)
    }

    pub(super) fn merge(&mut self, other: &Self) {
        if other.rows == 0 {
            return;
        }
        self.id_min = if self.rows == 0 { other.id_min } else { self.id_min.min(other.id_min) };
        self.id_max = self.id_max.max(other.id_max);
        self.rows += other.rows;
        self.id_sum += other.id_sum;
        self.k_sum += other.k_sum;
    }
}

/// The text format of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The format of `COPY` and `LOAD DATA`: tabs between columns, a newline after each row.
    Lines,
    /// `(1,2,'...','...'),(...)`, for INSERT.
    Values,
}

/// Rows of one table in key order.
pub(super) struct Rows {
    seed: u64,
    table: u32,
    keys: Sampler,
    next: u64,
    rng: Rng,
    pub(super) checksum: Checksum,
}

impl Rows {
    /// k is between 1 and the number of rows, or the largest 32-bit value.
    pub(super) fn new(seed: u64, table: u32, keys: &Distribution, rows_per_table: u64, first: u64) -> Self {
        let keys = keys.sampler(1, rows_per_table.min(0x7fff_ffff));
        let into_block = (first - 1) % BLOCK_ROWS;
        let (next, checksum) = (first - into_block, Checksum::default());
        let mut rows = Self { seed, table, keys, next, rng: Rng::seed_from_u64(0), checksum };
        // Rows are drawn from the beginning of their block.
        let mut before = Vec::new();
        (0..into_block).for_each(|_| rows.push(Form::Lines, &mut before));
        Self { checksum, ..rows }
    }

    /// Appends the next row.
    pub(super) fn push(&mut self, form: Form, out: &mut Vec<u8>) {
        let id = self.next;
        if (id - 1).is_multiple_of(BLOCK_ROWS) {
            self.rng = block_rng(self.seed, self.table, (id - 1) / BLOCK_ROWS);
        }
        let k = self.keys.sample(&mut self.rng);
        let (open, between, after_c, close): (&[u8], &[u8], &[u8], &[u8]) = match form {
            Form::Lines => (b"", b"\t", b"\t", b"\n"),
            Form::Values => (b"(", b",", b"','", b"')"),
        };
        out.extend_from_slice(open);
        let _ = write!(out, "{id}"); // a Vec takes every write
        out.extend_from_slice(between);
        let _ = write!(out, "{k}");
        out.extend_from_slice(between);
        if form == Form::Values {
            out.push(b'\'');
        }
        push_groups(&mut self.rng, C_GROUPS, out);
        out.extend_from_slice(after_c);
        push_groups(&mut self.rng, PAD_GROUPS, out);
        out.extend_from_slice(close);
        self.checksum.add(id, k);
        self.next += 1;
    }
}

/// Seeds of tables and blocks pass through SplitMix64, which puts them far apart.
fn block_rng(seed: u64, table: u32, block: u64) -> Rng {
    Rng::seed_from_u64(
        seed ^ u64::from(table).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ block.wrapping_mul(0xD1B5_4A32_D192_ED03),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(first: u64, count: u64, form: Form) -> String {
        let (mut rows, mut out) = (Rows::new(7, 1, &Distribution::Uniform, 10_000, first), Vec::new());
        (0..count).for_each(|_| rows.push(form, &mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_same_rows_wherever_a_lane_begins() {
        let whole = text(1, BLOCK_ROWS * 3, Form::Lines);
        let tail = text(BLOCK_ROWS * 2 + 1, BLOCK_ROWS, Form::Lines);
        assert!(whole.ends_with(&tail));
        assert!(tail.starts_with("513\t"));
        assert!(whole.ends_with(&text(300, BLOCK_ROWS * 3 - 299, Form::Lines)), "within a block, too");
    }

    #[test]
    fn both_forms_say_the_same() {
        let (lines, values) = (text(1, 1, Form::Lines), text(1, 1, Form::Values));
        let columns: Vec<&str> = lines.trim_end().split('\t').collect();
        assert_eq!(values, format!("({},{},'{}','{}')", columns[0], columns[1], columns[2], columns[3]));
    }

    #[test]
    fn checksums_of_parts_merge_to_the_whole() {
        let checksum = |first, count| {
            let (mut rows, mut out) = (Rows::new(7, 1, &Distribution::Uniform, 10_000, first), Vec::new());
            (0..count).for_each(|_| rows.push(Form::Lines, &mut out));
            rows.checksum
        };
        let mut parts = checksum(BLOCK_ROWS + 1, 100);
        parts.merge(&checksum(1, BLOCK_ROWS));
        parts.merge(&Checksum::default());
        assert_eq!(parts, checksum(1, BLOCK_ROWS + 100));
        assert_eq!((parts.id_min, parts.id_max, parts.id_sum), (1, 356, 356 * 357 / 2));
    }
}
