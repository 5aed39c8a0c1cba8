// SPDX-License-Identifier: Apache-2.0
//! The names of variables and counters that a server is asked for. Nothing else of a reading is used or saved.

/// Names in `SHOW GLOBAL VARIABLES`.
pub const VARIABLES: &[&str] = &[
    "version",
    "version_comment",
    "aurora_version",
    "innodb_buffer_pool_instances",
    "innodb_buffer_pool_size",
    "innodb_doublewrite",
    "innodb_empty_free_list_algorithm",
    "innodb_io_capacity",
    "innodb_io_capacity_max",
    "innodb_lru_scan_depth",
    "innodb_lru_threads",
    "innodb_page_size",
    "innodb_version",
];

/// Names in `SHOW GLOBAL STATUS`.
pub const STATUS: &[&str] = &[
    "Com_delete",
    "Com_insert",
    "Com_replace",
    "Com_update",
    "Innodb_buffer_pool_pages_LRU_flushed",
    "Innodb_buffer_pool_pages_LRU_freed",
    "Innodb_buffer_pool_pages_free",
    "Innodb_buffer_pool_pages_total",
    "Innodb_buffer_pool_read_ahead",
    "Innodb_buffer_pool_reads",
    "Innodb_buffer_pool_wait_free",
    "Innodb_pages_created",
    "Innodb_rows_deleted",
    "Innodb_rows_inserted",
    "Innodb_rows_updated",
    "Questions",
    "Threads_running",
    "Uptime",
];

/// Names of `information_schema.INNODB_METRICS`; only metrics that are turned on have a value.
pub const METRICS: &[&str] = &[
    "buffer_LRU_batch_evict_total_pages",
    "buffer_LRU_batch_flush_total_pages",
    "buffer_LRU_get_free_loops",
    "buffer_LRU_get_free_search",
    "buffer_LRU_get_free_waits",
    "buffer_LRU_search_scanned",
    "buffer_LRU_single_flush_failure_count",
    "buffer_LRU_single_flush_scanned",
    "compress_pages_decompressed",
];
