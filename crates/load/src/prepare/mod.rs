// SPDX-License-Identifier: Apache-2.0
//! The tables of a workload that does not run on what [`crate::fill`] makes.

pub mod pgbench;

use crate::Error;
use crate::admin::Connection;
use crate::target::{Protocol, Target};
use workload::{Name, Tables, setup};

/// Makes the tables that `name` needs for itself, empty; nothing for a workload that runs on filled ones. Those of an earlier
/// run of the same workload are made anew.
///
/// # Errors
/// [`Error::OtherTable`] when a table of that name has other columns: it may hold somebody's rows, and nothing was changed.
pub fn prepare(target: &Target, name: Name, tables: &Tables) -> Result<(), Error> {
    let statements = setup(name, tables);
    if statements.is_empty() {
        return Ok(());
    }
    let mut connection = Connection::open(target)?;
    for table in workload::setup_tables(name, tables) {
        let columns = columns_of(&mut connection, &table)?;
        if !columns.is_empty() && columns != ["id", "k"] {
            return Err(Error::OtherTable { table, workload: name.as_str(), columns: columns.join(", ") });
        }
    }
    statements.iter().try_for_each(|sql| connection.execute(sql).map(drop))
}

/// In order; empty when there is no such table.
fn columns_of(connection: &mut Connection, table: &str) -> Result<Vec<String>, Error> {
    let schema = match connection.protocol() {
        Protocol::Mysql => "DATABASE()",
        Protocol::Postgresql => "current_schema()",
    };
    let rows = connection.query(&format!(
        "SELECT column_name FROM information_schema.columns WHERE table_name = '{table}' AND table_schema = {schema} \
         ORDER BY ordinal_position"
    ))?;
    Ok((0..rows.len()).filter_map(|row| rows.text(row, 0)).collect())
}
