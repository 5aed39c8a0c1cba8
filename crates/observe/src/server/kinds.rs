// SPDX-License-Identifier: Apache-2.0
//! Which of a server's numbers are counters, that only grow, and which say how something stands now. Pure.
//!
//! By the manuals of MySQL and MariaDB ("Server Status Variables"), by the TYPE of `information_schema.INNODB_METRICS`, and, where that is
//! wrong or says too little, by name: MariaDB 10.11 declares `lock_deadlocks` a `value`.

use crate::Kind;
use capability::Flavour;

/// `declared` is INNODB_METRICS' TYPE: `counter`, `status_counter`, `value`, `set_owner`, `set_member`; `None` elsewhere.
pub(super) fn kind(flavour: Flavour, name: &str, declared: Option<&str>) -> Kind {
    let now = match declared {
        Some(declared) => metric_is_gauge(name, declared),
        None if flavour == Flavour::Postgresql => postgresql_is_gauge(name),
        None => status_is_gauge(name),
    };
    match (name_is_bytes(name), now) {
        (true, true) => Kind::BytesNow,
        (true, false) => Kind::BytesTotal,
        (false, true) => Kind::CountNow,
        (false, false) => Kind::CountTotal,
    }
}

fn postgresql_is_gauge(name: &str) -> bool {
    matches!(name, "numbackends" | "datid" | "checksum_last_failure") || name.ends_with(".op_bytes")
}

/// A set has an owner (the sum of all calls), a member that counts the calls, and one that has the last call's number.
fn metric_is_gauge(name: &str, declared: &str) -> bool {
    const COUNTERS: [&str; 5] =
        ["lock_deadlocks", "lock_timeouts", "log_checkpoints", "purge_stop_count", "purge_resume_count"];
    match declared {
        "value" => !COUNTERS.contains(&name) && !is_log_position(name),
        "set_member" => name.ends_with("_per_call") || name.ends_with("_pages") && !name.ends_with("_total_pages"),
        _ => name == "ibuf_size",
    }
}

/// A place in the redo log, in bytes since the server was made: it only grows, and its rate is that of the log. The oldest change that is
/// not on disk yet is left out: it is 0 when there is none.
fn is_log_position(name: &str) -> bool {
    matches!(
        name,
        "log_lsn_current"
            | "log_lsn_last_checkpoint"
            | "log_lsn_last_flush"
            | "log_lsn_archived"
            | "log_lsn_buf_dirty_pages_added"
    )
}

/// The rows of SHOW GLOBAL STATUS that are no counters.
fn status_is_gauge(name: &str) -> bool {
    const PREFIXES: [&str; 16] = [
        "Open_",
        "Max_used_",
        "Memory_used",
        "Key_blocks_",
        "Aria_pagecache_blocks_",
        "Qcache_free_",
        "Threadpool_",
        "Innodb_buffer_pool_bytes_",
        "Innodb_buffer_pool_resize_status",
        "Innodb_checkpoint_",
        "Innodb_ibuf_s",
        "Innodb_mem_",
        "Innodb_onlineddl_",
        "Innodb_redo_log_",
        "Innodb_undo_tablespaces_",
        "Innodb_have_",
    ];
    const NAMES: [&str; 28] = [
        "Threads_cached",
        "Threads_connected",
        "Threads_running",
        "Max_memory_used",
        "Prepared_stmt_count",
        "Qcache_queries_in_cache",
        "Qcache_total_blocks",
        "Delayed_insert_threads",
        "Not_flushed_delayed_rows",
        "Slave_heartbeat_period",
        "Slave_open_temp_tables",
        "Slaves_connected",
        "Slaves_running",
        "Innodb_available_undo_logs",
        "Innodb_buffer_pool_load_incomplete",
        "Innodb_buffer_pool_pages_data",
        "Innodb_buffer_pool_pages_dirty",
        "Innodb_buffer_pool_pages_free",
        "Innodb_buffer_pool_pages_latched",
        "Innodb_buffer_pool_pages_misc",
        "Innodb_buffer_pool_pages_old",
        "Innodb_buffer_pool_pages_total",
        "Innodb_current_row_locks",
        "Innodb_encryption_rotation_estimated_iops",
        "Innodb_history_list_length",
        "Innodb_ibuf_free_list",
        "Innodb_num_open_files",
        "Innodb_page_size",
    ];
    let momentary = ["_current_waits", "_time_avg", "_time_max"].iter().any(|end| name.ends_with(end));
    let position = name.starts_with("Innodb_redo_log_") && name.ends_with("_lsn");
    let named = NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    !position && (momentary || named || name.contains("_pending_"))
}

