// SPDX-License-Identifier: Apache-2.0
//! What is there, and what the server's own check says of it.

use load::Target;
use load::admin::Connection;
use std::collections::BTreeSet;

#[derive(Debug)]
pub(crate) struct Present {
    pub(crate) ids: BTreeSet<u64>,
    /// Each update of `wide` counted one up.
    #[allow(dead_code)] // one of the two tests asks for commits alone
    pub(crate) updates: u64,
}

pub(super) fn look(target: &Target) -> Result<Present, String> {
    let mut connection = Connection::open(target).map_err(|error| error.to_string())?;
    match target.protocol {
        load::Protocol::Mysql => check_tables(&mut connection)?,
        load::Protocol::Postgresql => amcheck(&mut connection)?,
    }
    let rows = connection.query("SELECT id FROM durable").map_err(|error| error.to_string())?;
    let ids = (0..rows.len()).filter_map(|row| rows.parse(row, 0)).collect();
    let sum = connection.query("SELECT SUM(n) FROM wide").map_err(|error| error.to_string())?;
    Ok(Present { ids, updates: sum.parse(0, 0).ok_or("no sum of updates")? })
}

fn check_tables(connection: &mut Connection) -> Result<(), String> {
    let rows = connection.query("CHECK TABLE durable, wide EXTENDED").map_err(|error| error.to_string())?;
    let said: Vec<String> = (0..rows.len()).filter_map(|row| rows.text(row, 3)).collect();
    if said == ["OK", "OK"] { Ok(()) } else { Err(format!("CHECK TABLE: {said:?}")) }
}

/// Every index that is a B-tree, the catalogue's too, with the rows that it should hold; and the rows of our tables.
fn amcheck(connection: &mut Connection) -> Result<(), String> {
    let mut ask = |sql: &str| connection.query(sql).map_err(|error| format!("{sql}: {error}"));
    ask("CREATE EXTENSION IF NOT EXISTS amcheck")?;
    let checked =
        ask("SELECT count(*) FROM (SELECT bt_index_check(index => c.oid, heapallindexed => true) FROM pg_class c \
         JOIN pg_am am ON am.oid = c.relam JOIN pg_index i ON i.indexrelid = c.oid \
         WHERE am.amname = 'btree' AND c.relkind = 'i' AND c.relpersistence <> 't' AND i.indisvalid) AS checked")?;
    if checked.parse::<u64>(0, 0).is_none_or(|count| count < 100) {
        return Err("amcheck has looked at fewer indexes than the catalogue has".into());
    }
    for table in ["durable", "wide"] {
        let found = ask(&format!("SELECT msg FROM verify_heapam('{table}')"))?;
        if !found.is_empty() {
            return Err(format!("verify_heapam: {table}: {:?}", found.text(0, 0)));
        }
    }
    Ok(())
}
