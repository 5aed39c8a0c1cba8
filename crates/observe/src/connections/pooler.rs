// SPDX-License-Identifier: Apache-2.0
//! pgBouncer's console. Columns are found by their names, because new versions have inserted some.

use connections::{PoolSeen, PoolerSeen};
use load::Target;
use load::admin::{Connection, Rows};
use std::time::Duration;

/// A look does not wait longer for a pooler that does not answer.
const READ_LIMIT: Duration = Duration::from_secs(2);

/// The console of one pgBouncer.
pub struct Pooler {
    console: Connection,
    seen: PoolerSeen,
}

impl Pooler {
    /// `target`: the console, which is the database `pgbouncer`, with an account of its admin_users or stats_users.
    ///
    /// # Errors
    /// The errors of [`Connection::open`].
    pub fn open(target: &Target) -> Result<Self, load::Error> {
        let mut console = Connection::open(target)?;
        console.set_read_limit(Some(READ_LIMIT))?;
        let config = console.query("SHOW CONFIG")?;
        let (key, value) = (column(&config, "key"), column(&config, "value"));
        let pair = |row| Some((config.text(row, key?)?, config.text(row, value?).unwrap_or_default()));
        let config = (0..config.len()).filter_map(pair).collect();
        let mut pooler = Self { console, seen: PoolerSeen { config, ..PoolerSeen::default() } };
        pooler.look()?;
        Ok(pooler)
    }

    /// Reads the present clients and pools.
    ///
    /// # Errors
    /// The errors of [`Connection::query`].
    pub fn look(&mut self) -> Result<(), load::Error> {
        let lists = self.console.query("SHOW LISTS")?;
        let (list, items) = (column(&lists, "list"), column(&lists, "items"));
        let pair = |row| Some((lists.text(row, list?)?, lists.parse(row, items?)?));
        self.seen.lists = (0..lists.len()).filter_map(pair).collect();
        // our own connection to the console is one of its clients
        if let Some(clients) = self.seen.lists.get_mut("used_clients") {
            *clients = clients.saturating_sub(1);
            self.seen.clients_peak = self.seen.clients_peak.max(*clients);
        }
        let databases = self.console.query("SHOW DATABASES")?;
        let users = self.console.query("SHOW USERS")?;
        self.seen.hides_database_limits = column(&databases, "max_connections").is_none();
        self.seen.hides_user_limits = column(&users, "max_user_connections").is_none();
        self.seen.pools = pools(&self.console.query("SHOW POOLS")?, &databases, &users);
        Ok(())
    }

    pub fn seen(&self) -> &PoolerSeen {
        &self.seen
    }
}

fn column(rows: &Rows, name: &str) -> Option<usize> {
    rows.columns.iter().position(|column| column == name)
}

fn pools(rows: &Rows, databases: &Rows, users: &Rows) -> Vec<PoolSeen> {
    let text = |row, name: &str| column(rows, name).and_then(|column| rows.text(row, column)).unwrap_or_default();
    let number = |row, name: &str| text(row, name).parse::<u64>().unwrap_or(0);
    let pool = |row| {
        let (database, user) = (text(row, "database"), text(row, "user"));
        let of_database = |column: &str| named(databases, &database, column);
        let of_user = |column: &str| named(users, &user, column);
        PoolSeen {
            clients_active: number(row, "cl_active"),
            clients_waiting: number(row, "cl_waiting"),
            servers: ["sv_active", "sv_idle", "sv_used", "sv_tested", "sv_login"]
                .iter()
                .map(|name| number(row, name))
                .sum(),
            // a user's own size comes before that of the database (pgBouncer's config.md)
            pool_size: of_user("pool_size").or_else(|| of_database("pool_size")),
            max_connections: of_database("max_connections"),
            // older versions call it reserve_pool
            reserve: of_user("reserve_pool_size")
                .or_else(|| of_database("reserve_pool_size"))
                .or_else(|| of_database("reserve_pool")),
            max_user_connections: of_user("max_user_connections"),
            database,
            user,
        }
    };
    (0..rows.len()).map(pool).collect()
}

/// A number of the database or the user with this name.
fn named(rows: &Rows, name: &str, value: &str) -> Option<u64> {
    let (names, values) = (column(rows, "name")?, column(rows, value)?);
    let row = (0..rows.len()).find(|row| rows.text(*row, names).as_deref() == Some(name))?;
    // SHOW USERS writes numbers with spaces before them, and nothing where none is set
    rows.text(row, values)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_an_older_build_kept_is_read() {
        let text = r#"{"database": "shop", "user": "app", "clients_active": 1, "clients_waiting": 0, "servers": 2,
                       "pool_size": 8, "max_connections": 6}"#;
        let seen: PoolSeen = serde_json::from_str(text).unwrap();
        assert_eq!((seen.max_connections, seen.reserve, seen.max_user_connections), (Some(6), None, None));
        let text = r#"{"config": {}, "lists": {}, "pools": [], "clients_peak": 3}"#;
        let seen: PoolerSeen = serde_json::from_str(text).unwrap();
        assert!(!seen.hides_database_limits && !seen.hides_user_limits);
    }

    #[test]
    fn pools_have_the_size_of_their_database() {
        let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        let row = |line: &str| words(line).into_iter().map(|word| Some(word.into_bytes())).collect();
        let databases = Rows {
            columns: words(
                "name host port database force_user pool_size min_pool_size reserve_pool pool_mode max_connections",
            ),
            rows: vec![row("sbtest /run 5432 sbtest - 8 0 2 transaction 6")],
        };
        let rows = Rows {
            columns: words("database user cl_active cl_waiting sv_active sv_idle sv_used sv_tested sv_login maxwait"),
            rows: vec![row("sbtest app 2 6 2 1 1 0 0 1"), row("gone app 0 0 0 0 0 0 0 0")],
        };
        let users = Rows {
            columns: words("name pool_mode max_user_connections current_connections"),
            rows: vec![row("other session 3 0"), row("app session 7 4")],
        };
        let of_older = Rows { columns: words("name pool_mode"), rows: vec![row("app session")] };
        let of = |databases, users| pools(&rows, databases, users);
        let pools = of(&databases, &users);
        assert_eq!((pools[0].servers, pools[0].pool_size, pools[0].max_connections), (4, Some(8), Some(6)));
        assert_eq!((pools[0].clients_waiting, pools[1].pool_size), (6, None));
        assert_eq!((pools[0].reserve, pools[1].reserve, pools[1].max_user_connections), (Some(2), None, Some(7)));
        let own = Rows {
            columns: words("name pool_size reserve_pool_size"),
            rows: vec![vec![Some(b"app".to_vec()), Some(b"      200".to_vec()), Some(Vec::new())]],
        };
        let of_own = of(&databases, &own);
        assert_eq!((of_own[0].pool_size, of_own[0].reserve), (Some(200), Some(2)), "of the user, of the database");
        let newer = Rows { columns: words("name reserve_pool_size"), rows: vec![row("sbtest 3")] };
        assert_eq!((of(&newer, &of_older)[0].reserve, of(&newer, &of_older)[0].max_user_connections), (Some(3), None));
    }
}
