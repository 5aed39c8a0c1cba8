// SPDX-License-Identifier: Apache-2.0
//! Memory in huge pages of the pool (hugetlb): its size, counted once, and its purpose.

use crate::claim::Claim;
use crate::class::{self, Class};
use crate::entries::Basis;
use crate::figures::Figures;
use crate::leaf;
use crate::leaves_of_classes;
use crate::row::Row;
use crate::share::sane;
use crate::{Inventory, Mapping, Missing, SegmentSeen};
use capability::Flavour;
use std::collections::BTreeMap;

const PREFIX: &str = "huge_pages/";

/// Huge pages are outside of Pss. Each file of them counts once, whoever maps it; private ones count for each mapping.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HugeSegment {
    pub(crate) resident: u64,
    pub(crate) mapped: u64,
    /// How much more it may be, because each process only tells the pages that it has touched itself.
    pub(crate) apart: u64,
    pub(crate) is_shared: bool,
    /// The size of its pages, to which its length is rounded up.
    page_bytes: u64,
    /// What tells more than the processes' own figures.
    source: Option<&'static str>,
}

type File = (String, u64);

pub(crate) fn segments(inventory: &Inventory) -> Vec<HugeSegment> {
    let mut shared: BTreeMap<File, Vec<(u64, u64)>> = BTreeMap::new();
    let (mut segments, mut page_sizes) = (Vec::new(), BTreeMap::new());
    for process in &inventory.processes {
        let mut own: BTreeMap<File, (u64, u64)> = BTreeMap::new();
        for mapping in process.mappings.iter().flatten().filter(|it| class::is_hugetlb(it)) {
            let (touched, length) =
                (sane(mapping.private_hugetlb) + sane(mapping.shared_hugetlb), sane(class::length(mapping)));
            let page_bytes = mapping.kernel_page_bytes;
            if mapping.permissions.ends_with('s') && mapping.inode != 0 {
                let file = (mapping.device.clone(), mapping.inode);
                page_sizes.insert(file.clone(), page_bytes);
                let sum = own.entry(file).or_default();
                *sum = (sum.0 + touched, sum.1 + length);
            } else {
                segments.push(HugeSegment { resident: touched, mapped: length, page_bytes, ..HugeSegment::default() });
            }
        }
        own.into_iter().for_each(|(file, sums)| shared.entry(file).or_default().push(sums));
    }
    segments.extend(shared.into_iter().map(|(file, sums)| HugeSegment {
        page_bytes: page_sizes.get(&file).copied().unwrap_or(0),
        ..segment(&sums, seen_of(inventory, &file))
    }));
    segments.extend(by_status(inventory, &segments));
    by_pool(inventory, &mut segments);
    segments
}

fn seen_of<'a>(inventory: &'a Inventory, (device, inode): &File) -> Option<&'a SegmentSeen> {
    inventory.segment.as_ref().filter(|it| it.device == *device && it.inode == *inode)
}

/// By the blocks of the file, which are its pages; else by the pages that all processes have touched; else by the process that has touched the most.
fn segment(sums: &[(u64, u64)], seen: Option<&SegmentSeen>) -> HugeSegment {
    let mapped = sums.iter().map(|(_, length)| *length).max().unwrap_or(0);
    let largest = sums.iter().map(|(touched, _)| *touched).max().unwrap_or(0);
    let union = seen.map_or(0, |it| it.touched.min(mapped));
    let resident = largest.max(union);
    let blocks = seen.and_then(|it| it.blocks).filter(|bytes| (resident..=mapped).contains(bytes));
    if let Some(resident) = blocks {
        return HugeSegment { resident, mapped, is_shared: true, source: Some(BY_BLOCKS), ..HugeSegment::default() };
    }
    let all: u64 = sums.iter().map(|(touched, _)| *touched).fold(0, u64::saturating_add);
    // with the union, what is left are the pages of processes that have ended, of which nothing tells how many they are
    let most = if seen.is_some() { mapped } else { all.min(mapped) };
    let source = seen.map(|_| BY_PROCESSES);
    let apart = most.saturating_sub(resident);
    HugeSegment { resident, mapped, apart, is_shared: true, source, ..HugeSegment::default() }
}

