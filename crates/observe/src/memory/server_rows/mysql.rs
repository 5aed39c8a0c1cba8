// SPDX-License-Identifier: Apache-2.0
//! MySQL, MariaDB, Percona Server.

use super::{Asking, Row, marks, number, pairs, text};
use crate::server::{CLIENT_THREADS, without_port};
use capability::Flavour;
use ledger::{KeyCacheSeen, Missing, ServerSeen, Session};

const PROCESS: Option<&str> = Some("GRANT PROCESS ON *.* TO the account that asks");
const SELECT: Option<&str> = Some("GRANT SELECT ON performance_schema.* TO the account that asks");
const SWITCH_ON: Option<&str> = Some(
    "performance_schema=ON and performance-schema-instrument='memory/%=COUNTED' in the server's option file, and a restart",
);
/// MySQL counts the buffer pool with it, as soon as the pool is made.
const POOL_EVENT: &str = "memory/innodb/buf_buf_pool";
/// Memory that one thread takes and another one frees can leave a balance a little below zero.
const LEAST_BELOW_ZERO: u64 = 64 << 10;
const COUNT_ALL: Option<&str> =
    Some("performance-schema-instrument='memory/%=COUNTED' in the server's option file, and a restart");

/// The variables that the ledger uses. Not all variables are requested: MariaDB puts the rows of SHOW into a temporary table, more than 6 KiB each,
/// and its malloc keeps 8 MiB for all. And some variables hold secrets.
const VARIABLES: [&str; 20] = [
    "aria_block_size",
    "aria_pagecache_buffer_size",
    "innodb_adaptive_hash_index_parts",
    "innodb_buffer_pool_chunk_size",
    "innodb_buffer_pool_instances",
    "innodb_buffer_pool_size",
    "innodb_buffer_pool_size_max",
    "innodb_log_buffer_size",
    "innodb_page_size",
    "innodb_version",
    "key_buffer_size",
    "key_cache_block_size",
    "large_pages",
    "max_connections",
    "performance_schema",
    "query_cache_size",
    "thread_cache_size",
    "thread_stack",
    "version",
    "version_malloc_library",
];
const STATUS: [&str; 19] = [
    "Aria_pagecache_blocks_unused",
    "Aria_pagecache_blocks_used",
    "Innodb_buffer_pool_bytes_data",
    "Innodb_buffer_pool_pages_data",
    "Innodb_buffer_pool_pages_free",
    "Innodb_buffer_pool_pages_total",
    "Innodb_mem_adaptive_hash",
    "Innodb_mem_dictionary",
    "Innodb_mem_total",
    "Innodb_page_size",
    "Key_blocks_unused",
    "Key_blocks_used",
    "Max_used_connections",
    "Memory_used",
    "Memory_used_initial",
    "Qcache_free_memory",
    "Threads_cached",
    "Threads_connected",
    "Uptime",
];

/// `SHOW GLOBAL STATUS` or `VARIABLES` for these names only.
fn named(what: &str, names: &[&str]) -> String {
    format!("SHOW GLOBAL {what} WHERE Variable_name IN ('{}')", names.join("', '"))
}

pub(super) fn read(asking: &mut Asking<'_>, flavour: Flavour, seen: &mut ServerSeen) {
    seen.variables = pairs(asking.rows_of(Missing::SETTINGS, &named("VARIABLES", &VARIABLES), None));
    seen.status = pairs(asking.rows_of("the server's counters", &named("STATUS", &STATUS), None));
    if asking.wants_limits() {
        let limits = named("VARIABLES", &marks::VARIABLES);
        seen.variables.extend(pairs(asking.rows_of("the limits of the server's buffers", &limits, None)));
    }
    seen.innodb_memory = innodb(asking);
    seen.sessions = sessions(asking, flavour);
    if flavour == Flavour::Mariadb {
        seen.key_caches = key_caches(asking);
    }
    if let Some(why) = unseen(seen) {
        asking.missing("other accounts' sessions", &why, PROCESS);
    }
    if seen.variables.get("performance_schema").is_some_and(|value| value == "OFF") {
        asking.missing("memory by the server's instruments", "performance_schema is off", SWITCH_ON);
        if flavour != Flavour::Mariadb {
            let why = "only performance_schema tells their sizes, and it is off";
            asking.missing("key caches with names of their own", why, SWITCH_ON);
        }
        return;
    }
    performance_schema(asking, flavour, seen);
    if asking.wants_limits() {
        seen.marks = Some(marks::read(asking, flavour));
    }
}

