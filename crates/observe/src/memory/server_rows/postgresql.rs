// SPDX-License-Identifier: Apache-2.0
mod own_settings;

use super::{Asking, Row, number, text};
use ledger::{ServerSeen, Session, SharedAllocation};

const MONITOR: Option<&str> = Some("GRANT pg_monitor TO the account that asks");
const SHARED: Option<&str> = Some(
    "GRANT pg_read_all_stats TO the account that asks; before PostgreSQL 15 GRANT EXECUTE ON FUNCTION pg_get_shmem_allocations() and SELECT ON pg_shmem_allocations",
);
/// The settings that affect memory. They are requested by name, because commands, connection strings and settings of extensions may hold secrets.
const SETTINGS: [&str; 23] = [
    "autovacuum_max_workers",
    "autovacuum_work_mem",
    "autovacuum_worker_slots",
    "dynamic_shared_memory_type",
    "hash_mem_multiplier",
    "huge_page_size",
    "huge_pages",
    "huge_pages_status",
    "join_collapse_limit",
    "logical_decoding_work_mem",
    "maintenance_work_mem",
    "max_connections",
    "max_logical_replication_workers",
    "max_parallel_workers",
    "max_stack_depth",
    "max_wal_senders",
    "max_worker_processes",
    "server_version",
    "shared_buffers",
    "shared_memory_type",
    "temp_buffers",
    "wal_buffers",
    "work_mem",
];

pub(super) fn read(asking: &mut Asking<'_>, seen: &mut ServerSeen) {
    own_settings::read(asking, &SETTINGS, seen);
    const ALLOCATIONS: &str =
        "SELECT name, off, size, allocated_size FROM pg_shmem_allocations ORDER BY off NULLS LAST";
    let rows = asking.rows_of("parts of shared memory", ALLOCATIONS, SHARED);
    seen.shared_allocations = rows.iter().filter_map(allocation).collect();
    const ACTIVITY: &str = "SELECT pid, usename, coalesce(backend_type, state) FROM pg_stat_activity ORDER BY pid";
    seen.sessions = asking.rows_of("sessions", ACTIVITY, MONITOR).iter().filter_map(session).collect();
}

fn allocation(row: &Row) -> Option<SharedAllocation> {
    let name = row.first()?.clone();
    let (offset, size, allocated_size) = (number(row, 1), number(row, 2)?, number(row, 3)?);
    Some(SharedAllocation { name, offset, size, allocated_size, touched: None })
}

fn session(row: &Row) -> Option<Session> {
    let (id, pid) = (number(row, 0)?, number(row, 0));
    Some(Session { id, pid, account: text(row, 1), command: text(row, 2), bytes: None, bytes_max: None })
}
