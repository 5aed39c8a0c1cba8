// SPDX-License-Identifier: Apache-2.0
//! How many huge pages a server needs, and how to provide them.

use super::limits::{self, LimitVerdict};
use super::lines::{self, Lines};
use super::need::{self, Need};
use super::page_tables::{self, PageTables};
use super::parts::{self, Part};
use super::readings::{HugeSeen, Pool};
use crate::Missing;
use capability::Flavour;
use serde::Serialize;
use units::Bytes;

/// What a server needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HugeAdvice {
    /// The size of the pages that `pages_needed` counts: the one that the server asks for, or the kernel's default.
    pub page_bytes: u64,
    /// `None`: see `missing`.
    pub pages_needed: Option<u64>,
    /// Pages of this size that the server has now. It gives them back at its end, so they count towards those that a new start needs.
    /// `None`: its mappings may not be read, and pages of the pool are in use, by it or by others.
    pub pages_in_use: Option<u64>,
    pub need: Option<Need>,
    pub parts: Vec<Part>,
    /// The count by the usual recipe, the peak of the first process's whole address space (VmPeak / page size); it is too high.
    pub pages_by_vmpeak: Option<u64>,
    /// The same for every size that the kernel has, with its pool.
    pub sizes: Vec<PagesBySize>,
    pub page_tables: Option<PageTables>,
    pub limits: Vec<LimitVerdict>,
    pub lines: Vec<Lines>,
    pub notes: Vec<String>,
    pub missing: Vec<Missing>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PagesBySize {
    pub pages_needed: Option<u64>,
    /// Pages that nobody uses and nobody has reserved.
    pub unclaimed: u64,
    #[serde(flatten)]
    pub pool: Pool,
}

impl HugeAdvice {
    /// How many pages have to be free beside those that the server has.
    pub fn pages_to_add(&self) -> Option<u64> {
        Some(self.pages_needed?.saturating_sub(self.pages_in_use?))
    }
}

/// The huge pages that the server needs, and the cost of its page tables without them.
pub fn advise(seen: &HugeSeen) -> HugeAdvice {
    let (page_bytes, need) = (need::page_bytes(seen), need::need(seen));
    let pages_needed = need.as_ref().and_then(|need| need.pages(page_bytes));
    let by_size = |pool: &Pool| PagesBySize {
        pages_needed: need.as_ref().and_then(|need| need.pages(pool.page_bytes)),
        unclaimed: pool.unclaimed(),
        pool: pool.clone(),
    };
    let mapped = parts::seen(seen);
    let wanted = [(page_bytes, pages_needed.unwrap_or(0).saturating_mul(page_bytes))];
    let claimed = lines::pool(seen, page_bytes).map_or(0, Pool::claimed);
    let is_unread = seen.inventory.processes.first().is_some_and(|process| process.mappings.is_none());
    let own = (!is_unread || claimed == 0).then(|| own_pages(&mapped, page_bytes));
    let lines = pages_needed.zip(own).map(|(pages, own)| lines::lines(seen, pages, own, claimed.saturating_sub(own)));
    HugeAdvice {
        page_bytes,
        pages_needed,
        pages_in_use: own,
        parts: need.as_ref().map(|need| need.parts.clone()).unwrap_or_default(),
        pages_by_vmpeak: by_vmpeak(seen, page_bytes),
        sizes: seen.pools.iter().map(by_size).collect(),
        page_tables: page_tables::page_tables(seen, need.as_ref(), page_bytes),
        limits: limits::verdicts(seen, &wanted, own != Some(0)),
        lines: lines.unwrap_or_default(),
        notes: notes(seen),
        missing: missing(seen, need.is_none(), own.is_none()),
        need,
    }
}

/// The pages of this size that the server has mapped.
fn own_pages(parts: &[Part], page_bytes: u64) -> u64 {
    let own = parts.iter().filter(|part| part.in_huge_pages && part.page_bytes == Some(page_bytes));
    own.map(|part| part.pages(page_bytes)).sum()
}