/// Where no mapping was read: the largest `HugetlbPages` of a process, because forked ones share them.
fn by_status(inventory: &Inventory, seen: &[HugeSegment]) -> Option<HugeSegment> {
    let largest =
        inventory.processes.iter().filter_map(|it| it.status.get("HugetlbPages")).max().map_or(0, |it| sane(*it));
    let is_shared = inventory.processes.len() > 1;
    // of forked ones, it may be all that is in use
    let mapped = pool_in_use(inventory).filter(|_| is_shared).map_or(largest, |in_use| in_use.max(largest));
    let apart = mapped - largest;
    let one = HugeSegment { resident: largest, mapped, apart, is_shared, ..HugeSegment::default() };
    (seen.is_empty() && largest > 0).then_some(one)
}

/// Several processes that share one segment, of which nothing tells all pages, have at most what is in use of the pool; without other users, all of it.
fn by_pool(inventory: &Inventory, segments: &mut [HugeSegment]) {
    let Some(in_use) = pool_in_use(inventory).filter(|_| inventory.processes.len() > 1) else { return };
    let private: u64 = segments.iter().filter(|it| !it.is_shared).map(|it| it.resident).sum();
    let mut shared = segments.iter_mut().filter(|it| it.is_shared);
    let (Some(one), None) = (shared.next(), shared.next()) else { return };
    let Some(left) = in_use.checked_sub(private.saturating_add(one.resident)) else { return };
    if one.source == Some(BY_BLOCKS) {
        return;
    }
    one.apart = one.apart.min(left);
    if inventory.host.huge_pages_of_others == Some(0) && one.resident + left <= one.mapped {
        (one.resident, one.apart, one.source) = (one.resident + left, 0, Some(BY_POOL));
    }
}

/// Of pages of the default size. `None`: not known, or the server has pages of another size.
fn pool_in_use(inventory: &Inventory) -> Option<u64> {
    let field = |name: &str| inventory.host.meminfo.get(name).copied();
    let page_bytes = field("Hugepagesize").filter(|size| *size > 0)?;
    let mappings = inventory.processes.iter().flat_map(|it| it.mappings.iter().flatten());
    let is_other = |it: &Mapping| class::is_hugetlb(it) && it.kernel_page_bytes != page_bytes;
    let pages = field("HugePages_Total")?.checked_sub(field("HugePages_Free")?)?;
    (!mappings.into_iter().any(is_other)).then(|| sane(pages.saturating_mul(page_bytes)))
}

/// What is said where the pages of all processes together are not known.
pub(crate) fn missing(segments: &[HugeSegment]) -> Option<Missing> {
    let apart: u64 = segments.iter().map(|segment| segment.apart).sum();
    (apart > 0).then(|| Missing {
        what: "huge pages in use".into(),
        why: "each process shows only the pages that it has touched itself, and those of processes that have ended \
              are in use, too"
            .into(),
        remedy: Some("run as root".into()),
    })
}

const BY_BLOCKS: &str = "stat(2) of /proc/PID/map_files, st_blocks";
const BY_PROCESSES: &str = "/proc/PID/pagemap of the server's processes";
const BY_POOL: &str = "/proc/meminfo, HugePages_Total - HugePages_Free: no other process has any";
const BY_SMAPS: &str = "/proc/PID/smaps, Private_Hugetlb and Shared_Hugetlb";

