// SPDX-License-Identifier: Apache-2.0
//! The server's rows about its memory, as tables with tabs. When the server lacks or refuses a table, a line says so.

use super::super::server_rows::Row;
use crate::server::Query;
use capability::Flavour;

/// A file's name, its columns, and the statement.
struct Table {
    name: &'static str,
    columns: &'static str,
    sql: &'static str,
}

const fn table(name: &'static str, columns: &'static str, sql: &'static str) -> Table {
    Table { name, columns, sql }
}

/// The five summaries that article 3 uses, the views of sys on them, and counters that tools show to people.
const MYSQL: &[Table] = &[
    table(
        "memory_summary_global_by_event_name",
        "event_name count_alloc count_free current_bytes high_bytes",
        "SELECT event_name, count_alloc, count_free, current_number_of_bytes_used, high_number_of_bytes_used \
         FROM performance_schema.memory_summary_global_by_event_name WHERE count_alloc > 0",
    ),
    table(
        "memory_summary_by_thread_by_event_name",
        "thread_id event_name current_bytes high_bytes",
        "SELECT thread_id, event_name, current_number_of_bytes_used, high_number_of_bytes_used \
         FROM performance_schema.memory_summary_by_thread_by_event_name WHERE high_number_of_bytes_used > 0",
    ),
    table(
        "memory_summary_by_account_by_event_name",
        "user host event_name current_bytes high_bytes",
        "SELECT user, host, event_name, current_number_of_bytes_used, high_number_of_bytes_used \
         FROM performance_schema.memory_summary_by_account_by_event_name WHERE high_number_of_bytes_used > 0",
    ),
    table(
        "memory_summary_by_user_by_event_name",
        "user event_name current_bytes high_bytes",
        "SELECT user, event_name, current_number_of_bytes_used, high_number_of_bytes_used \
         FROM performance_schema.memory_summary_by_user_by_event_name WHERE high_number_of_bytes_used > 0",
    ),
    table(
        "memory_summary_by_host_by_event_name",
        "host event_name current_bytes high_bytes",
        "SELECT host, event_name, current_number_of_bytes_used, high_number_of_bytes_used \
         FROM performance_schema.memory_summary_by_host_by_event_name WHERE high_number_of_bytes_used > 0",
    ),
    table("sys_memory_global_total", "total_allocated", "SELECT total_allocated FROM sys.memory_global_total"),
    table(
        "sys_memory_global_by_current_bytes",
        "event_name current_count current_alloc high_count high_alloc",
        "SELECT event_name, current_count, current_alloc, high_count, high_alloc FROM sys.memory_global_by_current_bytes",
    ),
    table(
        "sys_memory_by_thread_by_current_bytes",
        "thread_id user current_allocated total_allocated",
        "SELECT thread_id, user, current_allocated, total_allocated FROM sys.memory_by_thread_by_current_bytes",
    ),
    table(
        "sys_memory_by_user_by_current_bytes",
        "user current_allocated total_allocated",
        "SELECT user, current_allocated, total_allocated FROM sys.memory_by_user_by_current_bytes",
    ),
    table(
        "sys_memory_by_host_by_current_bytes",
        "host current_allocated total_allocated",
        "SELECT host, current_allocated, total_allocated FROM sys.memory_by_host_by_current_bytes",
    ),
    table("engine_performance_schema_status", "type name status", "SHOW ENGINE PERFORMANCE_SCHEMA STATUS"),
    table(
        "status_of_caches",
        "name value",
        "SHOW GLOBAL STATUS WHERE Variable_name IN ('Binlog_cache_disk_use', 'Binlog_cache_use', 'Created_tmp_disk_tables', \
         'Created_tmp_tables', 'Innodb_buffer_pool_pages_dirty', 'Innodb_buffer_pool_pages_misc', 'Innodb_buffer_pool_reads', \
         'Innodb_buffer_pool_wait_free', 'Key_read_requests', 'Key_reads', 'Max_memory_used', 'Memory_used', 'Memory_used_initial', \
         'Open_table_definitions', 'Open_tables', 'Opened_tables', 'Prepared_stmt_count', 'Qcache_free_blocks', 'Qcache_hits', \
         'Select_full_join', 'Sort_merge_passes', 'TempTable_count_hit_max_ram', 'Threads_created', 'Threads_running')",
    ),
];

const POSTGRESQL: &[Table] = &[
    table(
        "pg_shmem_allocations",
        "name off size allocated_size",
        "SELECT name, off, size, allocated_size FROM pg_shmem_allocations ORDER BY off NULLS LAST",
    ),
    table(
        "pg_backend_memory_contexts_of_this_session",
        "name contexts total_bytes used_bytes",
        "SELECT name, count(*), sum(total_bytes), sum(used_bytes) FROM pg_backend_memory_contexts GROUP BY name ORDER BY 3 DESC",
    ),
    // the statement is left out
    table(
        "pg_stat_activity",
        "pid usename datname state backend_type backend_start",
        "SELECT pid, usename, datname, state, backend_type, backend_start FROM pg_stat_activity ORDER BY pid",
    ),
    table(
        "pg_stat_database",
        "datname numbackends temp_files temp_bytes blks_hit blks_read",
        "SELECT datname, numbackends, temp_files, temp_bytes, blks_hit, blks_read FROM pg_stat_database ORDER BY datname",
    ),
];

pub(super) fn of(connection: &mut dyn Query, flavour: Flavour) -> Vec<(String, String)> {
    let tables = if flavour == Flavour::Postgresql { POSTGRESQL } else { MYSQL };
    let mut is_silent = false;
    connection.renew();
    tables
        .iter()
        .map(|table| {
            let text = if is_silent {
                "# the server does not answer\n".to_owned()
            } else {
                asked(connection, table, &mut is_silent)
            };
            (format!("sql/{}.tsv", table.name), text)
        })
        .collect()
}

fn asked(connection: &mut dyn Query, table: &Table, is_silent: &mut bool) -> String {
    match connection.rows(table.sql) {
        Ok(rows) => text(table.columns, &rows),
        Err(error) => {
            // after one wait for a server that does not answer, nothing more is asked
            *is_silent = error.is::<std::io::Error>()
                || error.downcast_ref::<load::Error>().is_some_and(|it| !matches!(it, load::Error::Server { .. }));
            format!("# {error}\n").replace(['\t', '\r'], " ")
        }
    }
}

fn text(columns: &str, rows: &[Row]) -> String {
    let mut text = columns.replace(' ', "\t") + "\n";
    for row in rows {
        let cell = |value: &Option<String>| {
            let escaped = |value: &String| value.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n");
            value.as_ref().map_or_else(|| "\\N".to_owned(), escaped)
        };
        text.push_str(&row.iter().map(cell).collect::<Vec<_>>().join("\t"));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_lines_and_refusals_are_said() {
        let mut answer = |sql: &str| -> Result<Vec<Row>, String> {
            match sql {
                _ if sql.contains("pg_shmem") => Ok(vec![vec![None, Some("a\tb".into())]]),
                _ => Err("permission denied".into()),
            }
        };
        let found = of(&mut answer, Flavour::Postgresql);
        assert_eq!(found[0].1, "name\toff\tsize\tallocated_size\n\\N\ta\\tb\n");
        assert_eq!(found[1].1, "# permission denied\n");
        assert_eq!(found.len(), POSTGRESQL.len());
    }
}
