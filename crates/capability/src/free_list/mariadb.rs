// SPDX-License-Identifier: Apache-2.0
//! MariaDB: XtraDB in 10.1, with two threads that refill the free list; from 10.5 on MariaDB has methods of its own.

use super::mysql::{SEARCH, SEARCH_5_6};
use super::percona::{BY_FIFTY, BY_ONE_5_6};
use super::{Algorithm, BatchLimit, Evidence, FreeList, OnEmpty, Refiller, SleepCall};
use crate::Flavour;

const TOP_UP: Refiller =
    Refiller::Cleaner { period_ms: 1000, can_be_woken: true, only_if_active: false, keeps_half: true };
/// In MariaDB, XtraDB's page cleaner refills the free list, too.
const SECOND: Refiller =
    Refiller::Cleaner { period_ms: 1000, can_be_woken: false, only_if_active: false, keeps_half: false };

const XTRADB: FreeList = FreeList {
    flavour: Flavour::Mariadb,
    since: &[10, 1, 23],
    until: &[10, 1, 24],
    algorithms: &[Algorithm::Backoff, Algorithm::Legacy],
    backoff_wakes: false,
    legacy: OnEmpty::Searches(SEARCH_5_6),
    refillers: &[Refiller::Manager { per_instance: false, adapt: BY_FIFTY }, SECOND],
    sleep: SleepCall::Select,
    batch: BatchLimit::ChunksOfWrites(100),
    scan_depth: 1024,
    least_in_use: 256,
    instances_max: 64,
    counters: super::counters::PERCONA_5_6,
    evidence: Evidence::Measured,
    source: "MariaDB 10.1.23 (XtraDB 5.6.35-80.0): read as machine code, traced, and loaded",
};

const OWN: FreeList = FreeList {
    since: &[10, 11, 18],
    until: &[10, 11, 20],
    algorithms: &[Algorithm::Legacy],
    legacy: OnEmpty::WaitsForCleaner { depth: 100, longest_ms: 1000 },
    refillers: &[TOP_UP],
    sleep: SleepCall::Timed,
    batch: BatchLimit::Pages,
    scan_depth: 1536,
    instances_max: 1,
    counters: super::counters::MARIADB,
    evidence: Evidence::Measured,
    source: "MariaDB 10.11.18, buf/buf0lru.cc and buf0flu.cc; 10.11.19 loaded",
    ..XTRADB
};

pub(super) const ROWS: &[FreeList] = &[
    FreeList {
        since: &[11, 8, 6],
        until: &[11, 8, 7],
        evidence: Evidence::Read,
        source: "MariaDB 11.8.6, buf/buf0lru.cc and buf0flu.cc",
        ..OWN
    },
    OWN,
    FreeList {
        since: &[10, 5, 23],
        until: &[10, 5, 24],
        legacy: OnEmpty::OwnBatch { depth: 100, pages: 32 },
        refillers: &[],
        counters: super::counters::MARIADB_10_5,
        evidence: Evidence::Read,
        source: "MariaDB 10.5.23, buf/buf0lru.cc and buf0flu.cc",
        ..OWN
    },
    FreeList {
        since: &[10, 3],
        until: &[10, 5],
        algorithms: &[Algorithm::Legacy],
        legacy: OnEmpty::Searches(SEARCH),
        refillers: &[Refiller::Cleaner {
            period_ms: 1000,
            can_be_woken: true,
            only_if_active: true,
            keeps_half: false,
        }],
        sleep: SleepCall::Timed,
        batch: BatchLimit::Pages,
        counters: super::counters::MYSQL,
        evidence: Evidence::Assumed,
        source: "MariaDB 10.3 and 10.4 (@ef7cb0a0, @02f68552), buf/buf0lru.cc; the page cleaner as in MySQL 5.7.44 is assumed",
        ..XTRADB
    },
    FreeList {
        since: &[10, 1, 25],
        until: &[10, 2],
        refillers: &[Refiller::Manager { per_instance: false, adapt: BY_ONE_5_6 }, SECOND],
        evidence: Evidence::Assumed,
        source: "MariaDB 10.1.25 (XtraDB 5.6.36-82.0), storage/xtradb; that later ones of 10.1 are the same is assumed",
        ..XTRADB
    },
    XTRADB,
];