/// Leaves below `huge_pages/`, by the purpose of the memory.
pub(crate) fn claims(
    segments: &[HugeSegment],
    seen: Option<&SegmentSeen>,
    figures: &Figures<'_>,
    rows: &[&'static Row],
) -> Vec<Claim> {
    let is_pool = |segment: &&HugeSegment| class_of(segment, figures) == Class::BufferPool;
    let (pool, others): (Vec<&HugeSegment>, Vec<&HugeSegment>) =
        segments.iter().filter(|it| it.resident > 0).partition(is_pool);
    // the server's figure for its pool covers all chunks together
    let resident: u64 = pool.iter().map(|it| it.resident).sum();
    let mapped: u64 = pool.iter().map(|it| it.mapped).sum();
    let of_pool = if resident > 0 { leaves_of_classes::split_pool(resident, mapped, figures, 0) } else { Vec::new() };
    let of_others = others.into_iter().flat_map(|it| of_segment(it, seen, figures, rows));
    of_pool
        .into_iter()
        .chain(of_others)
        .map(|claim| Claim { path: format!("{PREFIX}{}", claim.path), ..claim })
        .collect()
}

fn of_segment(
    segment: &HugeSegment,
    seen: Option<&SegmentSeen>,
    figures: &Figures<'_>,
    rows: &[&'static Row],
) -> Vec<Claim> {
    let class = class_of(segment, figures);
    let source = segment.source.unwrap_or(BY_SMAPS);
    if class == Class::MainShared {
        let mut claims = leaves_of_classes::shared(segment.resident, figures, rows, seen, 0);
        let by_kernel = claims.iter_mut().filter(|claim| claim.basis == Basis::Kernel);
        by_kernel.for_each(|claim| source.clone_into(&mut claim.source));
        return claims;
    }
    vec![Claim {
        path: leaf::of_class(class).map_or("other", |row| row.path.trim_start_matches(PREFIX)).to_owned(),
        resident: segment.resident,
        allocated: Some(segment.mapped.max(segment.resident)),
        basis: Basis::Kernel,
        source: source.into(),
        at_us: 0,
    }]
}

/// The leaves whose memory lies in huge pages, so that it is not private memory.
pub(crate) fn leaves(inventory: &Inventory, figures: &Figures<'_>) -> Vec<&'static str> {
    let classes = segments(inventory).into_iter().map(|segment| class_of(&segment, figures));
    classes.filter_map(|class| Some(leaf::of_class(class)?.path)).collect()
}

/// The class of one mapping in huge pages.
pub(crate) fn class_of_mapping(mapping: &Mapping, figures: &Figures<'_>) -> Class {
    let (mapped, is_shared) = (class::length(mapping), mapping.permissions.ends_with('s'));
    let page_bytes = mapping.kernel_page_bytes;
    class_of(&HugeSegment { resident: mapped, mapped, is_shared, page_bytes, ..HugeSegment::default() }, figures)
}

/// The class by the mapping's size; [`Class::HugePages`] where the size tells none.
fn class_of(segment: &HugeSegment, figures: &Figures<'_>) -> Class {
    let is_chunk = || class::is_huge_chunk(segment.mapped, segment.page_bytes, figures);
    match figures.flavour {
        Some(Flavour::Postgresql) if segment.is_shared => Class::MainShared,
        Some(Flavour::Mariadb | Flavour::Mysql | Flavour::Percona) if is_chunk() => Class::BufferPool,
        _ => {
            let page_bytes = class::huge_page(segment.page_bytes);
            class::cache_of_size(segment.mapped, true, Some(page_bytes), figures).unwrap_or(Class::HugePages)
        }
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

    /// A length is rounded up to whole pages, of whatever size.
    #[test]
    fn a_pool_in_pages_of_a_gibibyte() {
        let mapping = Mapping {
            end: 2048 * MIB,
            inode: 7,
            permissions: "rw-s".into(),
            path: "/SYSV00000000 (deleted)".into(),
            shared_hugetlb: 2048 * MIB,
            kernel_page_bytes: 1024 * MIB,
            ..Mapping::default()
        };
        let figure = |name: &str, mib: u64| (name.to_owned(), (mib * MIB).to_string());
        let variables = [figure("innodb_buffer_pool_size", 1536), figure("innodb_buffer_pool_chunk_size", 1536)].into();
        let inventory = Inventory {
            flavour: Some(Flavour::Mysql),
            processes: vec![ProcessSeen { mappings: Some(vec![mapping]), ..ProcessSeen::default() }],
            server: Some(ServerSeen { variables, ..ServerSeen::default() }),
            ..Inventory::default()
        };
        let leaves = crate::account(&inventory).leaves;
        let other: Vec<_> = leaves.iter().filter(|it| it.path == "huge_pages/other" && it.resident_bytes > 0).collect();
        assert!(other.is_empty(), "{other:?}");
        let pool = leaves.iter().filter(|leaf| leaf.path.starts_with("huge_pages/data_cache/buffer_pool"));
        assert_eq!(pool.map(|leaf| leaf.resident_bytes).sum::<u64>(), 2048 * MIB);
    }

    /// As measured with PostgreSQL 15: the process with the most has 48 MiB, all that live have 84, and with those that have ended they have 96.
    fn in_huge_pages(segment: Option<SegmentSeen>) -> Inventory {
        let process = |touched| {
            let mapping = Mapping {
                end: 144 * MIB,
                inode: 9,
                permissions: "rw-s".into(),
                path: "/anon_hugepage (deleted)".into(),
                shared_hugetlb: touched,
                kernel_page_bytes: 2 * MIB,
                ..Mapping::default()
            };
            ProcessSeen { mappings: Some(vec![mapping]), ..ProcessSeen::default() }
        };
        let processes = [16, 48, 40, 42].into_iter().map(|mib| process(mib * MIB)).collect();
        let mut inventory =
            Inventory { flavour: Some(Flavour::Postgresql), processes, segment, ..Inventory::default() };
        let fields = [("HugePages_Total", 72), ("HugePages_Free", 24), ("Hugepagesize", 2 * MIB)];
        inventory.host.meminfo = fields.map(|(name, value)| (name.to_owned(), value)).into();
        inventory
    }

    fn told(inventory: &Inventory) -> (u64, u64, usize) {
        let account = crate::account(inventory);
        (account.kernel_total_bytes / MIB, account.uncertainty_bytes / MIB, account.missing.len())
    }

    #[test]
    fn what_several_processes_have_in_huge_pages() {
        let seen = SegmentSeen { inode: 9, touched: 84 * MIB, is_whole: true, ..SegmentSeen::default() };
        let by_blocks = SegmentSeen { blocks: Some(96 * MIB), ..seen.clone() };
        assert_eq!(told(&in_huge_pages(Some(by_blocks.clone()))), (96, 0, 0), "the kernel's own count");
        let others = |segment, bytes| {
            let mut inventory = in_huge_pages(segment);
            inventory.host.huge_pages_of_others = bytes;
            inventory
        };
        assert_eq!(told(&others(Some(by_blocks), Some(7))), (96, 0, 0), "whoever else has some");
        assert_eq!(told(&others(Some(seen.clone()), Some(0))), (96, 0, 0), "nobody else has any");
        assert_eq!(told(&others(None, Some(0))), (96, 0, 0));
        assert_eq!(told(&others(Some(seen.clone()), Some(2 * MIB))), (84, 12, 1), "at most what is in use");
        assert_eq!(told(&others(Some(seen.clone()), None)), (84, 12, 1));
        assert_eq!(told(&in_huge_pages(None)), (48, 48, 1), "as an old recording tells");
        let wrong = SegmentSeen { blocks: Some(80 * MIB), ..seen };
        assert_eq!(told(&in_huge_pages(Some(wrong))), (84, 12, 1), "less than the processes have");
        let mut of_1_gib = others(None, Some(0));
        of_1_gib.host.meminfo.insert("Hugepagesize".into(), 1 << 30);
        assert_eq!(told(&of_1_gib).0, 48, "a pool of other pages says nothing of these");
    }

    #[test]
    fn what_the_status_alone_tells_of_huge_pages() {
        let mut inventory = in_huge_pages(None);
        for process in &mut inventory.processes {
            let touched = process.mappings.take().map_or(0, |mappings| mappings[0].shared_hugetlb);
            process.status.insert("HugetlbPages".into(), touched);
        }
        assert_eq!(told(&inventory), (48, 48, 1));
        inventory.host.huge_pages_of_others = Some(0);
        assert_eq!(told(&inventory), (96, 0, 0));
        inventory.processes.truncate(1);
        assert_eq!(told(&inventory), (16, 0, 0), "one process knows all of its own");
    }
}
