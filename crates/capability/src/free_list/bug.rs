// SPDX-License-Identifier: Apache-2.0
//! Known faults: counters of the free list whose values do not mean what they seem to mean.

use super::between;
use crate::Flavour::{self, Mariadb, Mysql, Percona};
use crate::Version;
use serde::Serialize;

/// A known fault, in the versions from `since` (included) to `until` (excluded).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bug {
    /// The bug's name in its tracker.
    pub name: &'static str,
    #[serde(skip)]
    pub flavour: Flavour,
    #[serde(skip)]
    pub since: &'static [u32],
    #[serde(skip)]
    pub until: &'static [u32],
    /// The wrong counters.
    pub counters: &'static [&'static str],
    pub says: &'static str,
    pub source: &'static str,
}

const SCANNED: &[&str] = &["buffer_LRU_search_scanned"];
const LRU_FLUSHED: &[&str] = &["Innodb_buffer_pool_pages_LRU_flushed"];

const FIRST_NOT_COUNTED: Bug = Bug {
    name: "Bug#109200",
    flavour: Mysql,
    since: &[8, 0],
    until: &[9, 8],
    counters: SCANNED,
    says: "a search that finds a clean page at once, at the very end of the list, counts no page: the counter is too low by one for each such search",
    source: "buf_LRU_free_from_common_LRU_list, buf/buf0lru.cc of 8.0 and 9.7.2: the loop is left before the count; bugs.mysql.com 109200",
};
const FIRST_COUNTED_TWICE: Bug = Bug {
    name: "Bug#109200",
    flavour: Mysql,
    since: &[5, 6],
    until: &[5, 7],
    counters: SCANNED,
    says: "the count begins at 1: a search that finds a clean page at once counts two",
    source: "buf/buf0lru.cc of MySQL 5.6.41 and XtraDB 5.6.36-82.0",
};
const FROM_THE_END_EACH_TIME: Bug = Bug {
    name: "PS-11446",
    flavour: Percona,
    since: &[5, 7],
    until: &[9, 7, 2],
    counters: SCANNED,
    says: "each search begins at the end of the list again, and not where the last one stopped: the same dirty pages are counted many times",
    source: "Percona's PS-11446, fixed in July 2026 for 8.4, 9.7 and trunk; 'same bug present identically upstream'",
};
const COMPRESSED: Bug = Bug {
    name: "Bug#71411",
    flavour: Percona,
    since: &[5, 6],
    until: &[8, 5],
    counters: &["Innodb_buffer_pool_pages_LRU_flushed", "buffer_LRU_batch_flush_total_pages"],
    says: "with compressed tables, uncompressed copies that are taken away count as written pages",
    source: "bugs.mysql.com 71411; true in code of the time of 8.4 (percona/percona-server @007c0c3a)",
};

pub(super) const BUGS: &[Bug] = &[
    FIRST_NOT_COUNTED,
    FIRST_COUNTED_TWICE,
    Bug { flavour: Percona, ..FIRST_COUNTED_TWICE },
    Bug { flavour: Mariadb, since: &[10, 1], until: &[10, 2], ..FIRST_COUNTED_TWICE },
    Bug {
        name: "Bug#109200/PS-8785",
        flavour: Percona,
        since: &[5, 7],
        until: &[5, 7, 43],
        source: "Percona's PS-8785, percona/percona-server pull request 5067 of June 2023; that 5.7.43 is the first release with it is assumed, by its date",
        ..FIRST_NOT_COUNTED
    },
    Bug {
        name: "Bug#109200/PS-8785",
        flavour: Percona,
        since: &[8, 0],
        until: &[8, 0, 34],
        source: "Percona's PS-8785, percona/percona-server pull request 5074 of June 2023; that 8.0.34 is the first release with it is assumed, by its date",
        ..FIRST_NOT_COUNTED
    },
    FROM_THE_END_EACH_TIME,
    Bug { flavour: Mysql, since: &[5, 7], until: &[9, 8], ..FROM_THE_END_EACH_TIME },
    Bug {
        name: "PS-6860",
        flavour: Percona,
        since: &[5, 7],
        until: &[5, 7, 30],
        counters: LRU_FLUSHED,
        says: "stays 0, because the instances are not added up: a 0 says nothing",
        source: "Percona's PS-6860, percona/percona-server pull request 3675 of March 2020; that 5.7.30 is the first release with it is assumed, by its date",
    },
    COMPRESSED,
    Bug { flavour: Mariadb, since: &[10, 1], until: &[10, 2], ..COMPRESSED },
];

/// The known faults of the counters of this version.
pub fn bugs(flavour: Flavour, version: &Version) -> impl Iterator<Item = &'static Bug> + use<> {
    let version = version.clone();
    BUGS.iter().filter(move |bug| bug.flavour == flavour && between(&version, bug.since, bug.until))
}
