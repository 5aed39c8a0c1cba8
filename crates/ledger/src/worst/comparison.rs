// SPDX-License-Identifier: Apache-2.0
//! The result of the formula that users know from MySQLTuner. It is not part of any sum: it counts configured caches as used, each buffer once in each session,
//! and neither packets, nor what malloc keeps, nor the program.

use super::entries::{Concurrency, Line};
use super::settings::Settings;
use crate::Account;

const OF_SERVER: [&str; 6] = [
    "key_buffer_size",
    "innodb_buffer_pool_size",
    "innodb_additional_mem_pool_size",
    "innodb_log_buffer_size",
    "query_cache_size",
    "aria_pagecache_buffer_size",
];
const OF_THREAD: [&str; 6] = [
    "read_buffer_size",
    "read_rnd_buffer_size",
    "sort_buffer_size",
    "thread_stack",
    "join_buffer_size",
    "binlog_cache_size",
];

/// The lines for MySQL, MariaDB and Percona Server; none for PostgreSQL.
pub(crate) fn lines(account: &Account, settings: &Settings<'_>, concurrency: &Concurrency) -> Vec<Line> {
    let Some(configured) = settings.number("max_connections").filter(|_| !settings.is_postgresql()) else {
        return Vec::new();
    };
    let sum = |names: &[&str]| names.iter().filter_map(|name| settings.number(name)).fold(0, u64::saturating_add);
    let schema = account.leaves.iter().find(|leaf| leaf.path == "instrumentation/performance_schema");
    let server = sum(&OF_SERVER)
        .saturating_add(schema.map_or(0, |leaf| leaf.allocated_bytes.unwrap_or(0).max(leaf.resident_bytes)));
    let each = sum(&OF_THREAD).saturating_add(temporary(settings));
    let of = |name: &str, connections: u64, count: &str| {
        let bytes = server.saturating_add(each.saturating_mul(connections));
        let source =
            format!("the formula of MySQLTuner 2.9: caches + {connections} ({count}) x buffers of one session");
        Line { counts: false, ..Line::new(name, 1, bytes, source) }
    };
    let used = settings.status("Max_used_connections").unwrap_or(concurrency.connections_now);
    vec![
        of("MySQLTuner: maximum reached memory", used, "Max_used_connections"),
        of("MySQLTuner: maximum possible memory", configured, "max_connections"),
    ]
}

fn temporary(settings: &Settings<'_>) -> u64 {
    let of = |name: &str| settings.number(name).unwrap_or(u64::MAX);
    let least = of("tmp_table_size").min(of("max_heap_table_size"));
    if least == u64::MAX { 0 } else { least }
}
