// SPDX-License-Identifier: Apache-2.0
//! Page arithmetic: how many rows of a given width fit one page, and which width gives a given number.
//!
//! The `sbtest` columns are `id`, `k`, `c CHAR(120)`, `pad CHAR(60)`. A filler of fixed width makes a row wider, so that a row
//! keeps its width when a load deletes and inserts it again. All sizes are bytes.
//!
//! InnoDB (MySQL and MariaDB, storage/innobase: `page0page.h`, `btr0cur.cc`, `rem0rec.h`): a compact record has a header of 5
//! bytes, a length byte for each column of variable width, and 13 bytes of transaction id and roll pointer. Inserts in key
//! order leave a sixteenth of a page free once it holds two records. A record over half a page moves its longest columns to
//! other pages.
//!
//! PostgreSQL (`bufpage.h`, `htup_details.h`): a page header of 24 bytes; for each row a line pointer of 4 bytes and an aligned tuple header of 24
//! bytes; rows are rounded up to 8. Tables are made with the largest `toast_tuple_target`, so that nothing is compressed or moved out of a row that
//! fits the page.

use super::ServerFacts;
use crate::Protocol;

/// Stored bytes of sbtest's text columns.
const C_BYTES: u64 = 120;
const PAD_BYTES: u64 = 60;
/// The columns of [`super::TEXT_INDEXES`].
const TEXT_INDEX_BYTES: [u64; super::TEXT_INDEXES.len()] = [PAD_BYTES, C_BYTES];
/// `k` is a 32-bit number.
const K_BYTES: u64 = 4;

/// The facts that decide how rows lie on pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub protocol: Protocol,
    pub page_bytes: u64,
    /// 4, or 8 when a table has more than 2^31 - 1 rows.
    pub id_bytes: u64,
    /// The columns `c` and `pad` are of a character set with several bytes a character (InnoDB stores a length for them).
    pub multi_byte: bool,
}

impl Layout {
    pub(super) fn new(facts: &ServerFacts, wide_ids: bool) -> Self {
        Self {
            protocol: facts.protocol,
            page_bytes: facts.page_bytes,
            id_bytes: if wide_ids { 8 } else { 4 },
            multi_byte: facts.character_bytes_max > 1,
        }
    }

    /// Bytes of the columns, without the server's own bytes.
    pub(super) fn row_bytes(&self, filler: u64) -> u64 {
        self.id_bytes + K_BYTES + C_BYTES + PAD_BYTES + filler
    }

    /// Bytes of one row on its page, without its share of the page's directory.
    pub(super) fn record_bytes(&self, filler: u64) -> u64 {
        match self.protocol {
            Protocol::Mysql => {
                let lengths = if self.multi_byte { 2 } else { 0 };
                INNODB_RECORD_HEADER + INNODB_TRANSACTION_COLUMNS + lengths + self.row_bytes(filler)
            }
            Protocol::Postgresql => {
                let fixed = self.id_bytes + K_BYTES;
                let texts = fixed + short_text(C_BYTES) + short_text(PAD_BYTES);
                align_8(POSTGRESQL_TUPLE_HEADER + with_text(texts, filler))
            }
        }
    }

    /// How many rows fit one page when they are inserted in key order. `None`: a part of the row is stored outside of its page.
    pub(super) fn rows_per_page(&self, filler: u64) -> Option<u64> {
        let record = self.record_bytes(filler);
        match self.protocol {
            Protocol::Mysql => innodb_rows_per_page(self.page_bytes, record),
            Protocol::Postgresql => postgresql_rows_per_page(self.page_bytes, record),
        }
    }

    /// The widest filler for which the whole row stays on its page.
    pub(super) fn filler_max(&self) -> u64 {
        largest(self.page_bytes, |filler| self.rows_per_page(filler).is_some())
    }

