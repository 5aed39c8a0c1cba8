// SPDX-License-Identifier: Apache-2.0
//! pgbench's four tables, as `pgbench -i` makes them: the same columns, rows, order of steps and keys.
//!
//! In the MySQL family the tables have their keys from the start, because InnoDB stores the rows in key order.

use crate::admin::Connection;
use crate::fill::{Error, Guard, ServerFacts, without};
use crate::{Protocol, Target};
use serde::Serialize;
use std::fmt;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use workload::{ACCOUNTS, TELLERS};

/// The tables that `pgbench -i` makes, in the order in which pgbench drops and makes them.
pub const TABLES: [&str; 4] = ["pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers"];
/// From this scale on an account's number needs 64 bits.
const WIDE_FROM: u32 = 20_000;
/// How many rows are handed to a bulk load at once.
const PIECE_ROWS: u64 = 1000;
/// Rows in a transaction of InnoDB, so that its undo log stays small.
const TRANSACTION_ROWS: u64 = 100_000;

/// The tables that were made, by the server's own count.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    pub pgbench_scale: u32,
    pub branches: u64,
    pub tellers: u64,
    pub accounts: u64,
    /// Bytes of the tables with their indexes. `None`: the server does not tell.
    pub bytes: Option<u64>,
    pub elapsed_seconds: f64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pgbench_scale, branches, tellers, accounts, elapsed_seconds, .. } = self;
        write!(
            f,
            "pgbench's tables at scale {pgbench_scale}: {branches} branches, {tellers} tellers, {accounts} accounts"
        )?;
        if let Some(bytes) = self.bytes {
            write!(f, ", {}", units::Bytes(bytes))?;
        }
        write!(f, "; {elapsed_seconds:.1} s")
    }
}

/// The scale of the existing tables: the number of branches, as in pgbench.
///
/// # Errors
/// There are no such tables, or they are empty.
pub fn scale(target: &Target) -> Result<u32, crate::Error> {
    let rows = Connection::open(target)?.query("SELECT count(*) FROM pgbench_branches")?;
    let count = rows.parse(0, 0).unwrap_or(0);
    if count == 0 {
        return Err(crate::Error::Invalid("pgbench_branches is empty: there is no scale to take from it".into()));
    }
    Ok(count)
}

/// The statements that make the tables, to be shown before anything is done.
pub fn statements(protocol: Protocol, scale: u32) -> Vec<String> {
    create(protocol, scale).into_iter().map(|(_, sql)| sql).chain(keys(protocol)).collect()
}

/// Makes and fills the tables; drops them again after a failure. `progress` gets the written accounts and their final number.
///
/// # Errors
/// [`Error::Exists`] unless `replace`; [`Error::Stopped`]; the server's errors.
pub fn fill(
    target: &Target,
    scale: u32,
    replace: bool,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report, Error> {
    if scale == 0 {
        return Err(Error::Spec { option: "pgbench", value: "0".into(), expected: "a scale from 1" });
    }
    let facts = ServerFacts::read(target)?;
    let connection = Connection::open(target).map_err(Error::server("connect to fill pgbench's tables"))?;
    let _guard = Guard::take(target)?;
    let mut filler = Filler { connection, facts, scale, stop, progress, done: 0 };
    let began = Instant::now();
    if let Some(table) = filler.existing()? {
        if !replace {
            return Err(Error::Exists { table });
        }
        filler.drop_tables()?;
    }
    let mut made = Vec::new();
    match filler.make(&mut made) {
        Ok(()) => filler.report(began.elapsed()),
        Err(error) => {
            // Its transaction would block the drop of the tables.
            drop(filler);
            Err(without(&made, target, error))
        }
    }
}

struct Filler<'a> {
    connection: Connection,
    facts: ServerFacts,
    scale: u32,
    stop: &'a AtomicBool,
    progress: &'a mut dyn FnMut(u64, u64),
    done: u64,
}

