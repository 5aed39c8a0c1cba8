// SPDX-License-Identifier: Apache-2.0
//! Names that MariaDB and MySQL share, and names that one has taken over from the other: the gauges among their numbers, by the manuals of both
//! ("Server Status Variables"), by the TYPE of `information_schema.INNODB_METRICS`, and, where the TYPE is wrong or says too little, by name: MariaDB
//! 10.11 declares `lock_deadlocks` a `value`.

/// The rows of SHOW GLOBAL STATUS that are no counters.
pub(super) const STATUS: &[&str] = &[
    "*_current_waits",
    "*_time_avg",
    "*_time_max",
    "*_pending_*",
    "Delayed_insert_threads",
    "Innodb_available_undo_logs",
    "Innodb_buffer_pool_bytes_*",
    "Innodb_buffer_pool_load_incomplete",
    "Innodb_buffer_pool_pages_data",
    "Innodb_buffer_pool_pages_dirty",
    "Innodb_buffer_pool_pages_free",
    "Innodb_buffer_pool_pages_latched",
    "Innodb_buffer_pool_pages_misc",
    "Innodb_buffer_pool_pages_old",
    "Innodb_buffer_pool_pages_total",
    "Innodb_buffer_pool_resize_status*",
    "Innodb_checkpoint_*",
    "Innodb_current_row_locks",
    "Innodb_have_*",
    "Innodb_history_list_length",
    "Innodb_ibuf_free_list",
    "Innodb_ibuf_s*",
    "Innodb_mem_*",
    "Innodb_num_open_files",
    "Innodb_page_size",
    "Key_blocks_*",
    "Max_used_*",
    "Not_flushed_delayed_rows",
    "Open_*",
    "Prepared_stmt_count",
    "Qcache_free_*",
    "Qcache_queries_in_cache",
    "Qcache_total_blocks",
    "Slave_heartbeat_period",
    "Slave_open_temp_tables",
    "Threadpool_*",
    "Threads_cached",
    "Threads_connected",
    "Threads_running",
];

/// Each name stands after its TYPE. A `value` is a gauge, except some that count, and except positions in the redo log, in bytes since the server was
/// made: positions only grow, and their rate is the rate of the log. The position of the oldest change that is not on disk yet is a gauge: it is 0
/// when there is no such change. A set has an owner (the sum of all calls), a member that counts the calls, and a member with the number of the last
/// call.
pub(super) const METRICS: &[&str] = &[
    "!value lock_deadlocks",
    "!value lock_timeouts",
    "!value log_checkpoints",
    "!value purge_stop_count",
    "!value purge_resume_count",
    "!value log_lsn_current",
    "!value log_lsn_last_checkpoint",
    "!value log_lsn_last_flush",
    "!value log_lsn_archived",
    "!value log_lsn_buf_dirty_pages_added",
    "value *",
    "set_member *_per_call",
    "!set_member *_total_pages",
    "set_member *_pages",
    "* ibuf_size",
];
