// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::{AccountMark, KeyCacheSeen, Marks, ProcessSeen, Raised, ServerSeen, Session, SharedAllocation};
use capability::Flavour;

const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;

fn texts(pairs: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn sizes(pairs: &[(&str, u64)]) -> std::collections::BTreeMap<String, u64> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

/// 100 MiB resident, once 130 MiB; two sessions, once five.
fn mariadb() -> Inventory {
    let session = |id, account: &str, now, most| Session {
        id,
        account: account.into(),
        command: "Sleep".into(),
        bytes: Some(now),
        bytes_max: Some(most),
        ..Session::default()
    };
    let variables = texts(&[
        ("max_connections", "9"),
        ("innodb_buffer_pool_size", "134217728"),
        ("sort_buffer_size", "2097152"),
        ("join_buffer_size", "262144"),
        ("tmp_table_size", "16777216"),
        ("max_heap_table_size", "8388608"),
        ("max_allowed_packet", "1048576"),
        ("thread_stack", "299008"),
        ("myisam_sort_buffer_size", "134217728"),
        ("log_bin", "OFF"),
        ("binlog_cache_size", "32768"),
        ("key_buffer_size", "8388608"),
        ("aria_pagecache_buffer_size", "8388608"),
        ("innodb_log_buffer_size", "16777216"),
    ]);
    Inventory {
        flavour: Some(Flavour::Mariadb),
        version: Some("10.11.19-MariaDB".into()),
        processes: vec![ProcessSeen {
            pid: 7,
            role: "mariadbd".into(),
            status: sizes(&[
                ("RssAnon", 90 * MIB),
                ("RssFile", 10 * MIB),
                ("VmRSS", 100 * MIB),
                ("VmHWM", 130 * MIB),
                ("VmPTE", MIB),
                ("Threads", 10),
            ]),
            rollup: Some(sizes(&[("Pss", 100 * MIB), ("Pss_File", 10 * MIB)])),
            ..ProcessSeen::default()
        }],
        server: Some(ServerSeen {
            variables,
            status: texts(&[("Threads_connected", "2"), ("Max_used_connections", "5")]),
            sessions: vec![session(1, "app@h", MIB, 11 * MIB), session(2, "app@h", MIB, 21 * MIB)],
            account_limits: Some([("app@h".to_owned(), None)].into()),
            ..ServerSeen::default()
        }),
        ..Inventory::default()
    }
}

fn line<'a>(lines: &'a [Line], name: &str) -> &'a Line {
    lines.iter().find(|line| line.name == name).unwrap_or_else(|| panic!("no line {name}: {lines:#?}"))
}

/// By hand: two sessions may grow by 10 and 20 MiB, and three more of 16 MiB on average may come: 78 MiB, more than the 30 of the kernel's mark.
#[test]
fn the_realistic_peak_of_a_mariadb() {
    let worst = worst_case(&mariadb(), &Assumed::default());
    assert_eq!(worst.now_bytes, 101 * MIB, "resident, and page tables");
    assert_eq!(line(&worst.realistic, "sessions at their largest").bytes, 30 << 20);
    let more = line(&worst.realistic, "more sessions at once");
    assert_eq!((more.count, more.size_bytes, more.counts), (3, 16 * MIB, true));
    let kernel = line(&worst.realistic, "the processes at their largest");
    assert_eq!((kernel.bytes, kernel.counts), (30 << 20, false), "the smaller one does not count");
    assert_eq!(worst.realistic_bytes, (101 + 78) * MIB);
    let more = Assumed { connections: Some(7), ..Assumed::default() };
    assert_eq!(worst_case(&mariadb(), &more).realistic_bytes, (101 + 30 + 5 * 16) * MIB);
}

/// The mark of the kernel counts where the server says less.
#[test]
fn without_marks_of_sessions_the_kernels_mark_counts() {
    let mut inventory = mariadb();
    inventory.server.iter_mut().for_each(|server| server.sessions.clear());
    let worst = worst_case(&inventory, &Assumed::default());
    assert_eq!(worst.realistic_bytes, (101 + 30) * MIB);
}

