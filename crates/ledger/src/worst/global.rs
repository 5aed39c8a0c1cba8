// SPDX-License-Identifier: Apache-2.0
//! Memory that a server has once, however many clients are connected. Lines by the settings that limit it take the place of the leaves that it has now.

use super::entries::Concurrency;
use super::settings::Settings;
use crate::figures::Figures;
use crate::share::sane;
use crate::{Account, Class, Inventory, classes, key_cache};
use capability::Flavour::{self, Mariadb, Mysql, Postgresql};
use std::collections::BTreeMap;

/// Holds for a flavour from `since` (included) up to `until` (excluded); an empty one is open.
pub(crate) struct Global {
    pub(crate) name: &'static str,
    /// Leaves of the account that this limit covers; with `/` at the end, all below it. Also those of the same names in huge pages.
    pub(crate) leaves: &'static [&'static str],
    flavours: &'static [Flavour],
    since: &'static [u32],
    until: &'static [u32],
    only: Option<(&'static str, &'static str)>,
    limit: Limit,
    source: &'static str,
}

/// What a [`Limit`] may ask.
pub(crate) struct Seen<'a> {
    pub(crate) inventory: &'a Inventory,
    pub(crate) account: &'a Account,
    pub(crate) settings: &'a Settings<'a>,
    pub(crate) concurrency: &'a Concurrency,
}

/// How often, and how large each is.
type Reckoning = fn(&Seen<'_>) -> Option<(u64, u64)>;

#[derive(Clone, Copy)]
enum Limit {
    /// The sum of these settings, so many times. A setting that the server does not have is 0.
    Settings(u64, &'static [&'static str]),
    /// The largest of these: names of the same setting.
    Largest(&'static [&'static str]),
    /// So many as the first setting says, each as large as the second one.
    Each(&'static str, &'static str),
    Reckoned(Reckoning),
}

const fn row(
    name: &'static str,
    leaves: &'static [&'static str],
    flavours: &'static [Flavour],
    limit: Limit,
) -> Global {
    Global { name, leaves, flavours, since: &[], until: &[], only: None, limit, source: "" }
}

const BOTH: &[Flavour] = &[Mariadb, Mysql];
const TEMPTABLE: Option<(&str, &str)> = Some(("internal_tmp_mem_storage_engine", "TempTable"));