/// As the whole-number division that is usual for it gives it.
fn by_vmpeak(seen: &HugeSeen, page_bytes: u64) -> Option<u64> {
    let peak = seen.inventory.processes.first()?.status.get("VmPeak")?;
    Some(peak / page_bytes.max(1))
}

fn notes(seen: &HugeSeen) -> Vec<String> {
    let variables = seen.inventory.server.as_ref().map(|server| &server.variables);
    let is = |name: &str, value: &str| variables.and_then(|it| it.get(name)).is_some_and(|it| it == value);
    let mut notes = Vec::new();
    if is("shared_memory_type", "sysv") {
        notes.push("shared_memory_type is sysv: PostgreSQL takes huge pages with mmap alone".into());
    }
    let has_larger = seen.pools.iter().any(|pool| pool.page_bytes >= 1 << 30 && pool.unclaimed() > 0);
    if seen.inventory.flavour == Some(Flavour::Mariadb) && has_larger {
        notes.push("MariaDB 10.5 and later tries the largest pages first: it will take free pages of 1 GiB for what is as large".into());
    }
    notes.extend(parts::alignment(seen).map(|part| {
        let most = Bytes(part.bytes);
        format!("MariaDB maps up to {most} beside its buffer pool, to align it: how much, differs from start to start, so the pages for it may stay free")
    }));
    notes
}