/// `--connections 500` must not look as if 500 connections were counted.
#[test]
fn more_connections_whose_memory_nothing_tells_are_named() {
    let many = Assumed { connections: Some(500), ..Assumed::default() };
    let of = |inventory: &Inventory, assumed: &Assumed| {
        let worst = worst_case(inventory, assumed);
        (worst.missing, worst.concurrency.connections_peak_source)
    };
    assert!(of(&mariadb(), &many).0.is_empty(), "it has marks");
    let refused = "; the server admits only 10 connections (max_connections + 1 for an administrator)";
    assert_eq!(of(&mariadb(), &many).1, format!("--connections{refused}"));
    let mut mysql = mariadb();
    (mysql.flavour, mysql.version) = (Some(Flavour::Mysql), Some("8.0.29".into()));
    mysql.server.iter_mut().flat_map(|server| &mut server.sessions).for_each(|session| session.bytes_max = None);
    let (missing, source) = of(&mysql, &many);
    assert_eq!(source, format!("--connections; the memory of 498 of them is not counted{refused}"));
    assert_eq!((missing.len(), missing[0].what.as_str()), (1, "the memory of 498 more connections"));
    assert!(missing[0].remedy.as_ref().is_some_and(|remedy| remedy.contains("8.0.31")), "{missing:?}");
    assert!(
        of(&mysql, &Assumed::default()).1.ends_with("Max_used_connections; the memory of 3 of them is not counted")
    );
    let as_many = Assumed { connections: Some(10), ..Assumed::default() };
    assert_eq!(of(&mariadb(), &as_many).1, "--connections");
    let few = Assumed { connections: Some(2), ..Assumed::default() };
    assert!(of(&mysql, &few).0.is_empty(), "all of them are there now");
    mysql.server.iter_mut().flat_map(|server| &mut server.sessions).for_each(|session| session.bytes_max = Some(0));
    assert_eq!(of(&mysql, &many).0, missing, "what is not counted is 0");
    mysql.server = None;
    assert_eq!(of(&mysql, &many).0[0].remedy.as_deref(), Some("a connection to the server"));
    let mut postgresql = postgresql();
    assert!(of(&postgresql, &many).0.is_empty());
    postgresql.processes.truncate(1);
    assert!(of(&postgresql, &many).0[0].why.starts_with("no client backend"));
}

/// By hand, for 9 + 1 connections and 2 threads of replication.
#[test]
fn the_bound_of_a_mariadb() {
    let worst = worst_case(&mariadb(), &Assumed { operations: Some(20), ..Assumed::default() });
    let of = |name: &str| {
        let line = line(&worst.bound, name);
        (line.count, line.size_bytes, line.counts)
    };
    assert_eq!(of("buffer pool"), (1, 128 * MIB, true));
    assert_eq!(of("caches of MyISAM and Aria"), (1, 16 * MIB, true));
    assert_eq!(of("redo log buffers"), (2, 16 * MIB, true));
    assert_eq!(of("sessions: sort"), (240, 2 * MIB, true));
    assert_eq!(of("sessions: join"), (240, 256 * KIB, true));
    assert_eq!(of("sessions: temporary tables"), (240, 8 * MIB, true), "the lesser of both settings");
    assert_eq!(of("sessions: packet buffers, to the client and from it"), (24, MIB, true));
    assert_eq!(of("sessions: text of a statement, parsed"), (36, MIB, true));
    assert_eq!(of("sessions: all else"), (12, 21 * MIB, true));
    assert!(!worst.bound.iter().any(|line| line.name.contains("binlog")), "the binlog is off");
}

/// `SET GLOBAL hot.key_buffer_size = 1400 * 1024 * 1024`, of which nothing is resident before it is used.
#[test]
fn the_bound_has_key_caches_with_names_of_their_own() {
    let caches = |inventory: &Inventory| {
        let worst = worst_case(inventory, &Assumed::default());
        let open = worst.unbounded.iter().any(|it| it.name == "key caches with names of their own");
        (line(&worst.bound, "caches of MyISAM and Aria").size_bytes / MIB, open)
    };
    let mut inventory = mariadb();
    let cache = |name: &str, size| KeyCacheSeen { name: name.into(), size, block: 1024, ..KeyCacheSeen::default() };
    inventory.server.get_or_insert_default().key_caches = vec![cache("default", 8 * MIB), cache("hot", 1400 * MIB)];
    assert_eq!(caches(&inventory), (1416, false));
    // MySQL tells it by a memory event
    (inventory.flavour, inventory.version) = (Some(Flavour::Mysql), Some("9.7.4".into()));
    let server = inventory.server.get_or_insert_default();
    server.key_caches.clear();
    server.variables.remove("aria_pagecache_buffer_size");
    server.variables.insert("performance_schema".into(), "ON".into());
    server.memory_events.insert("memory/mysys/KEY_CACHE".into(), 1408 << 20);
    assert_eq!(caches(&inventory), (1408, false));
    let server = inventory.server.get_or_insert_default();
    server.variables.insert("performance_schema".into(), "OFF".into());
    server.memory_events.clear();
    assert_eq!(caches(&inventory), (8, true), "and without it they are named");
}