    /// The middle of the fillers that give exactly `rows` rows on a page: the farthest from both neighbours.
    pub(super) fn filler_for(&self, rows: u64) -> Option<u64> {
        let max = self.filler_max();
        // The number of rows falls as the filler grows.
        let at_least = |wanted: u64| {
            let fits = |filler| self.rows_per_page(filler).is_some_and(|n| n >= wanted);
            fits(0).then(|| largest(max, fits))
        };
        let widest = at_least(rows)?;
        let narrowest = at_least(rows + 1).map_or(0, |too_narrow| too_narrow + 1);
        (narrowest <= widest).then(|| narrowest + (widest - narrowest) / 2)
    }

    /// Index bytes for each row, with pages as full as the server's own index builder makes them. The primary key counts where it
    /// has a file of its own.
    ///
    /// PostgreSQL stores equal keys once, with a list of rows: an index on a skewed `k` is smaller than this.
    pub(super) fn index_bytes_per_row(&self, secondary: bool, text_indexes: u32) -> f64 {
        let on_k = secondary.then_some(None);
        let on_text = TEXT_INDEX_BYTES.into_iter().take(text_indexes as usize).map(Some);
        let indexes = on_k.into_iter().chain(on_text);
        match self.protocol {
            Protocol::Mysql => indexes.map(|text| self.innodb_index_bytes(text)).sum(),
            Protocol::Postgresql => {
                // The primary key's entry is as wide as an entry of k.
                std::iter::once(None).chain(indexes).map(|text| self.postgresql_index_bytes(text)).sum()
            }
        }
    }

    /// Bytes of an entry of an index on `k`, or on a text of this many bytes.
    fn innodb_index_bytes(&self, text: Option<u64>) -> f64 {
        let length = u64::from(self.multi_byte);
        let key = text.map_or(K_BYTES, |bytes| bytes + length);
        let entry = (INNODB_RECORD_HEADER + key + self.id_bytes) as f64 + 0.5;
        entry * self.page_bytes as f64 / innodb_space(self.page_bytes) as f64
    }

    /// Bytes of an entry with its line pointer, on pages that are 90 % full.
    fn postgresql_index_bytes(&self, text: Option<u64>) -> f64 {
        let key = text.map_or(K_BYTES, short_text);
        let entry = align_8(POSTGRESQL_INDEX_HEADER + key) + POSTGRESQL_LINE_POINTER;
        entry as f64 / 0.9 * self.page_bytes as f64 / (self.page_bytes - 40) as f64
    }

    /// Bytes of the levels above the rows, for each page of rows.
    pub(super) fn parent_bytes_per_page(&self) -> f64 {
        match self.protocol {
            Protocol::Mysql => (INNODB_RECORD_HEADER + self.id_bytes + 4) as f64 * 16.0 / 15.0,
            Protocol::Postgresql => 0.0,
        }
    }
}

const INNODB_RECORD_HEADER: u64 = 5;
/// `DB_TRX_ID` and `DB_ROLL_PTR`.
const INNODB_TRANSACTION_COLUMNS: u64 = 13;
/// `PAGE_NEW_SUPREMUM_END`, `PAGE_DIR` and two directory slots.
const INNODB_PAGE_OVERHEAD: u64 = 120 + 8 + 4;
/// `REC_MAX_DATA_SIZE`: every record is shorter than this, on any page size.
const INNODB_RECORD_MAX: u64 = 16_384;

const POSTGRESQL_PAGE_HEADER: u64 = 24;
const POSTGRESQL_TUPLE_HEADER: u64 = 24;
const POSTGRESQL_LINE_POINTER: u64 = 4;
const POSTGRESQL_INDEX_HEADER: u64 = 8;

fn innodb_space(page: u64) -> u64 {
    page.saturating_sub(INNODB_PAGE_OVERHEAD)
}

fn innodb_rows_per_page(page: u64, record: u64) -> Option<u64> {
    let space = innodb_space(page);
    if record >= (space / 2).min(INNODB_RECORD_MAX) {
        return None;
    }
    // page_dir_calc_reserved_space: a slot of two bytes for every four records
    let taken = |rows: u64| rows * record + rows.div_ceil(2);
    let fits = |rows: u64| taken(rows) + if rows > 2 { page / 16 } else { 0 } <= space;
    Some(largest(space / record, fits))
}

