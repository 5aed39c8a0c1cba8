// SPDX-License-Identifier: Apache-2.0
//! Reads the tables back, and reads their layout on disk from the server's own statistics.

use super::facts::{ask, value};
use super::rows::Checksum;
use super::{Error, FillPlan};
use crate::Protocol;
use crate::admin::Connection;
use serde::{Deserialize, Serialize};
use workload::text::{C_GROUPS, GROUP_DIGITS};

/// One table as the server describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableGot {
    pub table: String,
    /// Counted, not estimated.
    pub rows: u64,
    /// Pages that hold rows: InnoDB's leaf pages of the primary key, PostgreSQL's heap.
    pub row_pages: u64,
    pub row_pages_source: String,
    /// Rows on one page from the middle of the table, counted by row address. PostgreSQL only.
    pub rows_on_a_page: Option<u64>,
    /// Pages in use by rows and indexes.
    pub used_bytes: u64,
    /// The files' size, pages that are reserved and still free included.
    pub file_bytes: u64,
}

/// Compares what the table holds with what was written. Reads every row.
pub(super) fn verify(
    plan: &FillPlan,
    table: u32,
    written: &Checksum,
    connection: &mut Connection,
) -> Result<(), Error> {
    let name = FillPlan::table_name(table);
    // The secondary index has id and k, too, but the rows must be read.
    let hint = if plan.facts.protocol == Protocol::Mysql { " FORCE INDEX (PRIMARY)" } else { "" };
    let sql = format!("SELECT COUNT(*), MIN(id), MAX(id), SUM(id), SUM(k), MIN(CHAR_LENGTH(c)) FROM {name}{hint}");
    let rows = ask(connection, &sql)?;
    let read = Checksum {
        rows: value(&rows, 0, "the number of rows", &sql)?,
        id_min: value(&rows, 1, "the least key", &sql)?,
        id_max: value(&rows, 2, "the greatest key", &sql)?,
        id_sum: value(&rows, 3, "the sum of the keys", &sql)?,
        k_sum: value(&rows, 4, "the sum of k", &sql)?,
    };
    let text_length: u64 = value(&rows, 5, "the length of c", &sql)?;
    let text_written = (C_GROUPS * (GROUP_DIGITS + 1) - 1) as u64;
    let shortest = (text_written != text_length).then(|| ("the shortest c", text_written.into(), text_length.into()));
    match written.difference(&read).or(shortest) {
        None => Ok(()),
        Some((what, written, read)) => {
            Err(Error::Differs { table: name, what, written: written.to_string(), read: read.to_string() })
        }
    }
}

/// Leaves nothing undone that a later load would pay for: statistics are fresh, and pages are written. Returns, as text for people, the steps that
/// the account was not allowed to do.
pub(super) fn settle(plan: &FillPlan, connection: &mut Connection) -> Result<Vec<String>, Error> {
    let tables: Vec<String> = (1..=plan.spec.tables).map(FillPlan::table_name).collect();
    let mut statements = Vec::new();
    match plan.facts.protocol {
        Protocol::Mysql => {
            statements.extend(tables.iter().map(|table| format!("ANALYZE NO_WRITE_TO_BINLOG TABLE {table}")));
            // Writes the tables' dirty pages and waits for them; exports nothing.
            statements.push(format!("FLUSH TABLES {} FOR EXPORT", tables.join(", ")));
            statements.push("UNLOCK TABLES".to_owned());
        }
        Protocol::Postgresql => {
            // Sets hint bits and the visibility map, which the first reads would write otherwise.
            statements.extend(tables.iter().map(|table| format!("VACUUM (FREEZE, ANALYZE) {table}")));
            statements.push("CHECKPOINT".to_owned());
        }
    }
    let mut refused = Vec::new();
    for sql in statements {
        match connection.query(&sql) {
            Ok(_) => {}
            Err(crate::Error::Server { message, .. }) => refused.push(format!("{sql}: {message}")),
            Err(source) => return Err(Error::Server { operation: format!("settle the tables: {sql}"), source }),
        }
    }
    Ok(refused)
}

/// The layout of table `table` on disk, after [`settle`].
pub(super) fn look(plan: &FillPlan, table: u32, connection: &mut Connection) -> Result<TableGot, Error> {
    match plan.facts.protocol {
        Protocol::Mysql => innodb(plan, table, connection),
        Protocol::Postgresql => postgresql(plan, table, connection),
    }
}

/// The view of file sizes has one name in MariaDB and MySQL up to 5.7, another since MySQL 8.0.
const TABLESPACE_VIEWS: [&str; 2] = ["INNODB_SYS_TABLESPACES", "INNODB_TABLESPACES"];