pub(crate) const ROWS: &[Global] = &[
    Global {
        source: "innodb_buffer_pool_size",
        ..row("buffer pool", &["data_cache/buffer_pool"], BOTH, Limit::Settings(1, &["innodb_buffer_pool_size"]))
    },
    Global {
        source: "key_buffer_size of all key caches + aria_pagecache_buffer_size",
        ..row(
            "caches of MyISAM and Aria",
            &["data_cache/key_cache", "data_cache/aria_cache", "data_cache/key_and_aria_cache"],
            BOTH,
            Limit::Reckoned(key_and_aria_caches),
        )
    },
    Global {
        source: "query_cache_size",
        ..row("query cache", &["data_cache/query_cache"], BOTH, Limit::Settings(1, &["query_cache_size"]))
    },
    Global {
        source: "innodb_ft_total_cache_size",
        ..row("full-text caches", &["data_cache/full_text"], BOTH, Limit::Settings(1, &["innodb_ft_total_cache_size"]))
    },
    Global {
        source: "two of innodb_log_buffer_size: one is filled while the other is written; measured on 10.11.19",
        ..row("redo log buffers", &["log/redo_buffer"], &[Mariadb], Limit::Settings(2, &["innodb_log_buffer_size"]))
    },
    Global {
        until: &[8],
        source: "two of innodb_log_buffer_size: storage/innobase/log/log0log.cc",
        ..row("redo log buffers", &["log/redo_buffer"], &[Mysql], Limit::Settings(2, &["innodb_log_buffer_size"]))
    },
    Global {
        since: &[8],
        source: "innodb_log_buffer_size; measured on 9.7.4",
        ..row("redo log buffer", &["log/redo_buffer"], &[Mysql], Limit::Settings(1, &["innodb_log_buffer_size"]))
    },
    Global {
        since: &[8],
        only: TEMPTABLE,
        source: "temptable_max_ram + temptable_max_mmap, of all sessions together",
        ..row("temporary tables", &[], &[Mysql], Limit::Settings(1, &["temptable_max_ram", "temptable_max_mmap"]))
    },
    Global {
        source: "slave_parallel_threads x slave_parallel_max_queued: a queue for each thread, sql/rpl_parallel.cc",
        ..row(QUEUES, &[], &[Mariadb], Limit::Each("slave_parallel_threads", "slave_parallel_max_queued"))
    },
    Global {
        source: "replica_pending_jobs_size_max or slave_pending_jobs_size_max: one for all workers of a channel, sql/rpl_rli_pdb.cc",
        ..row(QUEUES, &[], &[Mysql], Limit::Largest(&["replica_pending_jobs_size_max", "slave_pending_jobs_size_max"]))
    },
    Global {
        since: &[5, 7],
        source: "performance_schema adds room for 256 threads at a time: storage/perfschema/pfs_buffer_container.h",
        ..row(PERFORMANCE_SCHEMA, INSTRUMENTATION, &[Mysql], Limit::Reckoned(performance_schema))
    },
    Global {
        since: &[10, 5],
        source: "performance_schema adds room for 256 threads at a time: storage/perfschema/pfs_buffer_container.h",
        ..row(PERFORMANCE_SCHEMA, INSTRUMENTATION, &[Mariadb], Limit::Reckoned(performance_schema))
    },
    Global {
        source: "the segment that all processes map, whole, and dynamic segments as they are",
        ..row("shared memory", &["shared_memory/"], &[Postgresql], Limit::Reckoned(all_shared_memory))
    },
    Global {
        source: "autovacuum_max_workers (autovacuum_worker_slots, if that is less) x autovacuum_work_mem, or maintenance_work_mem",
        ..row("autovacuum", &[], &[Postgresql], Limit::Reckoned(autovacuum))
    },
    Global {
        source: "(max_wal_senders + max_logical_replication_workers) x logical_decoding_work_mem",
        ..row("logical replication", &[], &[Postgresql], Limit::Reckoned(logical_replication))
    },
];

const QUEUES: &str = "queue of replication's workers";
const PERFORMANCE_SCHEMA: &str = "performance_schema";
const INSTRUMENTATION: &[&str] = &["instrumentation/performance_schema"];

/// The program and its libraries can have all pages resident.
pub(crate) const FILES: Global = Global {
    source: "the length of all mappings of files",
    ..row("program and libraries", &["program/text", "files/mapped"], &[], Limit::Reckoned(mapped_files))
};

impl Global {
    pub(crate) fn holds(&self, settings: &Settings<'_>) -> bool {
        let is_on = self.only.is_none_or(|(name, value)| settings.is(name, value));
        is_on && settings.holds(self.flavours, self.since, self.until)
    }

    pub(crate) fn covers(&self, leaf: &str) -> bool {
        let leaf = leaf.strip_prefix("huge_pages/").unwrap_or(leaf);
        self.leaves.iter().any(|it| leaf == *it || (it.ends_with('/') && leaf.starts_with(it)))
    }

    /// How often, and how large; `None`: the server has no such setting.
    pub(crate) fn limit(&self, seen: &Seen<'_>) -> Option<(u64, u64)> {
        let found = match self.limit {
            Limit::Reckoned(reckon) => reckon(seen)?,
            Limit::Each(count, size) => (seen.settings.number(count)?, seen.settings.number(size)?),
            Limit::Largest(names) => (1, names.iter().filter_map(|name| seen.settings.number(name)).max()?),
            Limit::Settings(times, names) => {
                (times, names.iter().filter_map(|name| seen.settings.number(name)).fold(0, u64::saturating_add))
            }
        };
        (found.0 > 0 && found.1 > 0).then_some(found)
    }