#[test]
fn a_query_and_a_repair_are_not_at_once() {
    let counted = |operations| {
        let worst = worst_case(&mariadb(), &Assumed { operations: Some(operations), ..Assumed::default() });
        let of = |name: &str| line(&worst.bound, name).counts;
        (of("sessions: sort"), of("sessions: repair or index of MyISAM"), worst.per_connection_bytes)
    };
    // stack 292 KiB, packets 2 MiB, statement 3 MiB, and the largest session 21 MiB
    let always = 292 * KIB + 26 * MIB;
    assert_eq!(counted(4), (false, true, Some(always + 128 * MIB)));
    assert_eq!(counted(61), (true, false, Some(always + 61 * (10 * MIB + 256 * KIB))));
}

#[test]
fn sums_are_those_of_the_lines_that_count() {
    let worst = worst_case(&mariadb(), &Assumed::default());
    let sum = |lines: &[Line]| lines.iter().filter(|it| it.counts).map(|it| it.bytes.cast_unsigned()).sum::<u64>();
    assert_eq!(Some(sum(&worst.bound)), worst.bound_bytes);
    assert!(worst.bound.iter().all(|it| it.bytes.cast_unsigned() == it.count * it.size_bytes && !it.source.is_empty()));
    assert!(worst.bound_bytes > Some(worst.realistic_bytes) && worst.realistic_bytes >= worst.now_bytes);
    assert!(
        worst.unbounded.iter().any(|it| it.name.starts_with("sorts, joins") && it.counted.starts_with("61 of each"))
    );
    assert!(worst.unbounded.iter().all(|it| it.name != "events"), "the scheduler is off");
}

/// By hand: 8 + 8 + 0 + 16 + 0 + 128 MiB of caches; 2 + 1/4 + 8 MiB, 292 + 32 KiB a session.
#[test]
fn the_formula_that_users_know() {
    let worst = worst_case(&mariadb(), &Assumed::default());
    let each = 10 * MIB + 256 * KIB + 292 * KIB + 32 * KIB;
    let reached = line(&worst.comparison, "MySQLTuner: maximum reached memory");
    assert_eq!((reached.size_bytes, reached.counts), (160 * MIB + 5 * each, false));
    assert_eq!(line(&worst.comparison, "MySQLTuner: maximum possible memory").size_bytes, 160 * MIB + 9 * each);
}

#[test]
fn temporary_tables_of_mysql_have_one_limit_together() {
    let mut inventory = mariadb();
    (inventory.flavour, inventory.version) = (Some(Flavour::Mysql), Some("8.4.3".into()));
    if let Some(server) = &mut inventory.server {
        server.variables.extend(texts(&[
            ("internal_tmp_mem_storage_engine", "TempTable"),
            ("temptable_max_ram", "1073741824"),
            ("temptable_max_mmap", "0"),
            ("replica_pending_jobs_size_max", "134217728"),
            ("slave_pending_jobs_size_max", "134217728"),
        ]));
        server.marks = Some(Marks {
            accounts: vec![AccountMark { account: "b@h".into(), connections: 0, session_bytes_max: Some(40 * MIB) }],
            statements: Vec::new(),
        });
    }
    let worst = worst_case(&inventory, &Assumed::default());
    assert_eq!(line(&worst.bound, "temporary tables").size_bytes, 1 << 30);
    assert_eq!(line(&worst.bound, "sessions: first block of temporary tables").count, 12);
    assert!(!worst.bound.iter().any(|line| line.name == "sessions: temporary tables"));
    assert_eq!(line(&worst.bound, "redo log buffer").count, 1);
    assert_eq!(line(&worst.bound, "queue of replication's workers").size_bytes, 128 * MIB, "one setting of two names");
    assert_eq!(line(&worst.bound, "sessions: all else").size_bytes, 40 * MIB, "also of sessions that have ended");
    if let Some(server) = &mut inventory.server {
        server.variables.insert("internal_tmp_mem_storage_engine".into(), "MEMORY".into());
    }
    let worst = worst_case(&inventory, &Assumed::default());
    assert_eq!(line(&worst.bound, "sessions: temporary tables").count, 12 * 61);
}

