// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL: the waits of its backends, by `pg_stat_activity` (monitoring.sgml, tables of wait events, 10 to 18).

use super::asking::{Asking, Row, Source};
use ::stalls::watch::{Says, Session};

/// Of another account's connection, a role without `pg_read_all_stats` sees the database, but neither the kind of the backend nor its state.
/// `pg_blocking_pids` reads the table of locks, so it is called only for backends that wait for a lock.
const SESSIONS: [Source; 1] = [Source {
    sql: "SELECT pid, state, wait_event_type, wait_event, left(query, 1024), \
          CASE WHEN wait_event_type = 'Lock' THEN array_to_string(pg_blocking_pids(pid), ' ') END, \
          (extract(epoch FROM clock_timestamp() - query_start) * 1000000)::bigint \
          FROM pg_stat_activity WHERE pid <> pg_backend_pid() \
          AND (backend_type = 'client backend' OR backend_type IS NULL AND datid IS NOT NULL)",
    is_enough: true,
}];

pub(super) fn sessions(asking: &mut Asking<'_>) -> Option<Vec<Session>> {
    let rows = asking.first_of("sessions", &SESSIONS, "PostgreSQL 10 or later tells what its backends wait for")?;
    if rows.iter().any(|row| row.text(4) == "<insufficient privilege>") {
        asking.missing(
            "what the connections of other accounts do",
            "pg_stat_activity shows only those of this account".to_owned(),
            Some("GRANT pg_read_all_stats"),
        );
    }
    Some(rows.iter().filter_map(session).collect())
}

fn session(row: &Row) -> Option<Session> {
    let connection = row.number(0)?;
    let (kind, event) = (row.text(2), row.text(3));
    let says = match row.text(1) {
        "active" | "fastpath function call" => says(kind, event),
        // this role may not see the state
        "" | "disabled" => return None,
        _ => Says::Idle,
    };
    let words = if kind.is_empty() { String::new() } else { format!("{kind}/{event}") };
    // of an idle connection it is the last one, which is over
    let statement = Some(row.text(4)).filter(|text| !text.is_empty() && says != Says::Idle).map(str::to_owned);
    let blocked_by = row.text(5).split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    Some(Session {
        connection,
        thread: u32::try_from(connection).ok(),
        says,
        words,
        statement,
        age_us: row.number(6),
        blocked_by,
        perhaps_blocked_by: Vec::new(),
    })
}

fn says(kind: &str, event: &str) -> Says {
    let ends = |endings: &[&str]| endings.iter().any(|it| event.ends_with(it));
    match kind {
        "Lock" => match event {
            "transactionid" | "tuple" | "spectoken" => Says::RowLock,
            "advisory" | "userlock" => Says::AskedToWait,
            "extend" => Says::Mutex,
            // among them `virtualxid`: CREATE INDEX CONCURRENTLY waits for older transactions
            _ => Says::MetadataLock,
        },
        "LWLock" | "LWLockNamed" | "LWLockTranche" => match event {
            "WALWrite" | "WALWriteLock" => Says::Sync,
            "BufferIO" | "buffer_io" => Says::DiskRead,
            _ => Says::Mutex,
        },
        "BufferPin" | "Buffer" => Says::BufferPin,
        "IO" if ends(&["Read", "Prefetch", "AioIoCompletion"]) => Says::DiskRead,
        "IO" if ends(&["Sync", "Write", "Flush", "Extend", "SyncMethodAssign"]) => Says::Sync,
        "IPC" if event.starts_with("Checkpoint") => Says::Checkpoint,
        "IPC" if is_for_workers(event) => Says::AskedToWait,
        "IPC" if event == "BufferIo" || event == "BufferIO" => Says::DiskRead,
        // these two wait for another process; the others sleep for as long as they were told
        "Timeout" if event == "SpinDelay" => Says::Mutex,
        "Timeout" if event == "RegisterSyncRequest" => Says::Checkpoint,
        "Timeout" => Says::AskedToWait,
        "Client" => Says::Idle,
        "Activity" => Says::Background,
        _ => Says::Busy,
    }
}

/// Whether the leader of a parallel query waits for its workers; the spellings are those of 10 to 18.
fn is_for_workers(event: &str) -> bool {
    const BEGINNINGS: [&str; 5] = ["Parallel", "Hash", "Append", "BgWorker", "MessageQueue"];
    event == "ExecuteGather" || BEGINNINGS.iter().any(|it| event.starts_with(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_events_of_versions_10_to_18() {
        assert_eq!(says("Lock", "transactionid"), Says::RowLock);
        assert_eq!(says("Lock", "relation"), Says::MetadataLock);
        assert_eq!(says("Lock", "advisory"), Says::AskedToWait);
        assert_eq!(says("IO", "DataFileRead"), Says::DiskRead);
        assert_eq!(says("IO", "WALSync"), Says::Sync);
        assert_eq!(says("LWLock", "WALWrite"), Says::Sync);
        assert_eq!(says("LWLock", "BufferMapping"), Says::Mutex);
        assert_eq!(says("Timeout", "PgSleep"), Says::AskedToWait);
        assert_eq!(says("Client", "ClientRead"), Says::Idle);
        assert_eq!(says("IPC", "CheckpointDone"), Says::Checkpoint);
        assert_eq!(says("IPC", "SyncRep"), Says::Busy, "no disk of this host");
        assert_eq!(says("", ""), Says::Busy);
    }

    #[test]
    fn a_wait_for_an_old_transaction_is_no_wait_for_a_row() {
        assert_eq!(says("Lock", "virtualxid"), Says::MetadataLock);
    }

    #[test]
    fn the_leader_of_a_parallel_query_waits_for_its_own_work() {
        for event in [
            "ExecuteGather",
            "ParallelFinish",
            "ParallelBitmapScan",
            "ParallelCreateIndexScan",
            "AppendReady",
            "BgWorkerStartup",
            "BgWorkerShutdown",
            "MessageQueueReceive",
            "MessageQueueSend",
            "MessageQueueInternal",
            "MessageQueuePutMessage",
            "HashBuildHashInner",
            "Hash/Build/HashingInner",
            "Hash/Batch/Loading",
            "HashGrowBatchesElect",
        ] {
            assert_eq!(says("IPC", event), Says::AskedToWait, "{event}");
        }
    }
}
