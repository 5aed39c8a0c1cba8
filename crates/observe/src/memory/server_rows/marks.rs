// SPDX-License-Identifier: Apache-2.0
//! The limits of the buffers of sessions in MySQL, MariaDB and Percona Server, and the high-water marks of performance_schema.

use super::{Asking, Row, number, text};
use capability::Flavour;
use ledger::{AccountMark, Marks, StatementMark};

/// A server has some of these, by its flavour and version. None holds a secret.
pub(super) const VARIABLES: [&str; 45] = [
    "aria_sort_buffer_size",
    "binlog_cache_size",
    "binlog_stmt_cache_size",
    "bulk_insert_buffer_size",
    "connection_memory_limit",
    "event_scheduler",
    "extra_max_connections",
    "extra_port",
    "innodb_additional_mem_pool_size",
    "innodb_ddl_buffer_size",
    "innodb_ft_result_cache_limit",
    "innodb_ft_total_cache_size",
    "innodb_sort_buffer_size",
    "internal_tmp_mem_storage_engine",
    "join_buffer_size",
    "join_buffer_space_limit",
    "log_bin",
    "max_allowed_packet",
    "max_digest_length",
    "max_heap_table_size",
    "max_prepared_stmt_count",
    "max_rowid_filter_size",
    "max_session_mem_used",
    "max_user_connections",
    "mrr_buffer_size",
    "myisam_sort_buffer_size",
    "optimizer_trace_max_mem_size",
    "query_prealloc_size",
    "range_optimizer_max_mem_size",
    "read_buffer_size",
    "read_rnd_buffer_size",
    "replica_parallel_workers",
    "replica_pending_jobs_size_max",
    "rowid_merge_buff_size",
    "set_operations_buffer_size",
    "slave_parallel_max_queued",
    "slave_parallel_threads",
    "slave_parallel_workers",
    "slave_pending_jobs_size_max",
    "sort_buffer_size",
    "table_open_cache",
    "temptable_max_mmap",
    "temptable_max_ram",
    "tmp_table_size",
    "transaction_prealloc_size",
];

/// Of statements, the ten that held the most memory are read.
pub(super) fn read(asking: &mut Asking<'_>, flavour: Flavour) -> Marks {
    // the columns of memory came with MySQL 8.0.31, and MariaDB has none
    const ACCOUNTS: [&str; 2] = [
        "SELECT user, host, current_connections, max_session_total_memory FROM performance_schema.accounts WHERE user IS NOT NULL",
        "SELECT user, host, current_connections, NULL FROM performance_schema.accounts WHERE user IS NOT NULL",
    ];
    const STATEMENTS: &str = "SELECT schema_name, digest, LEFT(digest_text, 300), count_star, max_total_memory \
                              FROM performance_schema.events_statements_summary_by_digest \
                              WHERE max_total_memory > 0 ORDER BY max_total_memory DESC LIMIT 10";
    const SELECT: Option<&str> = Some("GRANT SELECT ON performance_schema.* TO the account that asks");
    let is_mariadb = flavour == Flavour::Mariadb;
    let accounts = if is_mariadb { &ACCOUNTS[1..] } else { &ACCOUNTS[..] };
    let accounts = asking.rows_of_first("high-water marks of accounts", accounts, SELECT);
    let statements = if is_mariadb {
        Vec::new()
    } else {
        asking.rows_of("statements that held the most memory", STATEMENTS, SELECT)
    };
    Marks {
        accounts: accounts.iter().filter_map(account).collect(),
        statements: statements.iter().filter_map(statement).collect(),
    }
}

fn account(row: &Row) -> Option<AccountMark> {
    let (user, host) = (text(row, 0), text(row, 1));
    Some(AccountMark {
        account: if host.is_empty() { user } else { format!("{user}@{host}") },
        connections: number(row, 2)?,
        session_bytes_max: number(row, 3),
    })
}

fn statement(row: &Row) -> Option<StatementMark> {
    Some(StatementMark {
        schema: row.first()?.clone(),
        digest: text(row, 1),
        text: text(row, 2),
        count: number(row, 3)?,
        bytes_max: number(row, 4)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Options;
    use crate::memory::reading::Reading;

    fn row(values: &[&str]) -> Row {
        values.iter().map(|value| Some((*value).to_owned())).collect()
    }

    /// The answers of a server without the columns of memory, and of one with them.
    #[test]
    fn marks_of_servers_with_and_without_them() {
        let read = |flavour: Flavour, has_memory: bool| {
            let mut reading = Reading::begin(Options { limits: true, ..Options::default() });
            let mut answer = move |sql: &str| -> Result<Vec<Row>, String> {
                match sql {
                    _ if sql.contains("max_") && !has_memory => Err("Unknown column".into()),
                    _ if sql.contains("accounts") => {
                        Ok(vec![row(&["app", "h", "3", if has_memory { "77" } else { "" }])])
                    }
                    _ => Ok(vec![row(&["shop", "abc", "SELECT ?", "5", "99"])]),
                }
            };
            let mut asking = super::super::Asking { connection: &mut answer, reading: &mut reading, is_silent: false };
            let marks = super::read(&mut asking, flavour);
            (marks, reading.end().2.len())
        };
        let (marks, missing) = read(Flavour::Mysql, true);
        assert_eq!((marks.accounts[0].account.as_str(), marks.accounts[0].session_bytes_max), ("app@h", Some(77)));
        assert_eq!((marks.statements[0].bytes_max, missing), (99, 0));
        let (marks, missing) = read(Flavour::Mysql, false);
        assert_eq!((marks.accounts[0].session_bytes_max, marks.statements.len(), missing), (None, 0, 1));
        let (marks, missing) = read(Flavour::Mariadb, false);
        assert_eq!((marks.accounts[0].connections, missing), (3, 0));
    }
}
