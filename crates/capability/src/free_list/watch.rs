// SPDX-License-Identifier: Apache-2.0
//! The signs to watch for on servers where queries do not sleep for a free page, or do more than sleep.

use super::between;
use crate::Flavour::{self, Mariadb, Mysql, Percona};
use crate::Version;

/// A sign to watch for, in the versions from `since` (included) to `until` (excluded).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watch {
    pub flavour: Flavour,
    pub since: &'static [u32],
    pub until: &'static [u32],
    pub what: &'static str,
    pub means: &'static str,
    pub source: &'static str,
}

const LOOPS: Watch = Watch {
    flavour: Mysql,
    since: &[5, 7],
    until: &[9, 8],
    what: "buffer_LRU_get_free_loops grows while Innodb_buffer_pool_wait_free stands still",
    means: "queries find the list empty and a clean page at once: some microseconds each, cheap",
    source: "buf_LRU_get_free_block, buf/buf0lru.cc of MySQL 5.7.44, 8.0 and 9.7.2",
};
const WAIT_FREE: Watch = Watch {
    since: &[5, 6],
    what: "Innodb_buffer_pool_wait_free grows",
    means: "dirty pages are at the end of the LRU list, and queries write them: more innodb_io_capacity, more innodb_lru_scan_depth",
    ..LOOPS
};
const BATCH: Watch = Watch {
    flavour: Percona,
    since: &[5, 6],
    until: &[8, 5],
    what: "queries that wait on a condition while an LRU batch runs, in performance_schema or /proc",
    means: "under legacy a query waits for a batch that runs when the doublewrite buffer is on; no counter counts that wait",
    source: "buf_LRU_get_free_block, buf/buf0lru.cc of XtraDB 5.6.36-82.0, Percona Server 8.0.32 and 8.4 (@007c0c3a)",
};

pub(super) const ALL: &[Watch] = &[
    LOOPS,
    WAIT_FREE,
    Watch { flavour: Percona, ..LOOPS },
    BATCH,
    Watch { flavour: Mariadb, since: &[10, 1], until: &[10, 2], ..BATCH },
    Watch {
        flavour: Mariadb,
        since: &[10, 3],
        until: &[10, 5],
        source: "MariaDB 10.3 and 10.4 (@ef7cb0a0, @02f68552), buf/buf0lru.cc",
        ..WAIT_FREE
    },
    Watch {
        flavour: Mariadb,
        since: &[10, 5],
        until: &[11, 9],
        what: "`Could not free any blocks` in the error log",
        means: "a query waited a whole second for a page, and nobody made one free",
        source: "MariaDB 10.11.18 and 11.8.6, buf/buf0lru.cc",
    },
    Watch {
        flavour: Mariadb,
        since: &[10, 11],
        until: &[11, 9],
        what: "Engine_time less Pages_read_time of a statement in the slow log",
        means: "time in InnoDB that is no read: waits for a free page, for locks and for the log are in it",
        source: "the slow log of MariaDB 10.11.19, log_slow_verbosity=engine",
    },
];

/// The signs of a free list that costs time, in this version.
pub fn watches(flavour: Flavour, version: &Version) -> impl Iterator<Item = &'static Watch> + use<> {
    let version = version.clone();
    ALL.iter().filter(move |it| it.flavour == flavour && between(&version, it.since, it.until))
}