fn innodb(plan: &FillPlan, table: u32, connection: &mut Connection) -> Result<TableGot, Error> {
    let name = FillPlan::table_name(table);
    let sizes = innodb_sizes(&name, connection)?;
    let page = plan.facts.page_bytes;
    // For an index of two to some twenty pages MariaDB reports one leaf (seen in 10.11); a real single leaf would have a size of one page.
    let leaves = |of_index: &str| {
        format!(
            "SELECT SUM(IF(leaf.stat_value > 1, leaf.stat_value, whole.stat_value)) \
             FROM mysql.innodb_index_stats leaf JOIN mysql.innodb_index_stats whole \
             USING (database_name, table_name, index_name) \
             WHERE database_name = DATABASE() AND table_name = '{name}' AND index_name {of_index} \
             AND leaf.stat_name = 'n_leaf_pages' AND whole.stat_name = 'size'"
        )
    };
    let (row_pages, row_pages_source) = match optional(connection, &leaves("= 'PRIMARY'"))? {
        Some(pages) => (pages, "mysql.innodb_index_stats, n_leaf_pages"),
        // Includes reserved pages and the levels above the leaves.
        None => (sizes.data_bytes / page, "information_schema.tables, data_length"),
    };
    let index_bytes = match optional(connection, &leaves("<> 'PRIMARY'"))? {
        Some(pages) => pages * page,
        None => sizes.index_bytes,
    };
    Ok(TableGot {
        table: name,
        rows: plan.rows_per_table,
        row_pages,
        row_pages_source: row_pages_source.to_owned(),
        rows_on_a_page: None,
        used_bytes: row_pages * page + index_bytes,
        file_bytes: sizes.file_bytes,
    })
}

struct InnodbSizes {
    data_bytes: u64,
    index_bytes: u64,
    file_bytes: u64,
}

fn innodb_sizes(name: &str, connection: &mut Connection) -> Result<InnodbSizes, Error> {
    // MySQL 8 caches these figures for a day unless told otherwise; other servers do not know the variable.
    let _ = connection.execute("SET SESSION information_schema_stats_expiry = 0");
    let sql = format!(
        "SELECT data_length, index_length, data_free FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND table_name = '{name}'"
    );
    let rows = ask(connection, &sql)?;
    let data_bytes: u64 = value(&rows, 0, "data_length", &sql)?;
    let index_bytes: u64 = value(&rows, 1, "index_length", &sql)?;
    let data_free: u64 = value(&rows, 2, "data_free", &sql)?;
    let mut file_bytes = data_bytes + index_bytes + data_free;
    for view in TABLESPACE_VIEWS {
        let sql = format!("SELECT file_size FROM information_schema.{view} WHERE name = CONCAT(DATABASE(), '/{name}')");
        if let Some(bytes) = optional(connection, &sql)? {
            file_bytes = bytes;
            break;
        }
    }
    Ok(InnodbSizes { data_bytes, index_bytes, file_bytes })
}

/// The number that `sql` returns; `None` when there is none, or when the account may not see it.
fn optional(connection: &mut Connection, sql: &str) -> Result<Option<u64>, Error> {
    match connection.query(sql) {
        Ok(rows) => Ok(rows.parse(0, 0)),
        Err(crate::Error::Server { .. }) => Ok(None),
        Err(source) => Err(Error::Server { operation: format!("ask the server: {sql}"), source }),
    }
}

fn postgresql(plan: &FillPlan, table: u32, connection: &mut Connection) -> Result<TableGot, Error> {
    let name = FillPlan::table_name(table);
    let sql = format!(
        "SELECT pg_relation_size('{name}'), pg_indexes_size('{name}'), pg_total_relation_size('{name}'), \
         COALESCE(pg_relation_size(NULLIF(reltoastrelid, 0)), 0) FROM pg_class WHERE oid = '{name}'::regclass"
    );
    let rows = ask(connection, &sql)?;
    let heap: u64 = value(&rows, 0, "the table's size", &sql)?;
    let indexes: u64 = value(&rows, 1, "the indexes' size", &sql)?;
    let file_bytes: u64 = value(&rows, 2, "the files' size", &sql)?;
    let moved_out: u64 = value(&rows, 3, "the size of what was moved out of rows", &sql)?;
    if moved_out > 0 {
        let read = format!("{moved_out} bytes");
        return Err(Error::Differs {
            table: name,
            what: "what was moved out of its rows",
            written: "nothing".into(),
            read,
        });
    }
    let row_pages = heap / plan.facts.page_bytes;
    Ok(TableGot {
        rows: plan.rows_per_table,
        row_pages,
        row_pages_source: "pg_relation_size".to_owned(),
        rows_on_a_page: optional(connection, &on_page(&name, row_pages / 2))?,
        used_bytes: heap + indexes,
        file_bytes,
        table: name,
    })
}

/// Counts the rows of one page by address. No page holds more than 300 rows of 8 KiB / (24 + 4) bytes.
fn on_page(table: &str, page: u64) -> String {
    format!(
        "SELECT COUNT(*) FROM {table} WHERE ctid = ANY (ARRAY(SELECT format('(%s,%s)', {page}, line)::tid \
         FROM generate_series(1, 300) AS line))"
    )
}