    pub(crate) fn source(&self) -> &'static str {
        self.source
    }
}

fn key_and_aria_caches(seen: &Seen<'_>) -> Option<(u64, u64)> {
    let key = key_cache::size_of_all(&Figures::of(seen.inventory));
    Some((1, key.saturating_add(seen.settings.number("aria_pagecache_buffer_size").unwrap_or(0))))
}

fn performance_schema(seen: &Seen<'_>) -> Option<(u64, u64)> {
    const CHUNK: u64 = 256;
    let leaf = seen.account.leaves.iter().find(|leaf| leaf.path == INSTRUMENTATION[0])?;
    let threads = seen.inventory.processes.first()?.status.get("Threads").map_or(0, |count| sane(*count));
    let now = seen.concurrency.connections_now;
    let background = threads.saturating_sub(now);
    let chunks = |connections: u64| connections.saturating_add(background).div_ceil(CHUNK).max(1);
    let used = chunks(seen.settings.status("Max_used_connections").unwrap_or(now).max(now));
    let most = chunks(seen.concurrency.connections_max?.saturating_add(seen.concurrency.workers_max));
    Some((most.div_ceil(used), leaf.allocated_bytes.unwrap_or(0).max(leaf.resident_bytes)))
}

fn all_shared_memory(seen: &Seen<'_>) -> Option<(u64, u64)> {
    let dynamic = seen.account.leaves.iter().find(|leaf| leaf.path == "shared_memory/dynamic");
    let (count, bytes) = shared_memory(seen)?;
    Some((count, bytes.saturating_add(dynamic.map_or(0, |leaf| leaf.resident_bytes))))
}

/// By the server's rows, which sum to the mapping, or by the mapping itself.
pub(crate) fn shared_memory(seen: &Seen<'_>) -> Option<(u64, u64)> {
    let rows = seen.inventory.server.iter().flat_map(|server| &server.shared_allocations);
    let by_rows = rows.map(|row| sane(row.allocated_size.max(row.size))).fold(0, u64::saturating_add);
    let by_mappings = seen.inventory.processes.iter().map(|it| mapped(it, seen.inventory, &[Class::MainShared])).max();
    Some((1, by_rows.max(by_mappings.unwrap_or(0))))
}

fn mapped(process: &crate::ProcessSeen, inventory: &Inventory, wanted: &[Class]) -> u64 {
    let mappings = process.mappings.iter().flatten().zip(classes(process, inventory));
    let lengths = mappings.filter(|(_, class)| wanted.contains(class)).map(|(it, _)| sane(crate::class::length(it)));
    lengths.fold(0, u64::saturating_add)
}

/// Each part of a file once, whoever maps it.
fn mapped_files(seen: &Seen<'_>) -> Option<(u64, u64)> {
    let mut parts: BTreeMap<(&str, u64, u64), u64> = BTreeMap::new();
    for process in &seen.inventory.processes {
        let mappings = process.mappings.iter().flatten().zip(classes(process, seen.inventory));
        for (it, _) in mappings.filter(|(_, class)| matches!(class, Class::ProgramText | Class::MappedFile)) {
            let length = parts.entry((&it.device, it.inode, it.offset)).or_default();
            *length = sane(crate::class::length(it)).max(*length);
        }
    }
    Some((1, parts.into_values().fold(0, u64::saturating_add)))
}

fn autovacuum(seen: &Seen<'_>) -> Option<(u64, u64)> {
    let each = seen.settings.number("autovacuum_work_mem").or_else(|| seen.settings.number("maintenance_work_mem"))?;
    Some((seen.settings.autovacuum_workers()?, each))
}

fn logical_replication(seen: &Seen<'_>) -> Option<(u64, u64)> {
    let workers = seen.settings.number("max_logical_replication_workers").unwrap_or(0);
    let senders = seen.settings.number("max_wal_senders").unwrap_or(0);
    Some((senders.saturating_add(workers), seen.settings.number("logical_decoding_work_mem")?))
}
