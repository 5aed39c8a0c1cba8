// SPDX-License-Identifier: Apache-2.0

/// The gauges among the numbers of a source. A gauge tells a present state; all other numbers are counters, which only grow. A column of the table.
///
/// Lists of patterns, in which `*` stands for any text. The first pattern that fits a name decides; if that pattern begins with `!`, the name is a
/// counter's. Where the server itself declares a type (`INNODB_METRICS`), the name stands after the type: `value buffer_pool_pages_data`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gauges(pub(crate) &'static [&'static [&'static str]]);

impl Gauges {
    pub fn has(self, name: &str) -> bool {
        let says = |pattern: &str| match pattern.strip_prefix('!') {
            Some(counter) => fits(counter, name).then_some(false),
            None => fits(pattern, name).then_some(true),
        };
        self.patterns().find_map(says).unwrap_or(false)
    }

    /// All patterns, in their order.
    pub fn patterns(self) -> impl Iterator<Item = &'static str> {
        self.0.iter().flat_map(|list| list.iter().copied())
    }
}

fn fits(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(start) else { return false };
    match rest.rsplit_once('*') {
        // with two stars, the text between them must be somewhere in the name
        Some((middle, end)) => name.strip_suffix(end).is_some_and(|name| name.contains(middle)),
        None => name.ends_with(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capability, Flavour, Version, gauges};

    #[test]
    fn patterns() {
        let fitting =
            [("a", "a"), ("a*", "a"), ("a*", "ab"), ("*b", "ab"), ("a*c", "abc"), ("*_b_*", "a_b_c"), ("*", "")];
        for (pattern, name) in fitting {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("a", "ab"), ("a*", "ba"), ("*b", "ba"), ("ab*bc", "abc"), ("*_b_*", "a_b")] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
        let some = Gauges(&[&["!a*c", "a*"], &["z"]]);
        assert_eq!(["abc", "ab", "z", "y"].map(|name| some.has(name)), [false, true, true, false]);
    }

    fn is_counter(capability: Capability, flavour: Flavour, version: &str, name: &str) -> bool {
        let version: Version = version.parse().expect("a version");
        !gauges(capability, flavour, &version).has(name)
    }

    /// Names and TYPEs as MariaDB 10.11.19 and MySQL 9.7.4 have them.
    #[test]
    fn the_metrics_of_innodb() {
        for (name, counts) in [
            ("set_owner buffer_flush_batch_total_pages", true),
            ("set_member buffer_flush_batches", true),
            ("set_member buffer_flush_batch_pages", false),
            ("set_owner buffer_LRU_batch_scanned", true),
            ("set_member buffer_LRU_batch_num_scan", true),
            ("set_member buffer_LRU_batch_scanned_per_call", false),
            ("status_counter buffer_LRU_batch_flush_total_pages", true),
            ("status_counter os_log_bytes_written", true),
            ("status_counter ibuf_size", false),
            ("value lock_deadlocks", true),
            ("counter lock_deadlocks", true),
            ("value log_checkpoints", true),
            ("value log_lsn_current", true),
            ("value log_lsn_checkpoint_age", false),
            ("value trx_rseg_history_len", false),
            ("value buffer_pool_pages_data", false),
        ] {
            for (flavour, version) in
                [(Flavour::Mariadb, "10.11.19"), (Flavour::Mariadb, "10.1.23"), (Flavour::Mysql, "9.7.4")]
            {
                assert_eq!(is_counter(Capability::InnodbMetrics, flavour, version, name), counts, "{flavour}: {name}");
            }
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
        let gauges_of_both = "Innodb_checkpoint_age Innodb_checkpoint_max_age Innodb_row_lock_time_avg Innodb_row_lock_time_max \
            Innodb_row_lock_current_waits Innodb_buffer_pool_pages_dirty Innodb_buffer_pool_bytes_dirty Innodb_data_pending_fsyncs \
            Innodb_os_log_pending_writes Innodb_num_open_files Innodb_history_list_length Innodb_ibuf_size Innodb_ibuf_segment_size \
            Innodb_ibuf_free_list Innodb_mem_dictionary Threads_running Threads_cached Max_used_connections Open_tables \
            Prepared_stmt_count Qcache_free_memory Key_blocks_used Threadpool_threads Slave_open_temp_tables";
        let of_mariadb = "Memory_used Aria_pagecache_blocks_used Max_memory_used Slaves_running";
        let of_mysql = "Innodb_redo_log_logical_size Innodb_undo_tablespaces_total";
        let servers = [(Flavour::Mariadb, "10.11.19"), (Flavour::Mysql, "8.4.3"), (Flavour::Percona, "8.0.36")];
        for (flavour, version) in servers {
            let own = if flavour == Flavour::Mariadb { of_mariadb } else { of_mysql };
            for (names, counts) in [(counters, true), (gauges_of_both, false), (own, false)] {
                for name in names.split_whitespace() {
                    assert_eq!(
                        is_counter(Capability::ServerStatus, flavour, version, name),
                        counts,
                        "{flavour}: {name}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_statistics_of_postgresql() {
        let counts = |capability, name| is_counter(capability, Flavour::Postgresql, "16.4", name);
        assert!(counts(Capability::DatabaseStatistics, "blks_read"));
        assert!(!counts(Capability::DatabaseStatistics, "numbackends"));
        assert!(counts(Capability::IoStatistics, "client backend.relation.normal.reads"));
        assert!(!counts(Capability::IoStatistics, "client backend.relation.normal.op_bytes"));
    }
}