#[test]
fn accounts_by_what_they_hold_and_may_hold() {
    let mut inventory = mariadb();
    if let Some(server) = &mut inventory.server {
        server.sessions.push(Session { bytes: Some(MIB), ..Session::default() });
        let daemon =
            AccountMark { account: "event_scheduler@localhost".into(), connections: 1, session_bytes_max: None };
        server.marks = Some(Marks { accounts: vec![daemon], statements: Vec::new() });
        server.account_limits = Some([("app@h".to_owned(), Some(3))].into());
    }
    let worst = worst_case(&inventory, &Assumed::default());
    let app = &worst.accounts[0];
    assert_eq!((app.account.as_str(), app.connections, app.now_bytes), ("app@h", 2, Some(2 * MIB)));
    assert_eq!(worst.accounts.len(), 1, "threads of the server's own are nobody's");
    assert_eq!((app.session_max_bytes, app.at_marks_bytes), (Some(21 * MIB), Some(42 * MIB)));
    assert_eq!(app.bound_bytes, worst.per_connection_bytes.map(|each| 3 * each));
    assert_eq!(worst.missing, []);
}

/// By hand: nine connections, and one for an administrator.
#[test]
fn an_account_has_its_own_limit_and_the_servers() {
    let bound = |limits: Option<&[(&str, Option<u64>)]>| {
        let mut inventory = mariadb();
        let limits = limits.map(|limits| limits.iter().map(|(name, limit)| ((*name).to_owned(), *limit)).collect());
        inventory.server.get_or_insert_default().account_limits = limits;
        let worst = worst_case(&inventory, &Assumed::default());
        let connections = worst.accounts[0].bound_bytes.map(|bytes| bytes / worst.per_connection_bytes.unwrap());
        (connections, worst.missing.iter().any(|it| it.what == Missing::ACCOUNT_LIMITS))
    };
    assert_eq!(bound(Some(&[("app@h", Some(3))])), (Some(3), false));
    assert_eq!(bound(Some(&[("app@h", Some(300))])), (Some(10), false));
    assert_eq!(bound(Some(&[("app@h", None)])), (Some(10), false));
    assert_eq!(bound(Some(&[])), (None, false), "no row is known to be its own");
    assert_eq!(bound(None), (None, true));
}

/// A server in a container tells the numbers that its processes have there.
#[test]
fn backends_are_known_by_the_numbers_that_the_server_tells() {
    let accounts = |inventory: &Inventory| worst_case(inventory, &Assumed::default()).accounts;
    let mut contained = postgresql();
    for process in &mut contained.processes {
        (process.inner_pid, process.pid) = (Some(process.pid), process.pid + 4000);
    }
    assert_eq!(accounts(&contained), accounts(&postgresql()));
    contained.processes.iter_mut().for_each(|process| process.inner_pid = None);
    assert_ne!(accounts(&contained), accounts(&postgresql()));
}

fn backend(pid: u32, anonymous: u64, mark: u64) -> ProcessSeen {
    let role = if pid == 1 { "postmaster" } else { "client backend" };
    ProcessSeen {
        pid,
        role: role.into(),
        status: sizes(&[
            ("RssAnon", anonymous),
            ("RssShmem", 20 * MIB),
            ("VmRSS", anonymous + 20 * MIB),
            ("VmHWM", mark + 20 * MIB),
            ("VmPTE", 100 * KIB),
        ]),
        rollup: Some(sizes(&[("Pss", anonymous + 5 * MIB), ("Pss_Shmem", 5 * MIB)])),
        ..ProcessSeen::default()
    }
}

fn postgresql() -> Inventory {
    let session = |pid, account: &str| Session {
        id: pid,
        pid: u32::try_from(pid).ok(),
        account: account.into(),
        ..Session::default()
    };
    Inventory {
        flavour: Some(Flavour::Postgresql),
        version: Some("15.18 (Debian)".into()),
        processes: vec![backend(1, 2 * MIB, 2 * MIB), backend(2, 3 * MIB, 3 * MIB), backend(3, 5 * MIB, 12 * MIB)],
        server: Some(ServerSeen {
            variables: texts(&[
                ("max_connections", "20"),
                ("max_worker_processes", "4"),
                ("work_mem", "4MB"),
                ("hash_mem_multiplier", "2"),
                ("maintenance_work_mem", "64MB"),
                ("autovacuum_max_workers", "3"),
                ("autovacuum_work_mem", "-1"),
                ("max_wal_senders", "10"),
                ("logical_decoding_work_mem", "64MB"),
                ("temp_buffers", "8MB"),
                ("max_stack_depth", "2MB"),
                ("join_collapse_limit", "8"),
            ]),
            sessions: vec![session(2, "app"), session(3, "app"), session(9, "gone")],
            account_limits: Some([("app".to_owned(), None)].into()),
            shared_allocations: vec![SharedAllocation {
                name: Some("Buffer Blocks".into()),
                offset: Some(0),
                size: 64 * MIB,
                allocated_size: 64 * MIB,
                touched: None,
            }],
            ..ServerSeen::default()
        }),
        ..Inventory::default()
    }
}

