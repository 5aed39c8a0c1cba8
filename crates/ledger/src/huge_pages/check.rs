// SPDX-License-Identifier: Apache-2.0
//! Whether a server's memory lies in huge pages, by its mappings: a setting only says what the server was asked to do.

use super::limits::{self, LimitVerdict};
use super::parts::{self, Part};
use super::readings::{HugeSeen, Pool};
use crate::Missing;
use crate::class;
use capability::Flavour;
use serde::Serialize;
use std::collections::BTreeMap;

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HugeCheck {
    /// Whether the server is told to use huge pages, also where it may run without them. `None`: not known.
    pub wanted: Option<bool>,
    /// `huge_pages = try`, as the server has it.
    pub setting: Option<String>,
    /// Whether all memory for which the server asks for huge pages lies in them. `None`: its mappings were not read.
    pub huge_pages_in_use: Option<bool>,
    /// Mapped bytes in huge pages; shared memory counts once.
    pub mapped_bytes: u64,
    /// The part of it that the first process has touched so far; the rest is reserved.
    pub touched_bytes: u64,
    /// Bytes that should lie in huge pages and do not.
    pub outside_bytes: u64,
    pub parts: Vec<Part>,
    /// The kernel's pools that have pages, with the share of each NUMA node.
    pub pools: Vec<Pool>,
    pub limits: Vec<LimitVerdict>,
    /// Whether a cgroup's limit will kill the server with SIGBUS.
    pub ends_in_sigbus: bool,
    /// Whether everything is right: huge pages are in use where they are wanted, and no limit will kill the server with SIGBUS.
    pub is_good: bool,
    pub missing: Vec<Missing>,
}

/// `wanted`: whether the server should use huge pages, where the caller knows it better than the settings tell.
pub fn check(seen: &HugeSeen, wanted: Option<bool>) -> HugeCheck {
    let found = Found::of(seen);
    let setting = setting(seen);
    let wanted = wanted.or_else(|| setting.as_ref().map(|(_, value)| is_wanted(value)));
    let in_use = found.are_mappings_read.then(|| found.is_all_inside());
    let limits = limits::verdicts(seen, &found.mapped_by_size(), true);
    let ends_in_sigbus = limits.iter().any(|limit| limit.ends_in_sigbus);
    HugeCheck {
        wanted,
        setting: setting.map(|(name, value)| format!("{name} = {value}")),
        huge_pages_in_use: in_use,
        mapped_bytes: found.inside().map(Part::all_bytes).sum(),
        touched_bytes: touched(seen),
        outside_bytes: found.outside_bytes(),
        is_good: (wanted != Some(true) || in_use == Some(true)) && !ends_in_sigbus,
        parts: found.parts,
        pools: seen.pools.iter().filter(|pool| pool.total > 0).cloned().collect(),
        limits,
        ends_in_sigbus,
        missing: seen.inventory.missing.iter().cloned().chain(parts::chunks_are_small(seen)).collect(),
    }
}

/// The parts of the server's memory, where they lie.
struct Found {
    are_mappings_read: bool,
    parts: Vec<Part>,
    /// Parts of the memory by the settings that were found nowhere: bytes by part.
    unseen: Vec<Part>,
}

impl Found {
    fn of(seen: &HugeSeen) -> Self {
        let are_mappings_read = seen.inventory.processes.first().is_some_and(|it| it.mappings.is_some());
        let smallest = parts::smallest(seen);
        let mut parts = parts::seen(seen);
        parts.retain(|part| part.is_counted(smallest));
        // where a part was not found, huge pages of an unknown purpose may be that part
        let mut nameless: u64 = parts.iter().filter(|part| part.what == "not told apart").map(Part::all_bytes).sum();
        let mut unseen = parts::by_settings(seen);
        unseen.retain_mut(|part| {
            let count: u64 = parts.iter().filter(|it| it.what == part.what).map(|it| it.count).sum();
            part.count = part.count.saturating_sub(count);
            let is_nameless = nameless >= part.all_bytes() / 2;
            nameless = if is_nameless { nameless.saturating_sub(part.all_bytes()) } else { nameless };
            part.count > 0 && !is_nameless && are_mappings_read
        });
        Self { are_mappings_read, parts, unseen }
    }