impl Filler<'_> {
    fn run(&mut self, sql: &str) -> Result<(), Error> {
        self.go_on()?;
        self.connection
            .execute(sql)
            .map(drop)
            .map_err(Error::server(format!("run: {}", sql.chars().take(80).collect::<String>())))
    }

    fn go_on(&self) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
    }

    /// The name of an existing table of pgbench. The server's catalogue also names a table that cannot be read, because of a lock or a missing right.
    fn existing(&mut self) -> Result<Option<String>, Error> {
        let names = TABLES.map(|table| format!("'{table}'")).join(", ");
        let sql = match self.facts.protocol {
            Protocol::Mysql => format!(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN ({names})"
            ),
            Protocol::Postgresql => format!(
                "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname IN ({names})"
            ),
        };
        let found = self.connection.query(&sql).map_err(Error::server(format!("ask the server: {sql}")))?;
        Ok(found.text(0, 0))
    }

    fn drop_tables(&mut self) -> Result<(), Error> {
        self.connection.drop_tables(&TABLES).map_err(Error::server("drop pgbench's tables"))
    }

    /// Adds the names of the tables that this fill made to `made`.
    fn make(&mut self, made: &mut Vec<String>) -> Result<(), Error> {
        for (table, sql) in create(self.facts.protocol, self.scale) {
            self.run(&sql)?;
            made.push(table.to_owned());
        }
        match self.facts.protocol {
            Protocol::Postgresql => {
                self.run("BEGIN")?;
                // In a table that the same transaction has emptied, rows are frozen from the start.
                self.run(&format!("TRUNCATE TABLE {}", TABLES.join(", ")))?;
                self.small_tables()?;
                let all = self.accounts();
                self.copy("COPY pgbench_accounts FROM STDIN WITH (FREEZE ON)", 1, all)?;
                self.run("COMMIT")?;
                for table in ["pgbench_branches", "pgbench_tellers", "pgbench_accounts", "pgbench_history"] {
                    self.run(&format!("VACUUM ANALYZE {table}"))?;
                }
            }
            Protocol::Mysql => {
                self.small_tables()?;
                let mut first = 1;
                while first <= self.accounts() {
                    let rows = TRANSACTION_ROWS.min(self.accounts() + 1 - first);
                    if self.facts.bulk_load {
                        self.copy("LOAD DATA LOCAL INFILE 'rows' INTO TABLE pgbench_accounts", first, rows)?;
                    } else {
                        self.insert(first, rows)?;
                    }
                    first += rows;
                }
            }
        }
        for sql in keys(self.facts.protocol) {
            self.run(&sql)?;
        }
        Ok(())
    }

    fn accounts(&self) -> u64 {
        u64::from(self.scale) * ACCOUNTS
    }

    fn small_tables(&mut self) -> Result<(), Error> {
        let tellers = u64::from(self.scale) * TELLERS;
        let branches = (1..=u64::from(self.scale)).map(|branch| format!("({branch},0)")).collect::<Vec<_>>();
        let tellers =
            (0..tellers).map(|teller| format!("({},{},0)", teller + 1, teller / TELLERS + 1)).collect::<Vec<_>>();
        for (into, rows) in
            [("pgbench_branches(bid,bbalance)", branches), ("pgbench_tellers(tid,bid,tbalance)", tellers)]
        {
            for some in rows.chunks(1000) {
                self.run(&format!("INSERT INTO {into} VALUES {}", some.join(",")))?;
            }
        }
        Ok(())
    }

    fn copy(&mut self, sql: &str, first: u64, rows: u64) -> Result<(), Error> {
        let (mut next, end, all) = (first, first + rows, self.accounts());
        let Self { connection, stop, progress, done, .. } = self;
        let mut more = |out: &mut Vec<u8>| {
            let until = end.min(next + PIECE_ROWS);
            // Writing to a Vec cannot fail.
            (next..until).for_each(|account| drop(writeln!(out, "{account}\t{}\t0\t", branch_of(account))));
            *done += until - next;
            next = until;
            progress(*done, all);
            next < end && !stop.load(Ordering::Relaxed)
        };
        connection.copy_in(sql, &mut more).map_err(Error::server("load rows into pgbench_accounts"))?;
        self.go_on()
    }

    /// For servers that do not allow LOAD DATA LOCAL.
    fn insert(&mut self, first: u64, rows: u64) -> Result<(), Error> {
        self.run("BEGIN")?;
        for start in (first..first + rows).step_by(1000) {
            let end = (start + 1000).min(first + rows);
            let values: Vec<String> =
                (start..end).map(|account| format!("({account},{},0,'')", branch_of(account))).collect();
            self.run(&format!("INSERT INTO pgbench_accounts VALUES {}", values.join(",")))?;
            self.done += end - start;
            (self.progress)(self.done, u64::from(self.scale) * ACCOUNTS);
        }
        self.run("COMMIT")
    }

    /// Counts the rows. A number that differs from the number of written rows is an error.
    fn report(&mut self, elapsed: Duration) -> Result<Report, Error> {
        let scale = u64::from(self.scale);
        let mut counts = [0; 3];
        let wanted =
            [("branches", scale, "bid"), ("tellers", scale * TELLERS, "tid"), ("accounts", scale * ACCOUNTS, "aid")];
        for (count, (what, rows, key)) in counts.iter_mut().zip(wanted) {
            let sql = format!("SELECT count(*), min({key}), max({key}) FROM pgbench_{what}");
            let found = self.connection.query(&sql).map_err(Error::server(format!("ask the server: {sql}")))?;
            let read = [0, 1, 2].map(|column| found.parse::<u64>(0, column).unwrap_or(0));
            if read != [rows, 1, rows] {
                let (written, read) = (format!("{rows}, 1, {rows}"), format!("{read:?}"));
                return Err(Error::Differs {
                    table: format!("pgbench_{what}"),
                    what: "count, least and greatest key",
                    written,
                    read,
                });
            }
            *count = rows;
        }
        let [branches, tellers, accounts] = counts;
        let (bytes, elapsed_seconds) = (self.bytes(), elapsed.as_secs_f64());
        Ok(Report { pgbench_scale: self.scale, branches, tellers, accounts, bytes, elapsed_seconds })
    }

    fn bytes(&mut self) -> Option<u64> {
        let names = TABLES.map(|table| format!("'{table}'")).join(", ");
        let sql = match self.facts.protocol {
            Protocol::Postgresql => {
                format!(
                    "SELECT sum(pg_total_relation_size(oid::regclass))::bigint FROM pg_class WHERE relname IN ({names}) \
                         AND relnamespace = current_schema()::regnamespace"
                )
            }
            Protocol::Mysql => format!(
                "SELECT CAST(SUM(data_length + index_length) AS UNSIGNED) FROM information_schema.tables \
                 WHERE table_schema = DATABASE() AND table_name IN ({names})"
            ),
        };
        self.connection.query(&sql).ok()?.parse(0, 0)
    }
}