/// By hand: backend 3 once had 7 MiB more. Two more backends than now: each (3 + 5 + 7) / 2 MiB and 100 KiB of page tables.
#[test]
fn the_realistic_peak_of_a_postgresql() {
    let now = worst_case(&postgresql(), &Assumed::default());
    assert_eq!((now.concurrency.connections_now, now.concurrency.connections_peak), (2, 2));
    assert_eq!(now.realistic_bytes, now.now_bytes + 7 * MIB);
    let four = worst_case(&postgresql(), &Assumed { connections: Some(4), ..Assumed::default() });
    assert_eq!(four.realistic_bytes, now.now_bytes + 7 * MIB + 2 * (15 * MIB / 2 + 100 * KIB));
}

/// By hand: 20 backends and 4 workers, each 16 sorts and hashes of 2 x 4 MiB.
#[test]
fn the_bound_of_a_postgresql() {
    let worst = worst_case(&postgresql(), &Assumed::default());
    let of = |name: &str| {
        let line = line(&worst.bound, name);
        (line.count, line.size_bytes)
    };
    assert_eq!(of("shared memory"), (1, 64 * MIB));
    assert_eq!(of("sessions: sorts and hashes"), (24 * 16, 8 * MIB));
    assert_eq!(of("sessions: temporary tables"), (24, 8 * MIB));
    assert_eq!(of("sessions: all else"), (24, 12 * MIB));
    assert_eq!(of("processes of autovacuum and replication"), (13, 12 * MIB));
    assert_eq!(of("autovacuum"), (3, 64 * MIB));
    assert_eq!(of("logical replication"), (10, 64 * MIB));
    assert_eq!(worst.per_connection_bytes, Some((2 + 8 + 128 + 12) * MIB));
    assert!(!line(&worst.bound, "sessions: index or VACUUM").counts);
    // each of 40 processes: 8 bytes for each page of 64 MiB, and the 100 KiB that the largest has
    assert!(line(&worst.bound, "page tables").size_bytes > 40 * (128 + 100) * KIB);
    let app = &worst.accounts[0];
    assert_eq!((app.account.as_str(), app.connections, app.now_bytes), ("app", 2, Some(8 * MIB)));
    assert_eq!((app.session_max_bytes, worst.accounts.len()), (Some(12 * MIB), 1));
}

/// PostgreSQL 18 runs only so many workers as it has slots for. By hand: 20 backends, 4 workers, 10 walsenders, and the 3 processes of now.
#[test]
fn autovacuum_has_no_more_workers_than_slots() {
    let with = |workers: &str, slots: Option<&str>| {
        let mut inventory = postgresql();
        let variables = &mut inventory.server.get_or_insert_default().variables;
        variables.insert("autovacuum_max_workers".into(), workers.into());
        variables.extend(slots.map(|slots| ("autovacuum_worker_slots".into(), slots.into())));
        let worst = worst_case(&inventory, &Assumed::default());
        let tables = line(&worst.bound, "page tables").source.split(' ').next().and_then(|it| it.parse::<u64>().ok());
        let count = |name| line(&worst.bound, name).count;
        (count("autovacuum"), count("processes of autovacuum and replication"), tables)
    };
    assert_eq!(with("200", None), (200, 210, Some(237)));
    assert_eq!(with("200", Some("16")), (16, 26, Some(53)));
    assert_eq!(with("3", Some("16")), (3, 13, Some(40)));
}

/// Each thread of MariaDB's parallel replication has a queue of its own; without such threads there is none.
#[test]
fn each_worker_of_mariadb_has_a_queue() {
    let queues = |threads: &str| {
        let mut inventory = mariadb();
        let settings = [("slave_parallel_threads", threads), ("slave_parallel_max_queued", "67108864")];
        inventory.server.get_or_insert_default().variables.extend(texts(&settings));
        let worst = worst_case(&inventory, &Assumed::default());
        let queue = worst.bound.iter().find(|line| line.name == "queue of replication's workers");
        queue.map(|line| (line.count, line.size_bytes))
    };
    assert_eq!([queues("8"), queues("0")], [Some((8, 64 * MIB)), None]);
}

