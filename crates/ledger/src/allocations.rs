// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL's shared memory by allocation.
//!
//! The server knows where each allocation is (`pg_shmem_allocations`), and the kernel which pages the processes have touched. Where the kernel's part was
//! not read, all that is left is a division by size.

use crate::claim::Claim;
use crate::entries::Basis;
use crate::figures::Figures;
use crate::share::{self, sane};
use crate::{SegmentSeen, SharedAllocation};

const MEASURED: &str = "pg_shmem_allocations, and /proc/PID/pagemap of the server's processes";
const DIVIDED: &str = "pg_shmem_allocations, divided as if each were as resident as the whole segment is";
const NOT_SEEN: &str =
    "pg_shmem_allocations: pages of processes that were not looked at, divided by the room that is left in each";

/// `resident`: what is resident of the whole segment. The claims may sum to more.
pub(crate) fn claims(resident: u64, figures: &Figures<'_>, segment: Option<&SegmentSeen>) -> Vec<Claim> {
    let rows = figures.server().map_or(&[][..], |server| &server.shared_allocations);
    match segment.filter(|_| rows.iter().any(|row| row.touched.is_some())) {
        Some(segment) => measured(resident, rows, segment, figures.at_us()),
        None => rows
            .iter()
            .map(|row| claim(row, bytes(row), Some(bytes(row)), DIVIDED, figures.at_us()).guessed())
            .collect(),
    }
}

fn measured(resident: u64, rows: &[SharedAllocation], segment: &SegmentSeen, at_us: u64) -> Vec<Claim> {
    let touched = touched(rows, segment);
    let rooms: Vec<u64> = rows.iter().zip(&touched).map(|(row, touched)| bytes(row) - touched).collect();
    let room: u128 = rooms.iter().map(|room| u128::from(*room)).sum();
    let not_seen = if segment.is_whole { 0 } else { resident.saturating_sub(touched.iter().sum()) };
    let known = rows.iter().zip(&touched).map(|(row, it)| claim(row, *it, Some(bytes(row)), MEASURED, at_us));
    // its allocated bytes are in the known part
    let guessed = rows
        .iter()
        .zip(&rooms)
        .map(|(row, it)| claim(row, share::of(not_seen, *it, room).min(*it), Some(0), NOT_SEEN, at_us).guessed());
    known.chain(guessed.filter(|claim| claim.resident > 0)).collect()
}

/// The touched bytes of each. What has no place of its own, `<anonymous>`, lies in the gaps between the others, and all that lies there is its.
fn touched(rows: &[SharedAllocation], segment: &SegmentSeen) -> Vec<u64> {
    let placed = |row: &SharedAllocation| row.touched.map(|touched| sane(touched).min(bytes(row)));
    let sum: u64 = rows.iter().filter_map(placed).fold(0, u64::saturating_add);
    let mut gaps = sane(segment.touched).saturating_sub(sum);
    let mut of = |row: &SharedAllocation| {
        placed(row).unwrap_or_else(|| {
            let part = gaps.min(bytes(row));
            gaps -= part;
            part
        })
    };
    rows.iter().map(&mut of).collect()
}

fn bytes(row: &SharedAllocation) -> u64 {
    sane(row.allocated_size.max(row.size))
}

fn claim(row: &SharedAllocation, resident: u64, allocated: Option<u64>, source: &str, at_us: u64) -> Claim {
    let name = row.name.as_deref().unwrap_or("unused").replace('/', "_");
    Claim {
        path: format!("shared_memory/{}", name.trim_matches(['<', '>'])),
        resident,
        allocated,
        basis: Basis::Server,
        source: source.to_owned(),
        at_us,
    }
}

