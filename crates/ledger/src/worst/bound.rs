// SPDX-License-Identifier: Apache-2.0
//! The memory that a server's settings permit: each buffer as often as the server can hold it at once, and each cache full. Memory that no setting limits
//! counts with its size now, so that the bound is never below the total of now.

use super::buffer::{Buffer, When};
use super::entries::{Concurrency, Line, sum};
use super::global::{self, Global, Seen};
use super::settings::Settings;
use super::{buffers_mysql, buffers_postgresql, realistic};
use crate::{Account, Inventory, Leaf};

/// The leaf of the page tables.
const PAGE_TABLES: &str = "kernel/page_tables";
/// Leaves that have no line of their own: sessions have other lines, and sessions use the memory that malloc keeps first.
const OF_SESSIONS: [&str; 3] = ["sessions/", "backends/", "allocator/"];
/// Entries of a page table. The table is one page, with 8 bytes for each page of 4 KiB: so it covers 2 MiB.
const PAGES_OF_TABLE: u64 = 512;
/// Page tables of one thread: two levels for its stack, and two for an arena of malloc, because both are far from all other memory.
const TABLES_OF_THREAD: u64 = 4 * 4096;

pub(crate) struct Bound {
    pub(crate) lines: Vec<Line>,
    pub(crate) per_connection_bytes: u64,
}

impl Bound {
    /// `None`: the server does not say how many may connect.
    pub(crate) fn of(
        inventory: &Inventory,
        account: &Account,
        settings: &Settings<'_>,
        concurrency: &Concurrency,
    ) -> Option<Self> {
        let clients = concurrency.connections_max?.saturating_add(concurrency.workers_max);
        let seen = Seen { inventory, account, settings, concurrency };
        let mut lines = once(&seen);
        let of_one = of_one(&seen);
        lines.extend(of_one_times(&of_one, clients));
        lines.extend(beside(&seen, clients));
        lines.push(page_tables(&seen, &lines, clients));
        lines.iter_mut().for_each(|line| line.source = settings.noted(&line.source));
        Some(Self { lines, per_connection_bytes: sum(&of_one) })
    }
}

/// Memory that exists once: limited by settings, or counted by its own meter, or with its size now.
fn once(seen: &Seen<'_>) -> Vec<Line> {
    let rows: Vec<&Global> =
        global::ROWS.iter().filter(|row| row.holds(seen.settings)).chain([&global::FILES]).collect();
    let limited = rows.iter().filter_map(|row| Some((*row, row.limit(seen)?)));
    let limited: Vec<(&Global, (u64, u64))> = limited.collect();
    let is_covered = |leaf: &Leaf| leaf.path == PAGE_TABLES || limited.iter().any(|(row, _)| row.covers(&leaf.path));
    let mut lines: Vec<Line> = limited.iter().map(|(row, limit)| of_limit(row, *limit, seen.account)).collect();
    let others = seen.account.leaves.iter().filter(|leaf| !is_covered(leaf));
    let (allocated, rest): (Vec<&Leaf>, Vec<&Leaf>) = others.partition(|leaf| is_allocated(leaf));
    lines.extend(allocated.iter().map(|leaf| of_leaf(leaf)));
    let named: u64 = rest.iter().map(|leaf| leaf.resident_bytes).sum();
    let unexplained = u64::try_from(seen.account.unexplained_bytes).unwrap_or(0);
    let source = "the account: all leaves without a limit of their own, and what is unexplained";
    lines.push(Line::new("all else that is there now", 1, named.saturating_add(unexplained), source));
    lines
}

fn is_allocated(leaf: &Leaf) -> bool {
    let is_of_session = OF_SESSIONS.iter().any(|beginning| leaf.path.starts_with(beginning));
    !is_of_session && leaf.allocated_bytes > Some(leaf.resident_bytes)
}

fn of_leaf(leaf: &Leaf) -> Line {
    let name = leaf.path.replace('_', " ");
    Line::new(name, 1, leaf.allocated_bytes.unwrap_or(0), format!("allocated, by {}", leaf.source))
}

/// At least the memory of the leaves now: a setting may have been lowered, or may not include everything that belongs to it.
fn of_limit(row: &Global, (count, size): (u64, u64), account: &Account) -> Line {
    let leaves = account.leaves.iter().filter(|leaf| row.covers(&leaf.path));
    let now: u64 = leaves.map(|leaf| leaf.allocated_bytes.unwrap_or(0).max(leaf.resident_bytes)).sum();
    if now > count.saturating_mul(size) {
        return Line::new(row.name, 1, now, format!("the account; more than {}", row.source()));
    }
    Line::new(row.name, count, size, row.source())
}