/// `ALTER ROLE app SET work_mem = '512MB'`: sessions of that role have it, whoever asks.
#[test]
fn the_bound_has_the_largest_settings_of_roles_and_databases() {
    let mut inventory = postgresql();
    let raised = |name: &str, value: &str, by: &str| Raised { name: name.into(), value: value.into(), by: by.into() };
    inventory.server.get_or_insert_default().raised =
        vec![raised("work_mem", "512MB", "role app"), raised("join_collapse_limit", "10", "database shop")];
    let worst = worst_case(&inventory, &Assumed::default());
    let sorts = line(&worst.bound, "sessions: sorts and hashes");
    assert_eq!((sorts.count, sorts.size_bytes), (24 * 20, 1024 * MIB));
    assert!(sorts.source.ends_with("; work_mem = 512MB of role app"), "{sorts:?}");
    let index = line(&worst.bound, "sessions: index or VACUUM");
    assert!(!index.source.contains("role app"), "maintenance_work_mem is another setting: {index:?}");
    let operations = &worst.concurrency.operations_source;
    assert!(operations.ends_with("; join_collapse_limit = 10 of database shop"), "{operations}");
}

/// Status says 5 MiB at its time; the mappings, from which the total is, had 2 MiB left a moment later, when a statement had ended.
#[test]
fn the_mark_is_compared_with_the_same_reading_as_the_total() {
    let mut inventory = postgresql();
    let mapping = crate::Mapping {
        start: 1 << 20,
        end: 64 << 20,
        permissions: "rw-p".into(),
        rss: 22 * MIB,
        pss: 2 * MIB,
        anonymous: 2 * MIB,
        ..crate::Mapping::default()
    };
    inventory.processes[2].mappings = Some(vec![mapping]);
    inventory.processes[2].rollup = None;
    let worst = worst_case(&inventory, &Assumed::default());
    assert_eq!(worst.realistic_bytes, worst.now_bytes + 10 * MIB, "12 MiB once");
    assert_eq!(line(&worst.bound, "sessions: all else").size_bytes, 12 * MIB);
}

#[test]
fn without_the_servers_word_there_is_no_bound() {
    let mut inventory = mariadb();
    inventory.server = None;
    let worst = worst_case(&inventory, &Assumed::default());
    assert_eq!((worst.bound_bytes, worst.per_connection_bytes), (None, None));
    assert_eq!(worst.realistic_bytes, (101 + 30) * MIB);
    assert_eq!(worst.unbounded[0].name, "everything");
    let nothing = worst_case(&Inventory::default(), &Assumed::default());
    assert_eq!((nothing.now_bytes, nothing.realistic_bytes, nothing.bound_bytes), (0, 0, None));
}

/// A damaged or hostile file may say anything.
#[test]
fn no_figure_overflows() {
    for mut inventory in [mariadb(), postgresql()] {
        if let Some(server) = &mut inventory.server {
            server.variables.values_mut().for_each(|value| *value = u64::MAX.to_string());
            server.sessions.iter_mut().for_each(|session| session.bytes_max = Some(u64::MAX));
        }
        let assumed = Assumed { connections: Some(u64::MAX), operations: Some(u64::MAX) };
        assert!(worst_case(&inventory, &assumed).bound_bytes >= Some(1 << 47));
    }
}

proptest::proptest! {
    /// More of anything never makes the bound smaller, and it is never below what is there.
    #[test]
    fn the_bound_grows_with_the_settings(sort in 0..1_u64 << 40, connections in 1..100_000_u64) {
        let bound = |sort: u64, connections: u64| {
            let mut inventory = mariadb();
            if let Some(server) = &mut inventory.server {
                server.variables.insert("sort_buffer_size".into(), sort.to_string());
                server.variables.insert("max_connections".into(), connections.to_string());
            }
            let worst = worst_case(&inventory, &Assumed::default());
            (worst.bound_bytes.unwrap_or(0), worst.now_bytes)
        };
        let (one, now) = bound(sort, connections);
        proptest::prop_assert!(one >= now);
        proptest::prop_assert!(bound(sort + 4096, connections).0 >= one && bound(sort, connections + 1).0 >= one);
    }
}