fn performance_schema(asking: &mut Asking<'_>, flavour: Flavour, seen: &mut ServerSeen) {
    seen.performance_schema_bytes = own_bytes(asking);
    const EVENTS: &str = "SELECT event_name, current_number_of_bytes_used \
                          FROM performance_schema.memory_summary_global_by_event_name WHERE current_number_of_bytes_used <> 0";
    let rows = asking.rows_of("memory by the server's instruments", EVENTS, SELECT);
    seen.memory_events = rows.iter().filter_map(|row| Some((row.first()?.clone()?, number(row, 1)?))).collect();
    seen.instruments = instruments(asking);
    let why = match seen.instruments {
        Some((enabled, all)) if enabled < all => Some("not all instruments count since the server's start".to_owned()),
        Some(_) => enabled_late(flavour, seen),
        None => None,
    };
    if let Some(why) = why {
        asking.missing("memory by some of the server's instruments", &why, COUNT_ALL);
    }
}

/// Why instruments that are all enabled have not counted from the server's start. An instrument that was enabled later does not know of memory that was
/// there before; when that is freed, its balance goes below zero.
fn enabled_late(flavour: Flavour, seen: &ServerSeen) -> Option<String> {
    let below: u64 = seen.memory_events.values().filter(|bytes| **bytes < 0).map(|bytes| bytes.unsigned_abs()).sum();
    if below >= LEAST_BELOW_ZERO {
        return Some(format!(
            "instruments were enabled after the server had started: their balances are {} below zero",
            units::Bytes(below)
        ));
    }
    let size: u64 = seen.variables.get("innodb_buffer_pool_size")?.parse().ok()?;
    let counted = seen.memory_events.get(POOL_EVENT).copied().unwrap_or(0);
    let counts_pool = flavour != Flavour::Mariadb;
    (counts_pool && counted < i64::try_from(size / 2).ok()?).then(|| {
        format!("instruments were enabled after the server had started: {POOL_EVENT} does not count the buffer pool")
    })
}

fn own_bytes(asking: &mut Asking<'_>) -> Option<u64> {
    let rows = asking.rows_of("memory of performance_schema", "SHOW ENGINE PERFORMANCE_SCHEMA STATUS", PROCESS);
    // the whole name is compared, because other names end with it
    let row = rows.iter().find(|row| text(row, 1) == "performance_schema.memory")?;
    number(row, 2)
}

/// The number of enabled instruments, and the number of all.
fn instruments(asking: &mut Asking<'_>) -> Option<(u64, u64)> {
    const COUNT: &str =
        "SELECT COUNT(*), SUM(enabled = 'YES') FROM performance_schema.setup_instruments WHERE name LIKE 'memory/%'";
    let rows = asking.rows_of("which instruments count", COUNT, SELECT);
    let row = rows.first()?;
    Some((number(row, 1)?, number(row, 0)?))
}

fn innodb(asking: &mut Asking<'_>) -> Option<String> {
    let rows = asking.rows_of("InnoDB's account of its memory", "SHOW ENGINE INNODB STATUS", PROCESS);
    section(&text(rows.first()?, 2))
}

/// The part `BUFFER POOL AND MEMORY`, up to the next heading: a line between two lines of dashes.
fn section(status: &str) -> Option<String> {
    let is_rule = |line: &&str| line.len() >= 3 && line.bytes().all(|byte| byte == b'-');
    let mut lines = status.lines().skip_while(|line| line.trim() != "BUFFER POOL AND MEMORY").skip(1);
    lines.next().filter(is_rule)?;
    let part: Vec<&str> = lines.take_while(|line| !is_rule(line)).collect();
    Some(part.iter().flat_map(|line| [*line, "\n"]).collect())
}

fn sessions(asking: &mut Asking<'_>, flavour: Flavour) -> Vec<Session> {
    const WITHOUT_MEMORY: &str = "SELECT id, user, host, command, NULL, NULL, 1 FROM information_schema.PROCESSLIST";
    // the last column: whether the host has the client's port
    const MARIADB: [&str; 2] = [
        "SELECT id, user, host, command, memory_used, max_memory_used, 1 FROM information_schema.PROCESSLIST",
        WITHOUT_MEMORY,
    ];
    // the columns of memory came with 8.0.31 and later; without performance_schema the table of threads is empty
    let of_threads = |memory: &str| {
        format!(
            "SELECT processlist_id, processlist_user, processlist_host, processlist_command, {memory}, 0 FROM {CLIENT_THREADS}"
        )
    };
    let (with_memory, without) = (of_threads("total_memory, max_total_memory"), of_threads("NULL, NULL"));
    let mysql = [with_memory.as_str(), without.as_str(), WITHOUT_MEMORY];
    let statements: &[&str] = if flavour == Flavour::Mariadb { &MARIADB } else { &mysql };
    asking.rows_of_first("sessions", statements, PROCESS).iter().filter_map(session).collect()
}

