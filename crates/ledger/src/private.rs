// SPDX-License-Identifier: Apache-2.0
//! Private memory, which contains malloc's blocks. It is split first by the walk through the allocator, then by figures whose resident part is known, then
//! by the server's meters, and last by what meters count and nothing measures. Each gets at most what those before it have left; the rest is unexplained.

use crate::claim::Claim;
use crate::contexts;
use crate::entries::Basis;
use crate::figures::Figures;
use crate::pieces::Partition;
use crate::row::{Amount, Reckoned, Row, Rule};
use crate::share::{self, sane};
use crate::{Class, Inventory, ProcessSeen, huge, key_cache, leaf, untouched};
use capability::Flavour;
use std::collections::BTreeSet;

/// The leaves of one process; their sum is at most its resident memory.
pub(crate) struct Split {
    pub(crate) leaves: Vec<Claim>,
    /// By how much the server's meters count more than is resident beside all else that is known.
    pub(crate) overcounted: u64,
}

pub(crate) fn split(inventory: &Inventory, partition: &Partition, process: usize, rows: &[&'static Row]) -> Split {
    let seen = &inventory.processes[process];
    let resident = partition.private_of(process);
    let retained = retained(seen, partition, process).min(resident);
    let claims = claims(inventory, partition, process, rows);
    let (mut known, mut metered): (Vec<Claim>, Vec<Claim>) =
        claims.into_iter().partition(|claim| claim.basis == Basis::Formula);
    known.extend(collations(seen, rows));
    let (mut unmeasured, untouched) = match process {
        0 => (unmeasured(inventory, rows), untouched::bytes(inventory, partition, process)),
        _ => (Vec::new(), 0),
    };
    untouched::take_from(&mut unmeasured, untouched::of_others(untouched, &metered, &Figures::of(inventory)));
    let mut left = resident - retained;
    let mut overcounted = 0;
    for claims in [&mut known, &mut metered, &mut unmeasured] {
        let wanted = sum(claims);
        cap(claims, left);
        left -= sum(claims);
        overcounted += wanted - sum(claims);
    }
    let leaves = [known, metered, unmeasured].into_iter().flatten().chain(walked(seen, retained));
    Split { leaves: leaves.collect(), overcounted }
}

fn sum(claims: &[Claim]) -> u64 {
    claims.iter().map(|claim| claim.resident).sum()
}

/// Scales the resident bytes of the claims down to `budget`; the allocated bytes stay.
pub(crate) fn cap(claims: &mut [Claim], budget: u64) {
    let mut parts: Vec<u64> = claims.iter().map(|claim| claim.resident).collect();
    share::cap(&mut parts, budget);
    for (claim, part) in claims.iter_mut().zip(parts) {
        claim.resident = part;
    }
}

/// Chunks that are free and resident; where a forked process shares pages, its part of them.
fn retained(seen: &ProcessSeen, partition: &Partition, process: usize) -> u64 {
    let Some(heap) = &seen.heap else { return 0 };
    let pieces = partition.pieces.iter().filter(|piece| piece.process == process);
    let proportional: u64 = pieces.clone().filter(|piece| piece.class == Class::Heap).map(|piece| piece.bytes).sum();
    let mappings = seen.mappings.as_deref().unwrap_or_default().iter().zip(&partition.classes[process]);
    let resident: u64 = mappings.filter(|(_, class)| **class == Class::Heap).map(|(it, _)| sane(it.rss)).sum();
    let free = sane(heap.free_resident).min(sane(heap.free));
    match (resident, pieces.clone().any(|piece| piece.mapping.is_some())) {
        // without the mappings nothing says how much of it is shared
        (_, false) => free,
        (0, true) => 0,
        (resident, true) => share::of(free, proportional.min(resident), u128::from(resident)).min(proportional),
    }
}

fn walked(seen: &ProcessSeen, retained: u64) -> Option<Claim> {
    let heap = seen.heap.as_ref()?;
    Some(Claim {
        path: "allocator/retained".into(),
        resident: retained,
        allocated: Some(sane(heap.free)),
        basis: Basis::Allocator,
        source: format!("free memory of malloc, layout of {}", heap.layout),
        at_us: seen.at_us,
    })
}

/// By the server's list of the blocks; the kernel tells how much of them is resident.
fn collations(seen: &ProcessSeen, rows: &[&'static Row]) -> Option<Claim> {
    let row = rows.iter().find(|row| matches!(row.rule, Rule::Collations))?;
    let found = seen.collations?;
    let amount = Amount { resident: found.resident, allocated: found.allocated };
    Some(Claim { at_us: seen.at_us, ..claim(row, amount, 0) })
}

fn claims(inventory: &Inventory, partition: &Partition, process: usize, rows: &[&'static Row]) -> Vec<Claim> {
    let seen = &inventory.processes[process];
    match inventory.flavour {
        Some(Flavour::Postgresql) => of_contexts(seen, rows),
        // the server's figures are those of its first process
        Some(_) if process == 0 => of_server(inventory, partition, rows),
        _ => Vec::new(),
    }
}

fn of_contexts(seen: &ProcessSeen, rows: &[&'static Row]) -> Vec<Claim> {
    let contexts = seen.contexts.as_deref().unwrap_or_default();
    let leaves = contexts::by_leaf(contexts, rows).into_iter();
    let claim = |(path, amount): (&str, Amount)| Claim {
        path: path.to_owned(),
        resident: amount.resident,
        allocated: Some(amount.allocated),
        basis: Basis::Server,
        source: "memory contexts, mem_allocated".into(),
        at_us: seen.at_us,
    };
    leaves.map(claim).collect()
}

/// The first row of each leaf that yields a figure.
fn of_server(inventory: &Inventory, partition: &Partition, rows: &[&'static Row]) -> Vec<Claim> {
    let figures = &Figures::of(inventory);
    let mut taken = elsewhere(inventory, partition);
    let mut claims = Vec::new();
    for row in rows {
        if taken.contains(row.path) {
            continue;
        }
        let Some(amount) = row.rule.amount(row.path, *figures).filter(|_| !is_unmeasured(row)) else { continue };
        taken.insert(row.path);
        claims.push(claim(row, amount, figures.at_us()));
    }
    claims.extend(named_key_caches(figures));
    claims.extend(figures.other_areas().into_iter().map(|(path, bytes)| Claim {
        path,
        resident: bytes,
        allocated: Some(bytes),
        basis: Basis::Server,
        source: "performance_schema.memory_summary_global_by_event_name, events that no leaf names".into(),
        at_us: figures.at_us(),
    }));
    claims
}

/// Whether the row counts what was asked for, and nothing tells how much of it was touched: a cache of 64 MiB for each transaction is in it as soon as the
/// transaction begins.
fn is_unmeasured(row: &Row) -> bool {
    row.path == COUNTED
}

const COUNTED: &str = "server/counted";

/// Of the server's first process.
fn unmeasured(inventory: &Inventory, rows: &[&'static Row]) -> Vec<Claim> {
    let figures = Figures::of(inventory);
    let row = rows.iter().find(|row| is_unmeasured(row));
    let counted = row.and_then(|row| Some(claim(row, row.rule.amount(row.path, figures)?, figures.at_us())));
    let beside_default = key_cache::blocks_beside_default(&figures)
        .map(|bytes| of_key_caches(Amount::whole(bytes), key_cache::EVENT_SOURCE, figures.at_us()));
    beside_default.into_iter().chain(counted).collect()
}

/// MariaDB's, by its list of them. The default cache has a row of its own.
fn named_key_caches(figures: &Figures<'_>) -> Option<Claim> {
    Some(of_key_caches(key_cache::named_blocks(figures)?, key_cache::LIST_SOURCE, figures.at_us()))
}

fn of_key_caches(amount: Amount, source: &str, at_us: u64) -> Claim {
    Claim {
        path: "data_cache/key_cache".into(),
        resident: amount.resident,
        allocated: Some(amount.allocated),
        basis: Basis::Server,
        source: source.to_owned(),
        at_us,
    }
}

/// Leaves that have mappings, or huge pages, of their own.
fn elsewhere(inventory: &Inventory, partition: &Partition) -> BTreeSet<&'static str> {
    let own = [Class::BufferPool, Class::LogBuffer, Class::KeyCache, Class::AriaCache];
    let mut taken: BTreeSet<&'static str> = own
        .into_iter()
        .filter(|class| partition.has(*class))
        .filter_map(|class| Some(leaf::of_class(class)?.path))
        .collect();
    if partition.has(Class::KeyAndAriaCache) {
        taken.extend(["data_cache/key_cache", "data_cache/aria_cache"]);
    }
    // InnoDB 5.6 has the descriptors in the pool's mapping, which is split
    if partition.has(Class::BufferPool) && Figures::of(inventory).pool_counted().is_some() {
        taken.insert("data_cache/buffer_pool_overhead");
    }
    taken.extend(huge::leaves(inventory, &Figures::of(inventory)));
    taken
}

fn claim(row: &Row, amount: Amount, at_us: u64) -> Claim {
    Claim {
        path: row.path.to_owned(),
        resident: sane(amount.resident.min(amount.allocated)),
        allocated: Some(sane(amount.allocated)),
        basis: row.rule.basis(),
        source: source(row),
        at_us,
    }
}

/// With the name of the figure, where the row's source does not have it.
fn source(row: &Row) -> String {
    match row.rule {
        Rule::Status(name) => format!("{}, {name}", row.source),
        Rule::Blocks { used, block, .. } => format!("{}, {used} x {block}", row.source),
        Rule::Less { size, free } => format!("{}, {size} - {free}", row.source),
        Rule::Innodb(line) => format!("{}, {line}", row.source),
        _ => row.source.to_owned(),
    }
}

/// For MariaDB: the memory of sessions that wait for their client. Nothing where memory events count sessions.
pub(crate) fn idle_sessions(of: &Reckoned<'_>) -> Option<Amount> {
    let (idle, _) = of.0.sessions().filter(|_| of.0.events_in_memory_used() == 0)?;
    Some(Amount::whole(idle))
}

/// For MariaDB: sessions that run a statement. Where memory events count sessions: the memory that no event names, because there is no event for the buffer of
/// a sort.
pub(crate) fn active_sessions(of: &Reckoned<'_>) -> Option<Amount> {
    let (_, active) = of.0.sessions()?;
    let bytes = if of.0.events_in_memory_used() == 0 { active } else { without_events(&of.0) };
    (bytes > 0).then(|| Amount::whole(bytes))
}

/// The memory of sessions, by their list, that no memory event names.
fn without_events(figures: &Figures<'_>) -> u64 {
    let (idle, active) = figures.sessions().unwrap_or_default();
    (idle + active).saturating_sub(figures.events_of_sessions())
}

/// For MariaDB: the rest of `Memory_used`, which also counts the pool, two log buffers, the caches by their configured sizes, and sessions.
pub(crate) fn other_counted(of: &Reckoned<'_>) -> Option<Amount> {
    let size = |name: &str| of.0.size(name).unwrap_or(0);
    counted_beside(size("innodb_buffer_pool_size") + 2 * size("innodb_log_buffer_size"), of)
}

/// Before 10.2 `Memory_used` counts only memory that comes from `my_malloc`: none of InnoDB's.
pub(crate) fn other_counted_without_innodb(of: &Reckoned<'_>) -> Option<Amount> {
    counted_beside(0, of)
}

fn counted_beside(innodb: u64, of: &Reckoned<'_>) -> Option<Amount> {
    let figures = &of.0;
    let caches = ["key_buffer_size", "aria_pagecache_buffer_size", "query_cache_size"];
    let caches: u64 = caches.into_iter().filter_map(|name| figures.size(name)).sum();
    let caches = caches + key_cache::named_size(figures);
    // where no memory event is counted, all memory of the sessions is without events
    let sessions = figures.events_in_memory_used() + without_events(figures);
    figures.status("Memory_used")?.checked_sub(innodb + caches + sessions).map(Amount::whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServerSeen;

    /// XtraDB's server, 10.1.23, under 16 connections. By a heap profile, `my_malloc` had given 273,750,448 bytes to one that had just been started, and
    /// `Memory_used` said 273,943,144.
    #[test]
    fn what_an_old_mariadb_counts_has_nothing_of_innodb() {
        let texts = |pairs: &[(&str, &str)]| pairs.iter().map(|(name, it)| ((*name).into(), (*it).into())).collect();
        let variables = texts(&[
            ("innodb_buffer_pool_size", "134217728"),
            ("innodb_log_buffer_size", "16777216"),
            ("key_buffer_size", "134217728"),
            ("aria_pagecache_buffer_size", "134217728"),
            ("query_cache_size", "1048576"),
        ]);
        let server = ServerSeen { variables, status: texts(&[("Memory_used", "279896320")]), ..ServerSeen::default() };
        let inventory = Inventory { flavour: Some(Flavour::Mariadb), server: Some(server), ..Inventory::default() };
        let of = Reckoned(Figures::of(&inventory));
        assert_eq!(other_counted_without_innodb(&of), Some(Amount::whole(10_412_288)));
        assert_eq!(other_counted(&of), None, "it says less than InnoDB and the caches have");
    }
}