/// Lines of one session.
fn of_one(seen: &Seen<'_>) -> Vec<Line> {
    let rows = if seen.settings.is_postgresql() { buffers_postgresql::ROWS } else { buffers_mysql::ROWS };
    let held: Vec<(&Buffer, Line)> =
        rows.iter().filter(|row| row.holds(seen.settings)).filter_map(|row| Some((row, line(row, seen)?))).collect();
    let of = |when: When| -> i64 {
        held.iter().filter(|(row, _)| row.when == when).map(|(_, line)| line.bytes).fold(0, i64::saturating_add)
    };
    let not_at_once = if of(When::Query) >= of(When::Maintenance) { When::Maintenance } else { When::Query };
    let counted = |(row, line): (&Buffer, Line)| Line { counts: row.when != not_at_once, ..line };
    held.into_iter().map(counted).chain(mark(seen)).collect()
}

fn line(row: &Buffer, seen: &Seen<'_>) -> Option<Line> {
    let times = row.times(seen.concurrency.operations);
    let source = format!("{times} x {}: {}", row.size.setting(), row.source);
    Some(Line::new(format!("sessions: {}", row.name), times, row.size.bytes(seen.settings)?, source))
}

/// A session's own memory that no setting limits, as the largest session so far had it.
fn mark(seen: &Seen<'_>) -> Option<Line> {
    let largest = realistic::largest_session(seen.inventory)?;
    Some(Line::new("sessions: all else", 1, largest.bytes, largest.source))
}

fn of_one_times(of_one: &[Line], clients: u64) -> Vec<Line> {
    let many = |line: &Line| Line {
        counts: line.counts,
        ..Line::new(line.name.clone(), line.count.saturating_mul(clients), line.size_bytes, line.source.clone())
    };
    of_one.iter().map(many).collect()
}

/// PostgreSQL's processes beside clients and workers. Of those that run, `once` has what they have.
fn beside(seen: &Seen<'_>, clients: u64) -> Option<Line> {
    seen.settings.is_postgresql().then_some(())?;
    let largest = realistic::largest_session(seen.inventory).filter(|_| clients > 0)?;
    let source = "autovacuum_max_workers (autovacuum_worker_slots, if that is less) + max_wal_senders, each as the largest backend so far";
    Some(Line::new("processes of autovacuum and replication", count_beside(seen), largest.bytes, source))
}

fn count_beside(seen: &Seen<'_>) -> u64 {
    let senders = seen.settings.number("max_wal_senders").unwrap_or(0);
    seen.settings.autovacuum_workers().unwrap_or(0).saturating_add(senders)
}

/// Page tables for the memory of all other lines. Each of PostgreSQL's processes has tables of its own for the shared memory.
fn page_tables(seen: &Seen<'_>, lines: &[Line], clients: u64) -> Line {
    const NAME: &str = "page tables";
    let leaf = seen.account.leaves.iter().find(|leaf| leaf.path == PAGE_TABLES);
    let now = leaf.map_or(0, |leaf| leaf.resident_bytes);
    let of_all = sum(lines) / PAGES_OF_TABLE;
    if !seen.settings.is_postgresql() {
        let bytes = now.saturating_add(of_all).saturating_add(clients.saturating_mul(TABLES_OF_THREAD));
        return Line::new(
            NAME,
            1,
            bytes,
            "what is there now, 8 bytes for each page of the lines above, 16 KiB for each session",
        );
    }
    let shared = global::shared_memory(seen).map_or(0, |(_, bytes)| bytes);
    let largest = seen.account.processes.iter().map(|it| it.page_tables_bytes).max().unwrap_or(0);
    let each = (shared / PAGES_OF_TABLE).saturating_add(largest);
    let processes = clients.saturating_add(count_beside(seen)).saturating_add(seen.account.processes.len() as u64);
    let bytes = processes.saturating_mul(each).saturating_add(of_all);
    let source = format!(
        "{processes} processes, each with 8 bytes for each page of shared memory and what the largest has now; 8 bytes for each page of the lines above"
    );
    Line::new(NAME, 1, bytes, source)
}