impl Claim {
    fn guessed(self) -> Self {
        Self { basis: Basis::Formula, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Account, Inventory, Leaf, Mapping, ProcessSeen, ServerSeen};
    use capability::Flavour;

    const MIB: u64 = 1 << 20;

    /// As measured with a fresh PostgreSQL 15: (name, offset, size, touched).
    fn inventory(pss: u64, segment: Option<SegmentSeen>) -> Inventory {
        let rows = [
            (Some("XLOG Ctl"), Some(1), 4 * MIB, Some(4 * MIB)),
            (Some("Buffer Descriptors"), Some(6 * MIB), MIB, Some(MIB)),
            (Some("Buffer Blocks"), Some(7 * MIB), 128 * MIB, Some(16_384)),
            (None, Some(141 * MIB), 2 * MIB, Some(0)),
            (Some("<anonymous>"), None, 5 * MIB, None),
        ];
        let row = |(name, offset, size, touched): (Option<&str>, Option<u64>, u64, Option<u64>)| SharedAllocation {
            name: name.map(str::to_owned),
            offset,
            size,
            allocated_size: size,
            touched: touched.filter(|_| segment.is_some()),
        };
        let shared_allocations = rows.into_iter().map(row).collect();
        let mapping = Mapping {
            end: 143 * MIB,
            permissions: "rw-s".into(),
            inode: 8,
            path: "/dev/zero (deleted)".into(),
            rss: pss,
            pss,
            ..Mapping::default()
        };
        Inventory {
            flavour: Some(Flavour::Postgresql),
            version: Some("15".into()),
            processes: vec![ProcessSeen { mappings: Some(vec![mapping]), ..ProcessSeen::default() }],
            server: Some(ServerSeen { shared_allocations, ..ServerSeen::default() }),
            segment,
            ..Inventory::default()
        }
    }

    fn seen(touched: u64, is_whole: bool) -> Option<SegmentSeen> {
        Some(SegmentSeen { inode: 8, mapped: 143 * MIB, touched, is_whole, ..SegmentSeen::default() })
    }

    fn of(account: &Account, name: &str) -> (u64, Option<u64>, Basis) {
        let path = format!("shared_memory/{name}");
        let leaf: &Leaf = account.leaves.iter().find(|leaf| leaf.path == path).expect("the leaf");
        (leaf.resident_bytes, leaf.allocated_bytes, leaf.basis)
    }

    #[test]
    fn each_allocation_has_the_pages_that_were_touched_where_it_is() {
        let account = crate::account(&inventory(7 * MIB, seen(7 * MIB, true)));
        assert_eq!(of(&account, "XLOG Ctl"), (4 * MIB, Some(4 * MIB), Basis::Server));
        assert_eq!(of(&account, "Buffer Descriptors"), (MIB, Some(MIB), Basis::Server));
        assert_eq!(of(&account, "Buffer Blocks"), (16_384, Some(128 * MIB), Basis::Server));
        assert_eq!(of(&account, "unused"), (0, Some(2 * MIB), Basis::Server));
        assert_eq!(of(&account, "anonymous"), (2 * MIB - 16_384, Some(5 * MIB), Basis::Server), "all in the gaps");
        assert_eq!((account.kernel_total_bytes, account.unexplained_bytes), (7 * MIB, 0));
    }

    /// 60 MiB were touched by processes that were not looked at: they can only lie where there is room.
    #[test]
    fn what_was_not_looked_at_lies_where_there_is_room() {
        let account = crate::account(&inventory(67 * MIB, seen(7 * MIB, false)));
        assert_eq!(of(&account, "XLOG Ctl"), (4 * MIB, Some(4 * MIB), Basis::Server));
        let (blocks, allocated, basis) = of(&account, "Buffer Blocks");
        assert!(blocks > 57 * MIB && allocated == Some(128 * MIB), "{blocks} {allocated:?}");
        assert_eq!(basis, Basis::Formula, "most of it is a guess");
        assert_eq!(of(&account, "anonymous").1, Some(5 * MIB));
        assert_eq!(account.unexplained_bytes, 0);
    }

    #[test]
    fn an_old_recording_is_divided_and_says_so() {
        let account = crate::account(&inventory(14 * MIB, None));
        let (blocks, allocated, basis) = of(&account, "Buffer Blocks");
        assert!(blocks.abs_diff(14 * MIB * 128 / 140) < 2 && allocated == Some(128 * MIB));
        assert_eq!(basis, Basis::Formula, "no meter tells how much of it is resident");
        let old = r#"{"name": "XLOG Ctl", "offset": 1, "size": 2, "allocated_size": 3}"#;
        assert_eq!(serde_json::from_str::<SharedAllocation>(old).expect("an old row").touched, None);
    }

    #[test]
    fn more_than_is_resident_is_never_said() {
        let account = crate::account(&inventory(MIB, seen(7 * MIB, true)));
        assert_eq!((account.kernel_total_bytes, account.unexplained_bytes), (MIB, 0));
        let damaged = seen(u64::MAX, false);
        assert_eq!(crate::account(&inventory(9 * MIB, damaged)).unexplained_bytes, 0);
    }
}