    fn inside(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(|part| part.in_huge_pages)
    }

    fn outside_bytes(&self) -> u64 {
        let seen = self.parts.iter().filter(|part| !part.in_huge_pages);
        seen.chain(&self.unseen).map(Part::all_bytes).fold(0, u64::saturating_add)
    }

    fn is_all_inside(&self) -> bool {
        self.inside().next().is_some() && self.outside_bytes() == 0
    }

    fn mapped_by_size(&self) -> Vec<(u64, u64)> {
        let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
        for part in self.inside() {
            *sizes.entry(part.page_bytes.unwrap_or(0)).or_default() += part.all_bytes();
        }
        sizes.into_iter().collect()
    }
}

fn touched(seen: &HugeSeen) -> u64 {
    let mappings = seen.inventory.processes.first().and_then(|process| process.mappings.as_ref());
    let huge = mappings.into_iter().flatten().filter(|mapping| class::is_hugetlb(mapping));
    huge.map(|mapping| mapping.private_hugetlb.saturating_add(mapping.shared_hugetlb)).fold(0, u64::saturating_add)
}

fn setting(seen: &HugeSeen) -> Option<(&'static str, String)> {
    let name = match seen.inventory.flavour? {
        Flavour::Postgresql => "huge_pages",
        Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => "large_pages",
    };
    Some((name, seen.inventory.server.as_ref()?.variables.get(name)?.clone()))
}