fn branch_of(account: u64) -> u64 {
    (account - 1) / ACCOUNTS + 1
}

/// The tables with the statements that make them.
fn create(protocol: Protocol, scale: u32) -> [(&'static str, String); 4] {
    let number = if scale >= WIDE_FROM { "bigint" } else { "int" };
    let (packed, time) = match protocol {
        Protocol::Postgresql => (" WITH (fillfactor=100)", "timestamp"),
        Protocol::Mysql => ("", "datetime"),
    };
    let key =
        |column: &str| if protocol == Protocol::Mysql { format!(", PRIMARY KEY ({column})") } else { String::new() };
    let history = format!("tid int, bid int, aid {number}, delta int, mtime {time}, filler char(22))");
    let tellers = format!("tid int NOT NULL, bid int, tbalance int, filler char(84){}){packed}", key("tid"));
    let accounts = format!("aid {number} NOT NULL, bid int, abalance int, filler char(84){}){packed}", key("aid"));
    let branches = format!("bid int NOT NULL, bbalance int, filler char(88){}){packed}", key("bid"));
    [
        ("pgbench_history", history),
        ("pgbench_tellers", tellers),
        ("pgbench_accounts", accounts),
        ("pgbench_branches", branches),
    ]
    .map(|(table, columns)| (table, format!("CREATE TABLE {table} ({columns}")))
}

/// The statements after the rows.
fn keys(protocol: Protocol) -> Vec<String> {
    match protocol {
        Protocol::Postgresql => [("branches", "bid"), ("tellers", "tid"), ("accounts", "aid")]
            .map(|(table, key)| format!("ALTER TABLE pgbench_{table} ADD PRIMARY KEY ({key})"))
            .to_vec(),
        Protocol::Mysql => vec![format!("ANALYZE TABLE {}", TABLES.join(", "))],
    }
}
