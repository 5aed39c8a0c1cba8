// SPDX-License-Identifier: Apache-2.0
//! Memory in huge pages of the pool (hugetlb): its size, counted once, and its purpose.

use crate::claim::Claim;
use crate::class::{self, Class};
use crate::entries::Basis;
use crate::figures::Figures;
use crate::leaf;
use crate::row::Row;
use crate::settle;
use crate::share::sane;
use crate::{Inventory, Mapping};
use capability::Flavour;
use std::collections::BTreeMap;

const PREFIX: &str = "huge_pages/";

/// Huge pages are outside of Pss. Each file of them counts once, whoever maps it; private ones count for each mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HugeSegment {
    pub(crate) resident: u64,
    pub(crate) mapped: u64,
    /// How much more it may be, because each process only tells the pages that it has touched itself.
    pub(crate) apart: u64,
    pub(crate) is_shared: bool,
}

pub(crate) fn segments(inventory: &Inventory) -> Vec<HugeSegment> {
    let mut shared: BTreeMap<(String, u64), Vec<(u64, u64)>> = BTreeMap::new();
    let mut segments = Vec::new();
    for process in &inventory.processes {
        let mut own: BTreeMap<(String, u64), (u64, u64)> = BTreeMap::new();
        for mapping in process.mappings.iter().flatten().filter(|it| class::is_hugetlb(it)) {
            let (touched, length) =
                (sane(mapping.private_hugetlb) + sane(mapping.shared_hugetlb), sane(class::length(mapping)));
            if mapping.permissions.ends_with('s') && mapping.inode != 0 {
                let sum = own.entry((mapping.device.clone(), mapping.inode)).or_default();
                *sum = (sum.0 + touched, sum.1 + length);
            } else {
                segments.push(HugeSegment { resident: touched, mapped: length, apart: 0, is_shared: false });
            }
        }
        own.into_iter().for_each(|(file, sums)| shared.entry(file).or_default().push(sums));
    }
    segments.extend(shared.into_values().map(|sums| segment(&sums)));
    segments.extend(by_status(inventory, &segments));
    segments
}

fn segment(sums: &[(u64, u64)]) -> HugeSegment {
    let resident = sums.iter().map(|(touched, _)| *touched).max().unwrap_or(0);
    let mapped = sums.iter().map(|(_, length)| *length).max().unwrap_or(0);
    let all: u64 = sums.iter().map(|(touched, _)| *touched).fold(0, u64::saturating_add);
    HugeSegment { resident, mapped, apart: all.min(mapped).saturating_sub(resident), is_shared: true }
}

/// Where no mapping was read: the largest `HugetlbPages` of a process, because forked ones share them.
fn by_status(inventory: &Inventory, seen: &[HugeSegment]) -> Option<HugeSegment> {
    let largest =
        inventory.processes.iter().filter_map(|it| it.status.get("HugetlbPages")).max().map_or(0, |it| sane(*it));
    let is_shared = inventory.processes.len() > 1;
    (seen.is_empty() && largest > 0).then_some(HugeSegment { resident: largest, mapped: largest, apart: 0, is_shared })
}

/// Leaves below `huge_pages/`, by the purpose of the memory.
pub(crate) fn claims(segments: &[HugeSegment], figures: &Figures<'_>, rows: &[&'static Row]) -> Vec<Claim> {
    let is_pool = |segment: &&HugeSegment| class_of(segment, figures) == Class::BufferPool;
    let (pool, others): (Vec<&HugeSegment>, Vec<&HugeSegment>) =
        segments.iter().filter(|it| it.resident > 0).partition(is_pool);
    // the server's figure for its pool covers all chunks together
    let resident: u64 = pool.iter().map(|it| it.resident).sum();
    let mapped: u64 = pool.iter().map(|it| it.mapped).sum();
    let of_pool = if resident > 0 { settle::split_pool(resident, mapped, figures, 0) } else { Vec::new() };
    let of_others = others.into_iter().flat_map(|it| of_segment(it, figures, rows));
    of_pool
        .into_iter()
        .chain(of_others)
        .map(|claim| Claim { path: format!("{PREFIX}{}", claim.path), ..claim })
        .collect()
}

fn of_segment(segment: &HugeSegment, figures: &Figures<'_>, rows: &[&'static Row]) -> Vec<Claim> {
    let class = class_of(segment, figures);
    match class {
        Class::MainShared => settle::shared(segment.resident, figures, rows, 0),
        _ => vec![Claim {
            path: leaf::of_class(class).map_or("other", |row| row.path.trim_start_matches(PREFIX)).to_owned(),
            resident: segment.resident,
            allocated: Some(segment.mapped.max(segment.resident)),
            basis: Basis::Kernel,
            source: "/proc/PID/smaps, Private_Hugetlb and Shared_Hugetlb".into(),
            at_us: 0,
        }],
    }
}