fn is_wanted(value: &str) -> bool {
    ["on", "try", "1", "true"].contains(&value.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Inventory, Mapping, ProcessSeen, ServerSeen};

    const MIB: u64 = 1 << 20;

    fn mapping(nth: u64, bytes: u64, is_huge: bool) -> Mapping {
        Mapping {
            start: nth << 40,
            end: (nth << 40) + bytes,
            inode: nth,
            permissions: "rw-p".into(),
            path: if is_huge { "/anon_hugepage (deleted)".into() } else { String::new() },
            kernel_page_bytes: if is_huge { 2 * MIB } else { 4096 },
            private_hugetlb: if is_huge { 2 * MIB } else { 0 },
            flags: if is_huge { "rd wr dd ht".into() } else { "rd wr dd".into() },
            ..Mapping::default()
        }
    }

    /// A MariaDB 10.11 with a pool of 256 MiB; `huge`: which of pool, log buffers, key cache, Aria's cache are in huge pages.
    fn mariadb(large_pages: &str, huge: [bool; 5]) -> HugeSeen {
        let pages = [128, 8, 8, 53, 62];
        let mappings = (1..).zip(pages).zip(huge).map(|((nth, pages), huge)| mapping(nth, pages * 2 * MIB, huge));
        let variables = [
            ("innodb_buffer_pool_size", 256 * MIB),
            ("innodb_log_buffer_size", 16 * MIB),
            ("key_buffer_size", 128 * MIB),
            ("aria_pagecache_buffer_size", 128 * MIB),
        ];
        let variables = variables.into_iter().map(|(name, size)| (name.to_owned(), size.to_string()));
        let variables = variables.chain([("large_pages".to_owned(), large_pages.to_owned())]).collect();
        let process = ProcessSeen { mappings: Some(mappings.collect()), ..ProcessSeen::default() };
        let inventory = Inventory {
            flavour: Some(Flavour::Mariadb),
            version: Some("10.11.19-MariaDB".into()),
            page_bytes: 4096,
            processes: vec![process],
            server: Some(ServerSeen { variables, ..ServerSeen::default() }),
            ..Inventory::default()
        };
        HugeSeen { inventory, ..HugeSeen::default() }
    }

    #[test]
    fn a_server_that_went_without_is_told() {
        let all = check(&mariadb("ON", [true; 5]), None);
        assert_eq!((all.wanted, all.huge_pages_in_use, all.is_good), (Some(true), Some(true), true), "{all:#?}");
        assert_eq!((all.mapped_bytes, all.touched_bytes), (259 * 2 * MIB, 5 * 2 * MIB));
        for one in 0..5 {
            let mut huge = [true; 5];
            huge[one] = false;
            let some = check(&mariadb("ON", huge), None);
            assert_eq!((some.huge_pages_in_use, some.is_good), (Some(false), false), "without part {one}: {some:#?}");
        }
        let none = check(&mariadb("ON", [false; 5]), None);
        assert_eq!((none.huge_pages_in_use, none.is_good, none.mapped_bytes), (Some(false), false, 0));
    }

    #[test]
    fn who_wants_none_is_good_without() {
        let off = check(&mariadb("OFF", [false; 5]), None);
        assert_eq!((off.wanted, off.is_good), (Some(false), true));
        assert!(!check(&mariadb("OFF", [false; 5]), Some(true)).is_good, "the user wants them");
        let nobody = check(&HugeSeen::default(), None);
        assert_eq!((nobody.wanted, nobody.huge_pages_in_use, nobody.is_good), (None, None, true));
    }

    /// Where caches lie among other memory, so that they are not found, they are not in huge pages all the same.
    #[test]
    fn a_part_that_is_seen_nowhere_is_outside() {
        let mut seen = mariadb("ON", [true; 5]);
        seen.inventory.processes[0].mappings.as_mut().unwrap().truncate(4);
        let without_aria = check(&seen, None);
        assert_eq!((without_aria.huge_pages_in_use, without_aria.outside_bytes), (Some(false), 128_663_552));
        let mut seen = mariadb("ON", [true; 5]);
        seen.inventory.processes[0].mappings.as_mut().unwrap().remove(2);
        let one_log = check(&seen, None);
        assert_eq!(
            (one_log.huge_pages_in_use, one_log.outside_bytes),
            (Some(false), 16 * MIB),
            "one of two log buffers"
        );
    }

    fn of(version: &str, variables: &[(&str, u64)], mappings: Vec<Mapping>) -> HugeSeen {
        let mut seen = mariadb("ON", [true; 5]);
        seen.inventory.version = Some(version.into());
        seen.inventory.processes[0].mappings = Some(mappings);
        let variables = variables.iter().map(|(name, size)| ((*name).to_owned(), size.to_string()));
        seen.inventory.server.as_mut().unwrap().variables.extend(variables);
        seen
    }

    /// XtraDB 5.6.35 in MariaDB 10.1.23 takes a System V segment for each: key cache, Aria's cache and the one for its log, the pool with its descriptors. Its
    /// 8 instances are one, so that other memory of 8 MiB is no pool.
    #[test]
    fn an_old_mariadb_in_segments() {
        let variables = [("innodb_buffer_pool_size", 64 * MIB), ("innodb_buffer_pool_instances", 8)];
        let mappings = |is_huge: bool| {
            let huge = (1..).zip([53, 62, 1, 34]).map(|(nth, pages)| mapping(nth, pages * 2 * MIB, is_huge));
            let others = (10..13).map(|nth| Mapping { flags: "rd wr".into(), ..mapping(nth, 8 * MIB, false) });
            huge.chain(others).collect::<Vec<_>>()
        };
        let all = check(&of("10.1.23-MariaDB", &variables, mappings(true)), None);
        assert_eq!((all.is_good, all.outside_bytes, all.mapped_bytes), (true, 0, 300 * MIB), "{all:#?}");
        let some = check(&of("10.1.23-MariaDB", &variables, mappings(true).split_off(1)), None);
        assert_eq!((some.is_good, some.huge_pages_in_use), (false, Some(false)), "without the key cache: {some:#?}");
        for is_huge in [true, false] {
            let advice = crate::huge_pages::advise(&of("10.1.23-MariaDB", &variables, mappings(is_huge)));
            assert_eq!(advice.pages_needed, Some(150), "{advice:#?}");
        }
    }

    /// MariaDB 10.11.19 maps up to 6 MiB more than its pool, before and behind it, in the same file of huge pages.
    #[test]
    fn a_pool_that_is_aligned_may_need_more() {
        let whole = [("innodb_buffer_pool_size_max", 256 * MIB)];
        let mappings = |is_aligned: bool| {
            let pages: &[(u64, u64)] = &[(1, 128), (2, 8), (3, 8), (4, 53), (5, 62), (1, 2), (1, 1)];
            let of_server = if is_aligned { &pages[..5] } else { pages };
            let mapped = |(inode, pages): &(u64, u64)| mapping(*inode, pages * 2 * MIB, true);
            of_server.iter().map(mapped).collect::<Vec<_>>()
        };
        for (is_aligned, pages) in [(true, 259), (false, 262)] {
            let seen = of("10.11.19-MariaDB", &whole, mappings(is_aligned));
            let check = check(&seen, None);
            assert_eq!((check.is_good, check.mapped_bytes), (true, pages * 2 * MIB), "{check:#?}");
            assert!(check.parts.iter().all(|part| part.what != "not told apart"), "{check:#?}");
            let advice = crate::huge_pages::advise(&seen);
            assert_eq!(advice.pages_needed, Some(262), "for any start: {advice:#?}");
        }
        let stopped = HugeSeen {
            inventory: Inventory { processes: Vec::new(), ..of("10.11.19-MariaDB", &whole, vec![]).inventory },
            ..HugeSeen::default()
        };
        assert_eq!(crate::huge_pages::advise(&stopped).pages_needed, Some(262));
    }

    /// Its key cache is about as large as a pool of 101 MiB, and is no second one.
    #[test]
    fn a_cache_as_large_as_the_pool_is_no_pool() {
        let variables = [("innodb_buffer_pool_size", 101 * MIB), ("innodb_buffer_pool_size_max", 101 * MIB)];
        let huge = (1..).zip([52, 8, 8, 53, 62]).map(|(nth, pages)| mapping(nth, pages * 2 * MIB, true));
        let check = check(&of("10.11.19-MariaDB", &variables, huge.collect()), None);
        assert_eq!((check.is_good, check.outside_bytes), (true, 0), "{check:#?}");
    }

    /// MariaDB 11.4.5 has 64 chunks: of 64 MiB they are smaller than a page. Its log buffers in huge pages are no pool.
    #[test]
    fn a_pool_of_small_chunks() {
        let variables = [("innodb_buffer_pool_size", 64 * MIB), ("innodb_buffer_pool_chunk_size", MIB)];
        let huge = (1..).zip([8, 8, 53, 62]).map(|(nth, pages)| mapping(nth, pages * 2 * MIB, true));
        let seen = of("11.4.5-MariaDB", &variables, huge.chain([mapping(9, 65 * MIB, false)]).collect());
        let check = check(&seen, None);
        assert_eq!((check.is_good, check.outside_bytes), (false, 64 * MIB), "{check:#?}");
        assert_eq!(check.parts.iter().filter(|it| it.what == "log buffer").map(|it| it.count).sum::<u64>(), 2);
        assert_eq!(check.missing[0].remedy.as_deref(), Some("innodb_buffer_pool_chunk_size=2097152, and a restart"));
        let advice = crate::huge_pages::advise(&seen);
        assert_eq!(advice.pages_needed, Some(131), "as many as it can use: {advice:#?}");
        // of 128 MiB each is just a page, also where the kernel has merged them with a little that lies beside them
        let variables = [("innodb_buffer_pool_size", 128 * MIB), ("innodb_buffer_pool_chunk_size", 2 * MIB)];
        let advice =
            crate::huge_pages::advise(&of("11.4.5-MariaDB", &variables, vec![mapping(9, 128 * MIB + 200_000, false)]));
        assert_eq!(advice.pages_needed, Some(64 + 131), "{advice:#?}");
    }
}
