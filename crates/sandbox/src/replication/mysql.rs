// SPDX-License-Identifier: Apache-2.0
//! Replication of MariaDB and MySQL, by global transaction ids.

use super::REPLICATOR;
use super::dialect::Dialect;
use crate::Flavour;
use load::Error;
use load::admin::{Connection, Rows};

/// Makes the account with which replicas log in.
pub(super) fn lead(connection: &mut Connection, password: &str) -> Result<(), Error> {
    if !has_account(connection)? {
        connection.execute(&format!("CREATE USER '{REPLICATOR}'@'127.0.0.1' IDENTIFIED BY '{password}'"))?;
        connection.execute(&format!("GRANT REPLICATION SLAVE ON *.* TO '{REPLICATOR}'@'127.0.0.1'"))?;
    }
    Ok(())
}

fn has_account(connection: &mut Connection) -> Result<bool, Error> {
    let sql = format!("SELECT count(*) FROM mysql.user WHERE user = '{REPLICATOR}' AND host = '127.0.0.1'");
    Ok(connection.query(&sql)?.text(0, 0).as_deref() != Some("0"))
}

/// Removes the source that the data followed, and an account with the replicas' name.
pub(super) fn forget(connection: &mut Connection, dialect: &Dialect, password: &str) -> Result<(), Error> {
    if !status(connection, dialect)?.is_empty() {
        let replica = dialect.replica.to_uppercase();
        connection.execute(&format!("RESET {replica} ALL"))?;
    }
    if has_account(connection)? {
        connection.execute(&format!("DROP USER '{REPLICATOR}'@'127.0.0.1'"))?;
    }
    lead(connection, password)
}

/// Makes a replica follow its primary, from its own position; the first time, from the position of the copy.
pub(super) fn follow(
    connection: &mut Connection,
    dialect: &Dialect,
    flavour: Flavour,
    port: u16,
    password: &str,
) -> Result<(), Error> {
    let replica = dialect.replica.to_uppercase();
    if !status(connection, dialect)?.is_empty() {
        connection.execute(&format!("STOP {replica}"))?;
    } else if flavour == Flavour::Mariadb {
        connection.execute("SET GLOBAL gtid_slave_pos = @@gtid_binlog_pos")?;
    }
    let Dialect { change, by_gtid, .. } = dialect;
    let source = dialect.source.to_uppercase();
    connection.execute(&format!(
        "{change} {source}_HOST = '127.0.0.1', {source}_PORT = {port}, {source}_USER = '{REPLICATOR}', \
         {source}_PASSWORD = '{password}', {by_gtid}"
    ))?;
    connection.execute(&format!("START {replica}")).map(drop)
}

pub(super) fn status(connection: &mut Connection, dialect: &Dialect) -> Result<Rows, Error> {
    connection.query(&format!("SHOW {} STATUS", dialect.replica.to_uppercase()))
}

/// The number of transactions of `primary` that `replica` lacks. Both are in the form of MariaDB's `gtid_binlog_pos` or `gtid_slave_pos`:
/// `0-1-120,1-1-7`, with the last number of each domain.
pub(super) fn mariadb_lacks(primary: &str, replica: &str) -> u64 {
    let last = |gtids: &str, domain: &str| {
        gtids.split(',').filter_map(gtid).find(|(known, _)| *known == domain).map_or(0, |(_, number)| number)
    };
    let domains = primary.split(',').filter_map(gtid);
    domains.map(|(domain, number)| number.saturating_sub(last(replica, domain))).sum()
}

fn gtid(text: &str) -> Option<(&str, u64)> {
    let (domain, rest) = text.trim().split_once('-')?;
    Some((domain, rest.split_once('-')?.1.parse().ok()?))
}

/// The number of transactions in MySQL's `uuid:1-5:7,uuid:9`; a tag among the numbers is not counted.
pub(super) fn mysql_count(gtids: &str) -> u64 {
    let interval = |text: &str| {
        let (first, last) = text.trim().split_once('-').unwrap_or((text.trim(), text.trim()));
        Some(last.parse::<u64>().ok()?.saturating_sub(first.parse().ok()?) + 1)
    };
    gtids.split(',').flat_map(|set| set.split(':').skip(1)).filter_map(interval).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gtids_are_counted() {
        assert_eq!(mariadb_lacks("0-1-120,1-1-7", "0-1-100"), 27);
        assert_eq!(mariadb_lacks("0-1-120", "0-1-120"), 0);
        assert_eq!(mariadb_lacks("", ""), 0);
        assert_eq!(
            mysql_count("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7,\nae11fa47-71ca-11e1-9e33-c80aa9429562:9"),
            7
        );
        assert_eq!(mysql_count(""), 0);
    }
}
