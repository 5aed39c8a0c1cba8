// SPDX-License-Identifier: Apache-2.0
//! How many connections at once there are, have been, and may be; and how many operations one statement may run at once.

use super::entries::{Assumed, Concurrency};
use super::settings::Settings;
use crate::Inventory;

/// `MAX_TABLES` of MySQL's and MariaDB's sql/sql_const.h, less three that they keep for themselves: a SELECT reads at most so many tables.
const MOST_TABLES: u64 = 61;
/// The planner's default of join_collapse_limit, for a server that does not say it.
const COLLAPSE: u64 = 8;

pub(crate) fn of(inventory: &Inventory, settings: &Settings<'_>, assumed: &Assumed) -> Concurrency {
    let now = connected(inventory, settings);
    let (peak, peak_source) = peak(settings, assumed, now);
    let (max, max_source) = most(settings);
    let (operations, operations_source) = operations(settings, assumed);
    Concurrency {
        connections_now: now,
        connections_peak: peak,
        connections_peak_source: peak_source,
        connections_max: max,
        connections_max_source: max_source,
        workers_max: workers(settings),
        operations,
        operations_source,
    }
}

fn connected(inventory: &Inventory, settings: &Settings<'_>) -> u64 {
    if settings.is_postgresql() {
        let clients = inventory.processes.iter().filter(|it| is_client(it)).count();
        return clients as u64;
    }
    let sessions = inventory.server.as_ref().map_or(0, |server| server.sessions.len() as u64);
    settings.status("Threads_connected").unwrap_or(sessions)
}

pub(crate) fn is_client(process: &crate::ProcessSeen) -> bool {
    process.role == "client backend"
}

fn peak(settings: &Settings<'_>, assumed: &Assumed, now: u64) -> (u64, String) {
    if let Some(asked) = assumed.connections {
        let source = if asked < now { format!("now; --connections {asked} is less") } else { "--connections".into() };
        return (asked.max(now), source);
    }
    match settings.status("Max_used_connections") {
        Some(most) => (most.max(now), "SHOW GLOBAL STATUS, Max_used_connections".into()),
        None if settings.is_postgresql() => {
            (now, "now; PostgreSQL keeps no high-water mark, so `--connections N` says it better".into())
        }
        None => (now, "now".into()),
    }
}

fn most(settings: &Settings<'_>) -> (Option<u64>, String) {
    let Some(configured) = settings.number("max_connections") else {
        return (None, "max_connections is not known".into());
    };
    if settings.is_postgresql() {
        return (Some(configured), "max_connections".into());
    }
    let extra = settings.number("extra_port").filter(|port| *port > 0).and(settings.number("extra_max_connections"));
    let source = match extra {
        Some(_) => "max_connections + 1 for an administrator + extra_max_connections + 1",
        None => "max_connections + 1 for an administrator",
    };
    (Some(configured + 1 + extra.map_or(0, |extra| extra + 1)), source.into())
}

/// PostgreSQL's parallel workers and those of extensions and of logical replication come from one pool. MySQL's and MariaDB's replication has workers, and
/// a reader and a coordinator.
fn workers(settings: &Settings<'_>) -> u64 {
    if settings.is_postgresql() {
        return settings.number("max_worker_processes").unwrap_or(0);
    }
    let names = ["replica_parallel_workers", "slave_parallel_workers", "slave_parallel_threads"];
    names.iter().find_map(|name| settings.number(name)).unwrap_or(0) + 2
}

fn operations(settings: &Settings<'_>, assumed: &Assumed) -> (u64, String) {
    if let Some(asked) = assumed.operations {
        return (asked, "--operations".into());
    }
    if !settings.is_postgresql() {
        return (MOST_TABLES, "a SELECT reads at most 61 tables".into());
    }
    let collapse = settings.number("join_collapse_limit").unwrap_or(COLLAPSE).max(1);
    let why =
        "2 x join_collapse_limit: each join of so many tables sorts both of its sides, then a grouping and an order";
    (2 * collapse, settings.noted(why))
}
