// SPDX-License-Identifier: Apache-2.0
//! The table that is held: one that was named, else one of a fill, else a table that is made for this.

use crate::Error;
use load::Protocol;
use load::admin::Connection;

/// The table that is made when there is no other; no load uses it, and no other table has this name.
pub(crate) const OWN: &str = "wringer_inject";
/// Tables that fills and loads make, in this order.
const OF_FILLS: [&str; 2] = ["sbtest1", "pgbench_accounts"];

/// The rows of the table that are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// This number of rows, from the lowest key on.
    First(u32),
    /// The row with this key.
    Key(i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// The name as people write it.
    pub(crate) name: String,
    /// The name quoted for a statement.
    pub(crate) quoted: String,
    /// The first column of its primary key, quoted. `None`: it has no primary key.
    pub(crate) key: Option<String>,
    pub(crate) is_own: bool,
}

impl Table {
    /// # Errors
    /// [`Error::Refused`]: there is no table of the name that was asked for. The server's errors.
    pub(crate) fn find(connection: &mut Connection, asked: Option<&str>) -> Result<Self, Error> {
        if let Some(name) = asked {
            return Self::named(connection, name)?.ok_or_else(|| {
                Error::refused(
                    format!("there is no table {name} in the sandbox"),
                    "`--table DATABASE.TABLE`, or SCHEMA.TABLE in PostgreSQL, names one of another database or schema",
                )
            });
        }
        for name in OF_FILLS {
            if let Some(found) = Self::named(connection, name)? {
                return Ok(found);
            }
        }
        let mut own = Self { is_own: true, ..Self::of(connection.protocol(), OWN)? };
        own.key = Some(quoted(connection.protocol(), "id"));
        Ok(own)
    }

    /// Makes the table, if it is the one that is made for this; any other table exists already.
    pub(crate) fn make(&self, connection: &mut Connection) -> Result<(), Error> {
        if self.is_own {
            self.drop(connection)?;
            let engine = if connection.protocol() == Protocol::Mysql { " ENGINE=InnoDB" } else { "" };
            connection
                .execute(&format!("CREATE TABLE {} (id INT PRIMARY KEY, k INT NOT NULL){engine}", self.quoted))?;
            connection.execute(&format!("INSERT INTO {} VALUES (1,0),(2,0),(3,0),(4,0),(5,0)", self.quoted))?;
        }
        Ok(())
    }

    pub(crate) fn drop(&self, connection: &mut Connection) -> Result<(), Error> {
        if self.is_own {
            connection.execute(&format!("DROP TABLE IF EXISTS {}", self.quoted))?;
        }
        Ok(())
    }

    fn of(protocol: Protocol, name: &str) -> Result<Self, Error> {
        let is_plain = |part: &str| !part.is_empty() && !part.contains(['`', '"', '\'', '\\', '\0']);
        let parts: Vec<&str> = name.split('.').collect();
        if parts.len() > 2 || !parts.iter().all(|part| is_plain(part)) {
            return Err(Error::refused(
                format!("'{name}' is no name of a table here"),
                "`--table sbtest1`, or `--table DATABASE.TABLE`",
            ));
        }
        let quoted = parts.iter().map(|part| quoted(protocol, part)).collect::<Vec<_>>().join(".");
        Ok(Self { name: name.to_owned(), quoted, key: None, is_own: false })
    }

    fn named(connection: &mut Connection, name: &str) -> Result<Option<Self>, Error> {
        let table = Self::of(connection.protocol(), name)?;
        let protocol = connection.protocol();
        let (schema, bare) = name.split_once('.').map_or((None, name), |(schema, bare)| (Some(schema), bare));
        let found = match protocol {
            Protocol::Mysql => {
                let schema = schema.map_or_else(|| "DATABASE()".to_owned(), |schema| format!("'{schema}'"));
                connection.query(&format!(
                    "SELECT k.column_name FROM information_schema.tables t LEFT JOIN information_schema.key_column_usage k \
                     ON k.table_schema = t.table_schema AND k.table_name = t.table_name AND k.constraint_name = 'PRIMARY' \
                     AND k.ordinal_position = 1 WHERE t.table_schema = {schema} AND t.table_name = '{bare}'"
                ))?
            }
            Protocol::Postgresql => connection.query(&format!(
                "SELECT a.attname FROM pg_class c LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary \
                 LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0] \
                 WHERE c.oid = to_regclass('{}') AND c.relkind IN ('r', 'p')",
                table.quoted
            ))?,
        };
        if found.is_empty() {
            return Ok(None);
        }
        let key = found.text(0, 0).map(|column| quoted(protocol, &column));
        Ok(Some(Self { key, ..table }))
    }
}

fn quoted(protocol: Protocol, name: &str) -> String {
    match protocol {
        Protocol::Mysql => format!("`{}`", name.replace('`', "``")),
        Protocol::Postgresql => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}
