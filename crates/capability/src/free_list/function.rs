// SPDX-License-Identifier: Apache-2.0
//! The function in which a query waits for a free page, by its name in a program's symbol table. A probe on this function sees each wait from its
//! begin to its end.

use super::{Evidence, between};
use crate::Flavour::{self, Mariadb, Mysql, Percona};
use crate::Version;

/// The function in the versions from `since` (included) to `until` (excluded).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    pub flavour: Flavour,
    pub since: &'static [u32],
    pub until: &'static [u32],
    /// `buf_LRU_get_free_block`, with its arguments, as the Itanium C++ ABI writes it.
    pub symbol: &'static str,
    /// The distribution's package with the symbols, for a program that does not contain them.
    pub package: &'static str,
    pub evidence: Evidence,
    pub source: &'static str,
}

const OF_A_POOL: Function = Function {
    flavour: Mysql,
    since: &[5, 6],
    until: &[9, 8],
    symbol: "_Z22buf_LRU_get_free_blockP10buf_pool_t",
    package: "mysql-community-server-debuginfo, mysql-community-server-core-dbgsym",
    evidence: Evidence::Assumed,
    source: "buf/buf0lru.cc of MySQL 5.6.41, 5.7.44, 8.0 and 9.7.2: computed from what it takes, and not seen in a program",
};
const XTRADB: Function = Function {
    flavour: Mariadb,
    since: &[10, 1],
    until: &[10, 5],
    package: "mariadb-server-core-dbgsym, MariaDB-server-debuginfo",
    source: "10.1.23: found in the program, and probed; XtraDB 5.6.36, MariaDB 10.3 and 10.4 (@ef7cb0a0), buf/buf0lru.cc",
    ..OF_A_POOL
};

pub(super) const ALL: &[Function] = &[
    OF_A_POOL,
    Function {
        flavour: Percona,
        package: "percona-server-server-dbgsym, percona-server-server-debuginfo",
        source: "buf/buf0lru.cc of XtraDB 5.6.36-82.0, Percona Server 5.7, 8.0.32 and 8.4 (@007c0c3a)",
        ..OF_A_POOL
    },
    Function { until: &[10, 1, 24], since: &[10, 1, 23], evidence: Evidence::Measured, ..XTRADB },
    XTRADB,
    Function {
        since: &[10, 5],
        until: &[10, 12],
        symbol: "_Z22buf_LRU_get_free_blockb",
        source: "MariaDB 10.5.23, 10.6 (@a55b951e) and 10.11.18, buf/buf0lru.cc: computed from what it takes",
        ..XTRADB
    },
    Function {
        since: &[11, 8],
        until: &[11, 9],
        symbol: "_Z22buf_LRU_get_free_block11buf_LRU_get",
        source: "MariaDB 11.8.6, buf/buf0lru.cc: computed from what it takes",
        ..XTRADB
    },
];

/// The function of this version; `None` for a version that was not examined.
pub fn waiting_function(flavour: Flavour, version: &Version) -> Option<&'static Function> {
    ALL.iter().find(|it| it.flavour == flavour && between(version, it.since, it.until))
}