/// A cache of several segments has a row for each, and one for all of them, whose number is NULL.
fn key_caches(asking: &mut Asking<'_>) -> Vec<KeyCacheSeen> {
    const ALL: &str = "SELECT key_cache_name, full_size, block_size, used_blocks + unused_blocks, used_blocks FROM information_schema.KEY_CACHES \
                       WHERE segment_number IS NULL";
    let cache = |row: &Row| {
        Some(KeyCacheSeen {
            name: row.first()?.clone()?,
            size: number(row, 1)?,
            block: number(row, 2)?,
            blocks: number(row, 3)?,
            used: number(row, 4)?,
        })
    };
    asking.rows_of("key caches", ALL, None).iter().filter_map(cache).collect()
}

/// Without an error, a server shows only its own sessions to an account without PROCESS. A session that begins between two questions is no sign of that: then
/// other accounts have sessions in the list.
fn unseen(seen: &ServerSeen) -> Option<String> {
    let connected: usize = seen.status.get("Threads_connected")?.parse().ok()?;
    let shown = seen.sessions.len();
    let own = &seen.sessions.first()?.account;
    let is_one_account = seen.sessions.iter().all(|session| &session.account == own);
    (is_one_account && shown < connected).then(|| format!("{} of {connected} are in no list", connected - shown))
}

fn session(row: &Row) -> Option<Session> {
    let (user, host) = (text(row, 1), text(row, 2));
    let host = if text(row, 6) == "1" { without_port(&host) } else { &host };
    Some(Session {
        id: number(row, 0)?,
        pid: None,
        account: if host.is_empty() { user } else { format!("{user}@{host}") },
        command: text(row, 3),
        bytes: number(row, 4),
        bytes_max: number(row, 5),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_status_is_taken(text in "(?s).{0,300}", before in "[-A-Z \n]{0,40}") {
            section(&text);
            let status = format!("{before}\nBUFFER POOL AND MEMORY\n---\n{text}");
            prop_assert!(section(&status).is_none_or(|part| part.len() <= status.len() + 1));
        }
    }

    #[test]
    fn only_the_list_of_processes_has_ports() {
        let account = |has_port: &str| {
            let values = ["7", "app", "2001:db8::10:25", "Sleep", "1", "2", has_port];
            let row: Row = values.iter().map(|value| Some((*value).to_owned())).collect();
            session(&row).unwrap().account
        };
        assert_eq!([account("1"), account("0")], ["app@2001:db8::10", "app@2001:db8::10:25"]);
    }

    #[test]
    fn sessions_that_an_account_does_not_see_are_counted() {
        let seen = |connected: &str, accounts: &[&str]| ServerSeen {
            status: [("Threads_connected".to_owned(), connected.to_owned())].into(),
            sessions: accounts.iter().map(|it| Session { account: (*it).into(), ..Session::default() }).collect(),
            ..ServerSeen::default()
        };
        assert_eq!(unseen(&seen("50", &["app@h", "app@h"])).as_deref(), Some("48 of 50 are in no list"));
        let none =
            [seen("2", &["app@h", "app@h"]), seen("9", &["app@h", "root@h"]), seen("9", &[]), ServerSeen::default()];
        assert!(none.iter().all(|it| unseen(it).is_none()));
    }

    #[test]
    fn the_part_of_the_status_ends_with_the_next_heading() {
        let status = "INDIVIDUAL\n----\n----------------------\nBUFFER POOL AND MEMORY\n----------------------\nTotal memory allocated 1\n\
                      ---BUFFER POOL 0\nFree 2\n----------------------\nINDIVIDUAL BUFFER POOL INFO\n----------------------\n";
        assert_eq!(section(status).as_deref(), Some("Total memory allocated 1\n---BUFFER POOL 0\nFree 2\n"));
        assert_eq!((section(""), section("BUFFER POOL AND MEMORY\nno rule")), (None, None));
    }
}