fn missing(seen: &HugeSeen, is_unknown: bool, is_own_unknown: bool) -> Vec<Missing> {
    let mut missing = seen.inventory.missing.clone();
    missing.extend(parts::chunks_are_small(seen));
    if is_unknown {
        missing.push(Missing {
            what: "how many huge pages it needs".into(),
            why: "neither the server nor its process tells how much memory they are for".into(),
            remedy: Some("start it once without huge pages, and ask again, as root, with an account".into()),
        });
    }
    if is_own_unknown {
        missing.push(Missing {
            what: "which of the huge pages in use are the server's own, and so how many more it needs".into(),
            why: "its mappings may not be read".into(),
            remedy: Some("ask again as root, or as the user whose process it is".into()),
        });
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Inventory, Mapping, ProcessSeen, ServerSeen, SharedAllocation};

    const MIB: u64 = 1 << 20;

    fn mapping(start: u64, bytes: u64, permissions: &str, path: &str) -> Mapping {
        let (permissions, path) = (permissions.into(), path.into());
        Mapping { start, end: start + bytes, permissions, path, kernel_page_bytes: 4096, ..Mapping::default() }
    }

    fn seen(flavour: Flavour, version: &str, variables: &[(&str, &str)], mappings: Vec<Mapping>) -> HugeSeen {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let status = [("VmPeak".to_owned(), 642_220 << 10), ("VmPTE".to_owned(), 1 << 20)].into();
        let inventory = Inventory {
            flavour: Some(flavour),
            version: Some(version.into()),
            page_bytes: 4096,
            processes: vec![ProcessSeen { status, mappings: Some(mappings), ..ProcessSeen::default() }],
            server: Some(ServerSeen { variables, ..ServerSeen::default() }),
            ..Inventory::default()
        };
        let pool = |page_bytes| Pool { page_bytes, total: 10, free: 6, reserved: 2, ..Pool::default() };
        HugeSeen { inventory, pools: vec![pool(2 * MIB), pool(1 << 30)], ..HugeSeen::default() }
    }

    /// A PostgreSQL 15.18 with 512 MB and 250 connections: a segment of 571,088 kB; it starts with 279 pages, and not with 278.
    fn postgresql(variables: &[(&str, &str)]) -> HugeSeen {
        let segment = mapping(1 << 40, 571_088 << 10, "rw-s", "/dev/zero (deleted)");
        seen(Flavour::Postgresql, "15.18", variables, vec![segment])
    }

    #[test]
    fn postgresql_by_its_figure_its_allocations_and_its_mapping() {
        let mut seen = postgresql(&[("shared_memory_size_in_huge_pages", "279"), ("max_connections", "250")]);
        let by_figure = advise(&seen);
        assert_eq!((by_figure.pages_needed, by_figure.need.as_ref().map(|it| it.basis)), (Some(279), Some("server")));
        assert_eq!(by_figure.pages_by_vmpeak, Some(313));
        assert_eq!(by_figure.sizes.iter().map(|it| it.pages_needed).collect::<Vec<_>>(), [Some(279), Some(1)]);
        let server = seen.inventory.server.as_mut().unwrap();
        server.variables.insert("shared_memory_size_in_huge_pages".into(), "-1".into());
        let by_mapping = advise(&seen);
        assert_eq!((by_mapping.pages_needed, by_mapping.need.map(|it| it.basis)), (Some(279), Some("mapping")));
        let sum = SharedAllocation { allocated_size: 571_088 << 10, ..SharedAllocation::default() };
        seen.inventory.server.as_mut().unwrap().shared_allocations.push(sum);
        let by_sum = advise(&seen);
        assert_eq!((by_sum.pages_needed, by_sum.need.map(|it| it.basis)), (Some(279), Some("allocations")));
    }

    #[test]
    fn page_tables_are_eight_bytes_for_a_page_and_a_connection() {
        let tables = advise(&postgresql(&[("max_connections", "250")])).page_tables.unwrap();
        let each = 571_088 / 4 * 8;
        assert_eq!((tables.each_bytes, tables.all_touched_bytes, tables.now_bytes), (each, each * 250, Some(MIB)));
        assert_eq!(tables.all_touched_in_huge_pages_bytes, 279 * 8 * 250);
        assert_eq!(advise(&postgresql(&[])).page_tables, None, "how many connections is not known");
    }

    /// As measured: 259 = 128 for the pool, 8 for each of two log buffers, 53 and 62 for the key cache and Aria's.
    #[test]
    fn mariadb_rounds_up_each_allocation() {
        let settings = [
            ("innodb_buffer_pool_size", "268435456"),
            ("innodb_log_buffer_size", "16777216"),
            ("key_buffer_size", "134217728"),
            ("aria_pagecache_buffer_size", "134217728"),
        ];
        let mut stopped = seen(Flavour::Mariadb, "10.11.19-MariaDB", &settings, vec![]);
        stopped.inventory.processes.clear();
        let advice = advise(&stopped);
        assert_eq!((advice.pages_needed, advice.need.as_ref().map(|it| it.basis)), (Some(259), Some("settings")));
        assert_eq!(advice.sizes[1].pages_needed, Some(0), "no allocation is as large as a page of 1 GiB");
        assert_eq!(advice.pages_by_vmpeak, None);
        let small = [("innodb_buffer_pool_size", "268435456"), ("innodb_log_buffer_size", "1048576")];
        let advice = advise(&seen(Flavour::Mariadb, "10.11.19-MariaDB", &small, vec![]));
        assert_eq!(advice.pages_needed, Some(128), "an allocation below one page stays in ordinary ones");
    }

    /// Of a process alone only the pool is seen; the caches beside it are not guessed.
    #[test]
    fn mariadb_without_its_settings_is_not_known() {
        let pool = mapping(1 << 40, 64 * MIB, "rw-p", "");
        let mut alone = seen(Flavour::Mariadb, "10.11.19-MariaDB", &[], vec![pool]);
        let named = |seen: &HugeSeen| {
            let advice = advise(seen);
            (advice.pages_needed, advice.missing.into_iter().map(|it| it.what).collect::<Vec<_>>())
        };
        let not_known = (None, vec!["how many huge pages it needs".to_owned()]);
        assert_eq!(named(&alone), not_known);
        alone.inventory.server = None;
        assert_eq!(named(&alone), not_known);
    }

    /// Two chunks of 128 MiB with descriptors, which the kernel has merged: 66 pages each, and not 131 for both.
    #[test]
    fn mysql_rounds_up_each_chunk() {
        let settings = [("innodb_buffer_pool_size", "268435456"), ("innodb_buffer_pool_chunk_size", "134217728")];
        let chunks = mapping(1 << 40, 2 * (134_020 << 10), "rw-p", "");
        let advice = advise(&seen(Flavour::Mysql, "9.7.4", &settings, vec![chunks]));
        assert_eq!(advice.pages_needed, Some(132));
        let unseen = advise(&seen(Flavour::Mysql, "9.7.4", &settings, vec![]));
        assert!(unseen.pages_needed.is_none() && unseen.missing[0].remedy.is_some(), "descriptors are not told");
    }

    #[test]
    fn pages_that_others_use_are_added() {
        let advice = advise(&postgresql(&[("shared_memory_size_in_huge_pages", "279")]));
        let of = |about: &str| advice.lines.iter().find(|it| it.about == about).unwrap().lines.clone();
        // 10 of the pool, 4 of them unclaimed
        assert_eq!(of("sysctl"), ["vm.nr_hugepages = 285"]);
        assert_eq!(of("now"), ["sudo wringer hugepages apply --pages 279"]);
        assert_eq!(
            (of("boot"), of("server")),
            (vec!["hugepagesz=2M hugepages=285".to_owned()], vec!["huge_pages=on".to_owned()])
        );
        assert!(of("kubernetes")[2].contains("hugepages-2Mi: 558Mi"), "{:?}", of("kubernetes"));
    }

    /// Who may not read the server's mappings is told that, and not that its pages are another's.
    #[test]
    fn pages_of_a_server_whose_mappings_are_not_read_are_nobodys() {
        let unread = |free| {
            let mut seen = postgresql(&[("shared_memory_size_in_huge_pages", "279")]);
            seen.inventory.processes[0].mappings = None;
            (seen.pools[0].total, seen.pools[0].free, seen.pools[0].reserved) = (400, free, 0);
            advise(&seen)
        };
        let advice = unread(121);
        assert_eq!((advice.pages_needed, advice.pages_in_use, advice.pages_to_add()), (Some(279), None, None));
        assert!(advice.lines.is_empty(), "{:?}", advice.lines);
        assert!(advice.missing.iter().any(|it| it.what.contains("the server's own")), "{:?}", advice.missing);
        let unused = unread(400);
        assert_eq!((unused.pages_in_use, unused.pages_to_add()), (Some(0), Some(279)), "nobody has any");
    }

    /// The server has its pages already: the pool need not grow by them a second time.
    #[test]
    fn pages_that_the_server_has_are_not_asked_for_again() {
        let now = |segment: Mapping| {
            let mut seen =
                seen(Flavour::Postgresql, "15.18", &[("shared_memory_size_in_huge_pages", "279")], vec![segment]);
            (seen.pools[0].total, seen.pools[0].free) = (400, 121);
            seen.pools[0].reserved = 0;
            let advice = advise(&seen);
            let line = advice.lines.iter().find(|it| it.about == "now").map(|it| it.lines.clone());
            (advice.pages_in_use, advice.pages_to_add(), line)
        };
        let huge = Mapping {
            kernel_page_bytes: 2 * MIB,
            flags: "ht".into(),
            ..mapping(1 << 40, 558 * MIB, "rw-s", "/anon_hugepage (deleted)")
        };
        assert_eq!(now(huge), (Some(279), Some(0), None));
        let ordinary = mapping(1 << 40, 571_088 << 10, "rw-s", "/dev/zero (deleted)");
        let line = Some(vec!["sudo wringer hugepages apply --pages 279".to_owned()]);
        assert_eq!(now(ordinary), (Some(0), Some(279), line));
    }
}
