// SPDX-License-Identifier: Apache-2.0
//! Asks the server for the facts that a fill depends on.

use super::{Error, ServerFacts};
use crate::admin::{Connection, Rows};
use crate::{Protocol, Target};
use std::str::FromStr;

impl ServerFacts {
    /// Reads the facts over one connection to the tables' database.
    ///
    /// # Errors
    /// No connection, or a server that does not know these variables.
    pub fn read(target: &Target) -> Result<Self, Error> {
        let mut connection = Connection::open(target).map_err(Error::server("connect to read the server's facts"))?;
        match target.protocol {
            Protocol::Mysql => mysql(&mut connection),
            Protocol::Postgresql => postgresql(&mut connection),
        }
    }
}

const MYSQL: &str = "SELECT @@version, @@innodb_page_size, @@innodb_buffer_pool_size, @@max_allowed_packet, @@local_infile, \
    (SELECT maxlen FROM information_schema.character_sets WHERE character_set_name = @@character_set_database)";
const MYSQL_TABLES: &str =
    "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE 'sbtest%'";

const POSTGRESQL: &str = "SELECT current_setting('server_version'), current_setting('block_size')::bigint, \
    (SELECT setting::bigint * current_setting('block_size')::bigint FROM pg_settings WHERE name = 'shared_buffers')";
const POSTGRESQL_TABLES: &str =
    "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename LIKE 'sbtest%'";

fn mysql(connection: &mut Connection) -> Result<ServerFacts, Error> {
    let rows = ask(connection, MYSQL)?;
    Ok(ServerFacts {
        protocol: Protocol::Mysql,
        version: value(&rows, 0, "the version", MYSQL)?,
        page_bytes: value(&rows, 1, "innodb_page_size", MYSQL)?,
        pool_bytes: value(&rows, 2, "innodb_buffer_pool_size", MYSQL)?,
        packet_bytes_max: value(&rows, 3, "max_allowed_packet", MYSQL)?,
        bulk_load: value::<u8>(&rows, 4, "local_infile", MYSQL)? == 1,
        character_bytes_max: value(&rows, 5, "the width of the character set", MYSQL)?,
        existing: names(connection, MYSQL_TABLES)?,
    })
}

fn postgresql(connection: &mut Connection) -> Result<ServerFacts, Error> {
    let rows = ask(connection, POSTGRESQL)?;
    Ok(ServerFacts {
        protocol: Protocol::Postgresql,
        version: value(&rows, 0, "the version", POSTGRESQL)?,
        page_bytes: value(&rows, 1, "block_size", POSTGRESQL)?,
        pool_bytes: value(&rows, 2, "shared_buffers", POSTGRESQL)?,
        // A message is bounded by PG_INT32 minus the header; no message here is nearly as long.
        packet_bytes_max: 1 << 30,
        bulk_load: true,
        // Text is stored with a length, whatever its characters.
        character_bytes_max: 4,
        existing: names(connection, POSTGRESQL_TABLES)?,
    })
}

fn names(connection: &mut Connection, sql: &str) -> Result<Vec<String>, Error> {
    let rows = ask(connection, sql)?;
    Ok((0..rows.len()).filter_map(|row| rows.text(row, 0)).collect())
}

pub(super) fn ask(connection: &mut Connection, sql: &str) -> Result<Rows, Error> {
    connection.query(sql).map_err(Error::server(format!("ask the server: {sql}")))
}

/// The value in `column` of the first row.
pub(super) fn value<T: FromStr>(rows: &Rows, column: usize, what: &'static str, sql: &str) -> Result<T, Error> {
    rows.parse(0, column).ok_or_else(|| Error::Answer { what, sql: sql.to_owned() })
}