/// The leaves whose memory lies in huge pages, so that it is not private memory.
pub(crate) fn leaves(inventory: &Inventory, figures: &Figures<'_>) -> Vec<&'static str> {
    let classes = segments(inventory).into_iter().map(|segment| class_of(&segment, figures));
    classes.filter_map(|class| Some(leaf::of_class(class)?.path)).collect()
}

/// The class of one mapping in huge pages.
pub(crate) fn class_of_mapping(mapping: &Mapping, figures: &Figures<'_>) -> Class {
    let (mapped, is_shared) = (class::length(mapping), mapping.permissions.ends_with('s'));
    class_of(&HugeSegment { resident: mapped, mapped, apart: 0, is_shared }, figures)
}

/// The class by the mapping's size; [`Class::HugePages`] where the size tells none.
fn class_of(segment: &HugeSegment, figures: &Figures<'_>) -> Class {
    match figures.flavour {
        Some(Flavour::Postgresql) if segment.is_shared => Class::MainShared,
        Some(Flavour::Mariadb | Flavour::Mysql | Flavour::Percona) if class::is_huge_chunk(segment.mapped, figures) => {
            Class::BufferPool
        }
        _ => class::cache_of_size(segment.mapped, true, true, figures).unwrap_or(Class::HugePages),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProcessSeen, ServerSeen};

    const MIB: u64 = 1 << 20;

    /// As measured with MariaDB 10.11.19: 259 pages, of which 128 for the pool, 8 for each log buffer, 53 for the key cache, 62 for Aria's.
    #[test]
    fn a_mariadb_in_huge_pages() {
        let pages = [128, 8, 8, 53, 62];
        let mapping = |(inode, pages): (u64, u64)| Mapping {
            start: inode << 40,
            end: (inode << 40) + pages * 2 * MIB,
            inode,
            permissions: "rw-p".into(),
            path: "/anon_hugepage (deleted)".into(),
            private_hugetlb: pages * MIB,
            ..Mapping::default()
        };
        let mappings = Some((1..).zip(pages).map(mapping).collect());
        let variables = [
            ("innodb_buffer_pool_size", 256 * MIB),
            ("innodb_log_buffer_size", 16 * MIB),
            ("key_buffer_size", 128 * MIB),
            ("aria_pagecache_buffer_size", 128 * MIB),
        ];
        let variables = variables.into_iter().map(|(name, size)| (name.to_owned(), size.to_string())).collect();
        let inventory = Inventory {
            flavour: Some(Flavour::Mariadb),
            processes: vec![ProcessSeen { mappings, ..ProcessSeen::default() }],
            server: Some(ServerSeen { variables, ..ServerSeen::default() }),
            ..Inventory::default()
        };
        let account = crate::account(&inventory);
        let found: Vec<_> = account
            .leaves
            .iter()
            .filter(|leaf| leaf.resident_bytes > 0)
            .map(|leaf| (leaf.path.as_str(), leaf.resident_bytes / MIB))
            .collect();
        let expected = [
            ("huge_pages/data_cache/aria_cache", 62),
            ("huge_pages/data_cache/buffer_pool", 128),
            ("huge_pages/data_cache/key_cache", 53),
            ("huge_pages/log/redo_buffer", 16),
        ];
        assert_eq!(found, expected);
        assert_eq!(account.kernel_total_bytes, 259 * MIB);
    }

    /// What the server says of its pool is of all chunks: 8 of 128 MiB are 1 GiB.
    #[test]
    fn a_pool_of_many_chunks_is_one_pool() {
        let chunk = |nth: u64| Mapping {
            start: nth << 40,
            end: (nth << 40) + 132 * MIB,
            inode: nth,
            permissions: "rw-p".into(),
            path: "/anon_hugepage (deleted)".into(),
            private_hugetlb: 100 * MIB,
            ..Mapping::default()
        };
        let variables = [("innodb_buffer_pool_size", 1024 * MIB), ("innodb_buffer_pool_chunk_size", 128 * MIB)];
        let variables = variables.into_iter().map(|(name, size)| (name.to_owned(), size.to_string())).collect();
        let mappings = Some((1..=8).map(chunk).collect());
        let inventory = Inventory {
            flavour: Some(Flavour::Mysql),
            processes: vec![ProcessSeen { mappings, ..ProcessSeen::default() }],
            server: Some(ServerSeen { variables, ..ServerSeen::default() }),
            ..Inventory::default()
        };
        let account = crate::account(&inventory);
        let pool: Vec<_> =
            account.leaves.iter().filter(|leaf| leaf.path.starts_with("huge_pages/data_cache/buffer_pool")).collect();
        assert_eq!(pool.iter().map(|leaf| leaf.resident_bytes).sum::<u64>(), 800 * MIB);
        assert!(pool.iter().all(|leaf| leaf.allocated_bytes <= Some(1024 * MIB)), "{pool:?}");
    }
}
