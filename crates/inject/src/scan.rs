// SPDX-License-Identifier: Apache-2.0
//! `free_list_backoff`: a connection of its own reads a table that is larger than the buffer pool, so that pages are taken from the free
//! list faster than the server refills it. How long a query then waits depends on the server; the length that can be asked for is the length of the
//! demand for pages. The witness is the server's own counter of tries that found no page.

use crate::injected::{Bite, Witness};
use crate::numbered::Numbered;
use crate::stop_request::{Stop, us};
use crate::table::Table;
use crate::{Error, Injection};
use capability::BACKOFF_PAGES_MIN;
use load::admin::Connection;
use load::{Protocol, Target};
use std::time::{Duration, Instant};

/// Rows that one statement reads: few enough that it ends soon.
const PIECE_ROWS: u64 = 2000;

pub(crate) struct Scan {
    reader: Connection,
    number: Option<u64>,
    table: String,
    key: String,
    lowest: i64,
    highest: i64,
}

/// Checks whether this server's queries wait for a free page by backoff, and whether the table is large enough.
///
/// # Errors
/// [`Error::Refused`], with what is missing.
pub(crate) fn check(connection: &mut Connection, table: &Table) -> Result<(), Error> {
    let not_there = || {
        Error::refused(
            "this server does not wait for free pages by backoff",
            "XtraDB does: `wringer sandbox deploy xtradb`, and Percona Server up to 8.4",
        )
    };
    if connection.protocol() == Protocol::Postgresql {
        return Err(not_there());
    }
    let said = connection.query("SHOW GLOBAL VARIABLES LIKE 'innodb_empty_free_list_algorithm'")?;
    match said.text(0, 1).as_deref() {
        // XtraDB writes it in capitals
        Some(algorithm) if algorithm.eq_ignore_ascii_case("backoff") => {}
        Some(other) => {
            let what = format!("innodb_empty_free_list_algorithm is {other}");
            let remedy = format!(
                "SET GLOBAL innodb_empty_free_list_algorithm = backoff; a buffer pool of less than {BACKOFF_PAGES_MIN} pages has legacy, \
                 whatever is set: deploy with a larger innodb_buffer_pool_size then"
            );
            return Err(Error::refused(what, remedy));
        }
        None => return Err(not_there()),
    }
    let pool: u64 = connection.query("SELECT @@innodb_buffer_pool_size")?.parse(0, 0).unwrap_or(u64::MAX);
    let (schema, bare) = table.name.split_once('.').unwrap_or(("", &table.name));
    let schema = if schema.is_empty() { "DATABASE()".to_owned() } else { format!("'{schema}'") };
    let sql = format!(
        "SELECT data_length FROM information_schema.tables WHERE table_schema = {schema} AND table_name = '{bare}'"
    );
    let bytes: u64 = connection.query(&sql)?.parse(0, 0).unwrap_or(0);
    if bytes <= pool {
        let what = format!(
            "table {} has {bytes} bytes, and the buffer pool {pool}: a scan of it empties no free list",
            table.name
        );
        return Err(Error::refused(
            what,
            "`wringer fill` makes a larger table; or deploy with a smaller innodb_buffer_pool_size",
        ));
    }
    Ok(())
}

impl Scan {
    pub(crate) fn ready(target: &Target, table: &Table) -> Result<Self, Error> {
        let Numbered { connection: mut reader, number } = Numbered::open(target)?;
        let no_key = || {
            Error::refused(format!("table {} has no primary key", table.name), "`--table` with a table that has one")
        };
        let key = table.key.clone().ok_or_else(no_key)?;
        let ends = reader.query(&format!("SELECT MIN({key}), MAX({key}) FROM {}", table.quoted))?;
        let (lowest, highest) = (ends.parse(0, 0).unwrap_or(0), ends.parse(0, 1).unwrap_or(0));
        Ok(Self { reader, number, table: table.quoted.clone(), key, lowest, highest })
    }

    /// Reads the table from that moment on, piece by piece, again and again, until the time is over or the end is asked for.
    ///
    /// # Errors
    /// The server's errors.
    pub(crate) fn inject(mut self, asked: &Injection, at: Instant, stop: &Stop) -> Result<Option<Bite>, Error> {
        if stop.or_at(at) {
            return Ok(None);
        }
        let before = self.wait_free()?;
        let (began, started_us) = (Instant::now(), host::clock::unix_us());
        let end = began + Duration::from_micros(asked.length_us);
        let mut from = self.lowest;
        while Instant::now() < end && !stop.is_asked() {
            let to = from.saturating_add(i64::try_from(PIECE_ROWS).unwrap_or(i64::MAX));
            let Self { table, key, .. } = &self;
            // COUNT of another column than the key reads the rows themselves
            self.reader.execute(&format!(
                "SELECT SUM(CRC32({key})) FROM {table} FORCE INDEX (PRIMARY) WHERE {key} >= {from} AND {key} < {to}"
            ))?;
            from = if to > self.highest { self.lowest } else { to };
        }
        let length_us = us(began.elapsed());
        let value = self.wait_free()?.saturating_sub(before);
        let bit = value > 0;
        let what = "tries of all queries that found no free page (Innodb_buffer_pool_wait_free)".to_owned();
        let why = if bit {
            "the length is the length of the demand for pages; how long a query waits depends on the refiller"
        } else {
            "the server refilled its free list as fast as pages were taken"
        };
        let witness = Some(Witness { what, value, connection: None });
        let (held_by, why) = (self.number, Some(why.to_owned()));
        Ok(Some(Bite { started_us, length_us, bit: Some(bit), witness, held_by, why }))
    }

    fn wait_free(&mut self) -> Result<u64, Error> {
        let said = self.reader.query("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_wait_free'")?;
        Ok(said.parse(0, 1).unwrap_or(0))
    }
}
