// SPDX-License-Identifier: Apache-2.0
//! Which server wrote a log, and whether its queries can wait for a free page in the way of `backoff`.

use capability::{Algorithm, Flavour, LADDER, Ladder, Version, free_list};
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub flavour: Flavour,
    pub version: Version,
}

impl Server {
    /// From the line that a server writes at its start:
    /// `/usr/sbin/mysqld, Version: 8.0.29-21 (Percona Server (GPL), Release 21, ...). started with:`. A server whose words name neither Percona nor MariaDB counts
    /// as MySQL: packages of MySQL have words such as `(Ubuntu)`.
    pub fn of_header(line: &str) -> Option<Self> {
        let said = line.split_once(", Version: ")?.1;
        let flavour = if said.contains("Percona") {
            Flavour::Percona
        } else if said.contains("MariaDB") {
            Flavour::Mariadb
        } else {
            Flavour::Mysql
        };
        Some(Self { flavour, version: Version::find_in(said)? })
    }
}

impl Server {
    /// Whether `innodb_empty_free_list_algorithm` may be `backoff` in this version. `None`: Wringer's authors have not read this version's source.
    fn has_backoff(&self) -> Option<bool> {
        match (free_list(self.flavour, &self.version), self.flavour) {
            (Some(row), _) => Some(row.algorithms.contains(&Algorithm::Backoff)),
            (None, Flavour::Percona | Flavour::Mariadb) => None,
            (None, _) => Some(false),
        }
    }

    /// Whether the algorithm is `backoff` where nobody sets it.
    pub fn is_backoff_usual(&self) -> bool {
        let row = free_list(self.flavour, &self.version);
        row.and_then(|row| row.algorithms.first()).is_some_and(|first| *first == Algorithm::Backoff)
    }

    /// Whether this is a MariaDB whose `Lock_time` has the waits for locks of rows, as those for locks of tables. Measured: 10.1.23 and 10.2.11 have them,
    /// 10.11.5, 10.11.19 and 11.4.5 do not. From 10.6 on `lock_sys_t::wait_resume` (lock/lock0wait.cc) adds them in milliseconds to a sum of microseconds.
    pub(crate) fn counts_row_locks(&self) -> bool {
        self.flavour == Flavour::Mariadb && self.version < Version::of(&[10, 6])
    }

    /// How a query waits for a free page, if `backoff` is in force. `None`: the server does not have `backoff`, or Wringer's authors
    /// have not read this version's source.
    pub fn ladder(&self) -> Option<Ladder> {
        self.has_backoff().filter(|has| *has).map(|_| LADDER)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.flavour, self.version)
    }
}

/// Whether a query may wait for a free page by sleeping, try after try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backoff {
    /// The caller says that it is in force.
    InForce,
    /// The server has it; the log does not say which algorithm was in force.
    Possible,
    /// The server has it, and uses another algorithm where nobody sets this one; the log does not say which was in force.
    Unusual,
    /// Nothing says which server it was, or nobody has looked at what its version does.
    NotKnown,
    /// The server does not have it, or the caller says that it was not in force.
    NotThere,
}

impl Backoff {
    pub(crate) fn of(server: Option<&Server>, algorithm: Option<Algorithm>, is_perconas: bool) -> Self {
        let has = server.and_then(Server::has_backoff);
        match (has, algorithm) {
            (Some(false), _) | (_, Some(Algorithm::Legacy)) => Self::NotThere,
            (_, Some(Algorithm::Backoff)) => Self::InForce,
            (Some(true), None) if server.is_some_and(Server::is_backoff_usual) => Self::Possible,
            (Some(true), None) => Self::Unusual,
            (None, None) if is_perconas => Self::Possible,
            (None, None) => Self::NotKnown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_say_what_they_are_at_their_start() {
        let of = |text: &str| Server::of_header(text).map(|server| server.to_string());
        let percona = "/opt/ps/bin/mysqld, Version: 8.0.29-21 (Percona Server (GPL), Release 21, Revision c59f87d2854). started with:";
        assert_eq!(of(percona).as_deref(), Some("percona 8.0.29"));
        let mariadb = "/usr/sbin/mariadbd, Version: 10.11.19-MariaDB-log (Debian 12). started with:";
        assert_eq!(of(mariadb).as_deref(), Some("mariadb 10.11.19"));
        let mysql = "/usr/sbin/mysqld, Version: 9.1.0 (MySQL Community Server - GPL). started with:";
        assert_eq!(of(mysql).as_deref(), Some("mysql 9.1.0"));
        let of_version = |version: &str| of(&format!("/usr/sbin/mysqld, Version: {version}. started with:"));
        assert_eq!(of_version("9.7.4-2 ((Debian))").as_deref(), Some("mysql 9.7.4"));
        assert_eq!(of_version("8.0.36-0ubuntu0.22.04.1 ((Ubuntu))").as_deref(), Some("mysql 8.0.36"));
        assert_eq!(of_version("5.7 (Source distribution)").as_deref(), Some("mysql 5.7"));
        assert_eq!(of_version("of ours"), None);
    }

    #[test]
    fn servers_without_backoff_have_no_ladder() {
        let has = |flavour, version: &str| {
            Server { flavour, version: version.parse().expect("a version") }.ladder().is_some()
        };
        assert!(has(Flavour::Percona, "8.0.29") && has(Flavour::Percona, "5.7.39") && has(Flavour::Mariadb, "10.1.23"));
        assert!(
            !has(Flavour::Mysql, "8.0.29") && !has(Flavour::Mariadb, "10.11.19") && !has(Flavour::Postgresql, "17")
        );
    }

    #[test]
    fn what_the_caller_says_counts_and_a_server_without_backoff_has_none() {
        let server = |flavour, version: &str| Server { flavour, version: version.parse().expect("a version") };
        let percona = server(Flavour::Percona, "8.0.29");
        let earlier = server(Flavour::Percona, "5.7.39");
        let mysql = server(Flavour::Mysql, "8.0.29");
        assert_eq!(Backoff::of(Some(&earlier), None, false), Backoff::Possible);
        assert_eq!(Backoff::of(Some(&percona), None, false), Backoff::Unusual, "its default is legacy");
        assert_eq!(Backoff::of(Some(&percona), Some(Algorithm::Backoff), false), Backoff::InForce);
        assert_eq!(Backoff::of(Some(&percona), Some(Algorithm::Legacy), true), Backoff::NotThere);
        assert_eq!(Backoff::of(Some(&mysql), Some(Algorithm::Backoff), false), Backoff::NotThere);
        assert_eq!(
            Backoff::of(Some(&server(Flavour::Percona, "12.1")), None, false),
            Backoff::NotKnown,
            "nobody has looked at it"
        );
        assert_eq!(Backoff::of(Some(&server(Flavour::Postgresql, "17")), None, false), Backoff::NotThere);
        assert_eq!(Backoff::of(None, None, true), Backoff::Possible);
        assert_eq!(Backoff::of(None, None, false), Backoff::NotKnown);
    }
}
