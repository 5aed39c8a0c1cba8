// SPDX-License-Identifier: Apache-2.0
//! What pgBouncer reports about its pools: `SHOW POOLS` on its console.

use super::{CONSOLE, Pooler};
use crate::{Error, Sandbox};
use load::Target;
use load::admin::{Connection, Rows};
use std::time::Duration;

/// `status` waits no longer than this for a pooler that does not answer.
const READ_LIMIT: Duration = Duration::from_secs(2);

/// The pool of one user and one database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    pub database: String,
    pub user: String,
    /// Clients that have a server connection, or do not want one now.
    pub clients_active: u64,
    /// Clients that have sent something and wait for a server connection.
    pub clients_waiting: u64,
    /// Server connections in use.
    pub servers_active: u64,
    /// Server connections that are free, also those that pgBouncer checks first.
    pub servers_idle: u64,
    /// The waiting time of the client that has waited longest.
    pub longest_wait: Duration,
}

impl Sandbox {
    /// The pools of pgBouncer, when it runs, without the pool of its own console.
    ///
    /// # Errors
    /// pgBouncer does not answer.
    pub fn pools(&self) -> Result<Vec<Pool>, Error> {
        let Some(target) = self.pooled_connection()? else { return Ok(Vec::new()) };
        let talk = |source| Error::Talk { name: self.name().into(), source };
        let rows = ask(&Target { database: Some(CONSOLE.into()), ..target }).map_err(talk)?;
        Ok(of_rows(&rows))
    }

    /// The pgBouncer process, when it runs. An ordinary user only sees their own processes.
    pub fn pooler_process(&self) -> Option<u32> {
        let Pooler { program, .. } = self.manifest.pooler.as_ref()?;
        let found = host::process::open_below(&self.folder.join("log")).found;
        found.into_iter().map(|process| process.pid).find(|pid| program.is_run_by(*pid))
    }
}

fn ask(target: &Target) -> Result<Rows, load::Error> {
    let mut console = Connection::open(target)?;
    console.set_read_limit(Some(READ_LIMIT))?;
    console.query("SHOW POOLS")
}

/// The columns are found by their names, because versions have added columns between others.
fn of_rows(rows: &Rows) -> Vec<Pool> {
    let column = |name: &str| rows.columns.iter().position(|column| column == name);
    let text = |row: usize, name: &str| column(name).and_then(|column| rows.text(row, column)).unwrap_or_default();
    let number = |row: usize, name: &str| text(row, name).parse::<u64>().unwrap_or(0);
    let pool = |row: usize| Pool {
        database: text(row, "database"),
        user: text(row, "user"),
        clients_active: number(row, "cl_active"),
        clients_waiting: number(row, "cl_waiting"),
        servers_active: number(row, "sv_active"),
        servers_idle: ["sv_idle", "sv_used", "sv_tested"].iter().map(|name| number(row, name)).sum(),
        longest_wait: Duration::from_secs(number(row, "maxwait")) + Duration::from_micros(number(row, "maxwait_us")),
    };
    (0..rows.len()).map(pool).filter(|pool| pool.database != CONSOLE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_read_by_the_names_of_their_columns() {
        let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        let row = |line: &str| words(line).into_iter().map(|word| Some(word.into_bytes())).collect();
        // SHOW POOLS of pgBouncer 1.18.0, the columns of cancel requests left out
        let rows = Rows {
            columns: words(
                "database user cl_active cl_waiting sv_active sv_idle sv_used sv_tested sv_login maxwait maxwait_us pool_mode",
            ),
            rows: vec![
                row("pgbouncer pgbouncer 1 0 0 0 0 0 0 0 0 statement"),
                row("sbtest wringer 2 6 2 1 1 0 0 1 500 transaction"),
            ],
        };
        let pools = of_rows(&rows);
        assert_eq!(pools.len(), 1);
        let pool = &pools[0];
        assert_eq!((pool.database.as_str(), pool.user.as_str()), ("sbtest", "wringer"));
        assert_eq!((pool.clients_active, pool.clients_waiting), (2, 6));
        assert_eq!((pool.servers_active, pool.servers_idle), (2, 2));
        assert_eq!(pool.longest_wait, Duration::from_micros(1_000_500));
    }
}