fn name_is_bytes(name: &str) -> bool {
    name.contains("_bytes") || name.contains("Bytes_") || name.ends_with("_written") && name.starts_with("Innodb_data")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_counter(flavour: Flavour, name: &str, declared: Option<&str>) -> bool {
        matches!(kind(flavour, name, declared), Kind::CountTotal | Kind::BytesTotal | Kind::MicrosTotal)
    }

    /// Names and TYPEs as MariaDB 10.11.19 and MySQL 9.7.4 have them.
    #[test]
    fn the_metrics_of_innodb() {
        for (name, declared, counts) in [
            ("buffer_flush_batch_total_pages", "set_owner", true),
            ("buffer_flush_batches", "set_member", true),
            ("buffer_flush_batch_pages", "set_member", false),
            ("buffer_LRU_batch_scanned", "set_owner", true),
            ("buffer_LRU_batch_num_scan", "set_member", true),
            ("buffer_LRU_batch_scanned_per_call", "set_member", false),
            ("buffer_LRU_batch_flush_total_pages", "status_counter", true),
            ("os_log_bytes_written", "status_counter", true),
            ("ibuf_size", "status_counter", false),
            ("lock_deadlocks", "value", true),
            ("lock_deadlocks", "counter", true),
            ("log_checkpoints", "value", true),
            ("log_lsn_current", "value", true),
            ("log_lsn_checkpoint_age", "value", false),
            ("trx_rseg_history_len", "value", false),
            ("buffer_pool_pages_data", "value", false),
        ] {
            assert_eq!(is_counter(Flavour::Mariadb, name, Some(declared)), counts, "{name}, a {declared}");
        }
    }

    #[test]
    fn the_status_of_mysql_and_mariadb() {
        let counters = "Innodb_buffer_pool_pages_flushed Innodb_buffer_pool_pages_lru_flushed Innodb_buffer_pool_pages_LRU_flushed \
            Innodb_buffer_pool_pages_lru_freed Innodb_buffer_pool_pages_made_not_young Innodb_buffer_pool_pages_made_young \
            Innodb_buffer_pool_pages_split Innodb_num_pages_page_compressed Innodb_num_pages_decrypted \
            Innodb_num_page_compressed_trim_op Max_statement_time_exceeded Max_execution_time_set_failed Threads_created \
            Opened_tables Innodb_lsn_current Innodb_redo_log_current_lsn Innodb_data_written Innodb_row_lock_time Uptime \
            Innodb_ibuf_merges Qcache_hits Slave_retried_transactions Innodb_undo_truncations";
        let gauges = "Innodb_checkpoint_age Innodb_checkpoint_max_age Innodb_row_lock_time_avg Innodb_row_lock_time_max \
            Innodb_row_lock_current_waits Innodb_buffer_pool_pages_dirty Innodb_buffer_pool_bytes_dirty Innodb_data_pending_fsyncs \
            Innodb_os_log_pending_writes Innodb_num_open_files Innodb_history_list_length Innodb_ibuf_size Innodb_ibuf_segment_size \
            Innodb_ibuf_free_list Innodb_mem_dictionary Innodb_redo_log_logical_size Innodb_undo_tablespaces_total Threads_running \
            Threads_cached Max_used_connections Open_tables Prepared_stmt_count Qcache_free_memory Memory_used Key_blocks_used \
            Aria_pagecache_blocks_used Threadpool_threads Slave_open_temp_tables";
        for (names, counts) in [(counters, true), (gauges, false)] {
            for name in names.split_whitespace() {
                assert_eq!(is_counter(Flavour::Mysql, name, None), counts, "{name}");
            }
        }
    }

    #[test]
    fn the_statistics_of_postgresql() {
        let counts = |name| is_counter(Flavour::Postgresql, name, None);
        assert!(counts("blks_read") && counts("client backend.relation.normal.reads"));
        assert!(!counts("numbackends") && !counts("client backend.relation.normal.op_bytes"));
    }
}
