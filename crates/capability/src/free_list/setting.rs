// SPDX-License-Identifier: Apache-2.0
//! Variables that change the handling of an empty free list, and whether a server accepts them while it runs.

use super::between;
use crate::Flavour::{self, Mariadb, Mysql, Percona};
use crate::Version;

/// A variable of the versions from `since` (included) to `until` (excluded).
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub name: &'static str,
    pub flavour: Flavour,
    pub since: &'static [u32],
    pub until: &'static [u32],
    /// `SET GLOBAL` changes it; otherwise it is read only at the server's start.
    pub is_dynamic: bool,
    pub source: &'static str,
}

const ALGORITHM: Setting = Setting {
    name: "innodb_empty_free_list_algorithm",
    flavour: Percona,
    since: &[5, 6],
    until: &[9, 8],
    is_dynamic: true,
    source: "Percona Server 5.6 and 8.4 manuals, XtraDB Performance Improvements for I/O-Bound Highly-Concurrent Workloads",
};
const DEPTH: Setting = Setting {
    name: "innodb_lru_scan_depth",
    flavour: Mysql,
    since: &[5, 6],
    until: &[9, 8],
    is_dynamic: true,
    source: "MySQL manual, InnoDB System Variables",
};
const CAPACITY: Setting = Setting { name: "innodb_io_capacity", ..DEPTH };
const MONITOR: Setting = Setting { name: "innodb_monitor_enable", ..DEPTH };
const OF_MARIADB: &str = "MariaDB's manual, InnoDB System Variables";

pub(super) const SETTINGS: &[Setting] = &[
    ALGORITHM,
    Setting {
        flavour: Mariadb,
        since: &[10, 1],
        until: &[10, 2],
        source: "set while MariaDB 10.1.23 ran",
        ..ALGORITHM
    },
    Setting {
        name: "innodb_lru_threads",
        flavour: Percona,
        since: &[9, 7, 2],
        until: &[9, 8],
        is_dynamic: false,
        source: "PS-11445: percona/percona-server pull request 6099; OFF by default",
    },
    DEPTH,
    Setting { flavour: Percona, ..DEPTH },
    Setting { flavour: Mariadb, since: &[10, 1], until: &[11, 9], source: OF_MARIADB, ..DEPTH },
    CAPACITY,
    Setting { flavour: Percona, ..CAPACITY },
    Setting { flavour: Mariadb, since: &[10, 1], until: &[11, 9], source: OF_MARIADB, ..CAPACITY },
    MONITOR,
    Setting { flavour: Percona, ..MONITOR },
    Setting { flavour: Mariadb, since: &[10, 1], until: &[11, 9], source: OF_MARIADB, ..MONITOR },
];

/// `None`: this version is not known to have the variable.
pub fn setting(name: &str, flavour: Flavour, version: &Version) -> Option<&'static Setting> {
    SETTINGS.iter().find(|it| it.name == name && it.flavour == flavour && between(version, it.since, it.until))
}