fn postgresql_rows_per_page(page: u64, record: u64) -> Option<u64> {
    let space = page - POSTGRESQL_PAGE_HEADER;
    let rows = space / (record + POSTGRESQL_LINE_POINTER);
    // MaxHeapTupleSize, and TOAST_TUPLE_TARGET_MAIN beyond which text would be compressed
    (rows > 0).then_some(rows)
}

/// A text of up to 126 bytes has one length byte and no alignment.
const SHORT_TEXT_MAX: u64 = 126;

fn short_text(bytes: u64) -> u64 {
    bytes + 1
}

/// `before` bytes of columns, followed by a text of `bytes`; 0: no such column.
fn with_text(before: u64, bytes: u64) -> u64 {
    match bytes {
        0 => before,
        1..=SHORT_TEXT_MAX => before + short_text(bytes),
        _ => before.next_multiple_of(4) + 4 + bytes,
    }
}

fn align_8(bytes: u64) -> u64 {
    bytes.next_multiple_of(8)
}

/// The largest number in `0..=max` for which `holds` is true. `holds` must be true for all smaller numbers, too. 0 when there is none.
fn largest(max: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, max);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if holds(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn innodb() -> Layout {
        Layout { protocol: Protocol::Mysql, page_bytes: 16_384, id_bytes: 4, multi_byte: false }
    }

    fn postgresql() -> Layout {
        Layout { protocol: Protocol::Postgresql, page_bytes: 8192, id_bytes: 4, multi_byte: true }
    }

    /// Read back from MariaDB 10.11 (`n_leaf_pages`) and PostgreSQL 15 (`pg_relation_size`).
    #[test]
    fn sysbenchs_own_rows() {
        assert_eq!(innodb().record_bytes(0), 206);
        assert_eq!(innodb().rows_per_page(0), Some(73));
        assert_eq!(postgresql().record_bytes(0), 216);
        assert_eq!(postgresql().rows_per_page(0), Some(37));
    }

    #[test]
    fn widths_for_round_numbers() {
        assert_eq!(innodb().filler_for(4), Some(3220));
        assert_eq!(innodb().filler_for(16), Some(717));
        assert_eq!(innodb().filler_for(1), None, "two rows of half a page fit any page");
        assert_eq!(innodb().filler_for(200), None);
        assert!(postgresql().filler_for(1).is_some());
        assert_eq!(postgresql().filler_for(36), None, "rows are rounded to 8 bytes");
    }

    #[test]
    fn no_row_leaves_its_page() {
        assert_eq!(innodb().record_bytes(innodb().filler_max()), 8125, "the server refuses 8126");
        assert_eq!(postgresql().record_bytes(postgresql().filler_max()), 8160, "MaxHeapTupleSize");
    }

    proptest! {
        #[test]
        fn the_width_found_gives_the_rows_asked(
            rows in 1u64..80, protocol in 0usize..2, shift in 12u32..17, wide: bool, multi_byte: bool,
        ) {
            let page_bytes = 1 << shift;
            let protocol = [Protocol::Mysql, Protocol::Postgresql][protocol];
            let layout = Layout { protocol, page_bytes, id_bytes: if wide { 8 } else { 4 }, multi_byte };
            if let Some(filler) = layout.filler_for(rows) {
                prop_assert_eq!(layout.rows_per_page(filler), Some(rows));
            } else {
                // `None`: no width gives that number.
                prop_assert!((0..=layout.filler_max()).all(|filler| layout.rows_per_page(filler) != Some(rows)));
            }
        }

        #[test]
        fn wider_rows_are_fewer(filler in 0u64..7000) {
            for layout in [innodb(), postgresql()] {
                prop_assert!(layout.rows_per_page(filler + 1) <= layout.rows_per_page(filler));
            }
        }
    }
}
