// SPDX-License-Identifier: Apache-2.0
//! MySQL: no LRU manager, and no choice of an algorithm.

use super::{Algorithm, BatchLimit, Evidence, FreeList, OnEmpty, Refiller, Search, SleepCall};
use crate::Flavour;

const FIRST_LOOK: u32 = 100;

/// 5.7 and later.
pub(super) const SEARCH: Search = Search {
    waits_for_batch: false,
    depth: Some(FIRST_LOOK),
    wakes_cleaner: true,
    sleep_us: 10_000,
    single_flush_takes_clean: true,
};

/// 5.6.
pub(super) const SEARCH_5_6: Search = Search {
    waits_for_batch: true,
    depth: None,
    wakes_cleaner: false,
    sleep_us: 100_000,
    single_flush_takes_clean: false,
};

const CLEANER: &[Refiller] =
    &[Refiller::Cleaner { period_ms: 1000, can_be_woken: true, only_if_active: true, keeps_half: false }];

const ROW: FreeList = FreeList {
    flavour: Flavour::Mysql,
    since: &[5, 7],
    until: &[8, 0],
    algorithms: &[Algorithm::Legacy],
    backoff_wakes: false,
    legacy: OnEmpty::Searches(SEARCH),
    refillers: CLEANER,
    sleep: SleepCall::Timed,
    batch: BatchLimit::Pages,
    scan_depth: 1024,
    least_in_use: 256,
    instances_max: 64,
    counters: super::counters::MYSQL,
    evidence: Evidence::Read,
    source: "MySQL 5.7.44, buf/buf0lru.cc and buf/buf0flu.cc",
};

pub(super) const ROWS: &[FreeList] = &[
    FreeList {
        since: &[8, 0],
        until: &[9, 8],
        evidence: Evidence::Between,
        source: "buf/buf0lru.cc of forks of MySQL 8.0 (baotiao/mysql-server @60a52416) and 9.7.2 (villagesql/villagesql-server @ed91ea52), which agree; 8.1 to 9.6 \
                 were not read; the page cleaner as in 5.7.44",
        ..ROW
    },
    ROW,
    FreeList {
        since: &[5, 6],
        until: &[5, 7],
        legacy: OnEmpty::Searches(SEARCH_5_6),
        counters: super::counters::MYSQL_5_6,
        refillers: &[Refiller::Cleaner {
            period_ms: 1000,
            can_be_woken: false,
            only_if_active: true,
            keeps_half: false,
        }],
        sleep: SleepCall::Select,
        batch: BatchLimit::ChunksOfWrites(100),
        source: "MySQL 5.6.41, buf/buf0lru.cc and buf/buf0flu.cc",
        ..ROW
    },
];
