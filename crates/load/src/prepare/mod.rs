// SPDX-License-Identifier: Apache-2.0
//! The tables of workloads that do not use the tables of [`crate::fill`].

pub mod pgbench;

use crate::Error;
use crate::admin::Connection;
use crate::target::{Protocol, Target};
use workload::{Name, Tables, setup};

/// Makes the empty tables that `name` needs for itself; makes none for a workload that uses filled tables. Replaces the tables of
/// an earlier run of the same workload.
///
/// # Errors
/// [`Error::OtherTable`]: a table of that name has other columns. It may hold a user's rows, and nothing was changed.
pub fn prepare(target: &Target, name: Name, tables: &Tables) -> Result<(), Error> {
    let statements = setup(name, tables);
    if statements.is_empty() {
        return Ok(());
    }
    let mut connection = Connection::open(target)?;
    let own = workload::setup_tables(name, tables);
    for table in &own {
        let columns = columns_of(&mut connection, table)?;
        if !columns.is_empty() && columns != ["id", "k"] {
            return Err(Error::OtherTable {
                table: table.clone(),
                workload: name.as_str(),
                columns: columns.join(", "),
            });
        }
    }
    connection.drop_tables(&own)?;
    statements.iter().try_for_each(|sql| connection.execute(sql).map(drop))
}

/// The columns in order; empty when there is no such table.
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
