// SPDX-License-Identifier: Apache-2.0
//! Percona Server: two algorithms, and LRU managers until 8.3.

use super::mysql::{SEARCH, SEARCH_5_6};
use super::{
    Adapt, Algorithm, BatchLimit, Clock, Evidence, FreeList, OnEmpty, Progress, Refiller, Search, SleepCall, Target,
};
use crate::Flavour;

/// V2: since percona/percona-server pull requests 1219 and 1220, March 2017.
const BY_ONE: Adapt = Adapt {
    step_up_ms: 1,
    step_down_ms: 50,
    longest_ms: 1000,
    target: Target::DepthOrLength,
    progress: Progress::FlushedAndEvicted,
    clock: Clock::IntegerMs,
};

/// V1 of XtraDB 5.6.35: since percona/percona-server pull request 245, end of 2015.
pub(super) const BY_FIFTY: Adapt =
    Adapt { step_up_ms: 50, target: Target::Depth, progress: Progress::Flushed, ..BY_ONE };

/// V2 of XtraDB 5.6.36.
pub(super) const BY_ONE_5_6: Adapt = BY_ONE;

const BACKOFF_FIRST: &[Algorithm] = &[Algorithm::Backoff, Algorithm::Legacy];
const LEGACY_FIRST: &[Algorithm] = &[Algorithm::Legacy, Algorithm::Backoff];

/// The same as MySQL's of the same release series, but a query waits for a running batch in all of them.
const LEGACY: OnEmpty = OnEmpty::Searches(Search { waits_for_batch: true, ..SEARCH });

const ROW: FreeList = FreeList {
    flavour: Flavour::Percona,
    since: &[5, 7, 18],
    until: &[5, 8],
    algorithms: BACKOFF_FIRST,
    backoff_wakes: false,
    legacy: LEGACY,
    refillers: &[Refiller::Manager { per_instance: true, adapt: BY_ONE }],
    sleep: SleepCall::Timed,
    batch: BatchLimit::Pages,
    scan_depth: 1024,
    least_in_use: 256,
    instances_max: 64,
    counters: super::counters::PERCONA,
    evidence: Evidence::Assumed,
    source: "buf/buf0flu.cc of late 5.7 (percona/percona-server @9868c895) and buf0lru.cc of a 5.7 branch; the change of the step by pull requests 1219 and \
             1220 of March 2017, and that 5.7.18 is the first release with it is assumed",
};

const CLEANER: Refiller =
    Refiller::Cleaner { period_ms: 1000, can_be_woken: true, only_if_active: true, keeps_half: false };

pub(super) const ROWS: &[FreeList] = &[
    FreeList {
        since: &[9, 7, 2],
        until: &[9, 8],
        algorithms: LEGACY_FIRST,
        backoff_wakes: true,
        legacy: OnEmpty::Searches(SEARCH),
        refillers: &[Refiller::Cleaner {
            period_ms: 1000,
            can_be_woken: true,
            only_if_active: false,
            keeps_half: false,
        }],
        evidence: Evidence::Assumed,
        source: "PS-11445: percona/percona-server pull request 6099 and a work branch (@0334a575), no release; innodb_lru_threads is OFF, its default; that a \
                 page cleaner which a query wakes works without other activity, and that 9.7.2 is the first release, is assumed",
        ..ROW
    },
    FreeList {
        since: &[8, 3],
        until: &[8, 4, 9],
        algorithms: LEGACY_FIRST,
        refillers: &[CLEANER],
        evidence: Evidence::Assumed,
        source: "percona/percona-server @007c0c3a (2024), buf/buf0lru.cc and buf0flu.cc: LRU managers removed by PS-9071 in 8.3.0; PS-11445 (July 2026) brought \
                 them back, and that no release before 8.4.9 has it is assumed",
        ..ROW
    },
    FreeList {
        since: &[8, 0, 32],
        until: &[8, 1],
        algorithms: LEGACY_FIRST,
        refillers: &[Refiller::Manager { per_instance: true, adapt: Adapt { clock: Clock::TruncatedMs, ..BY_ONE } }],
        evidence: Evidence::Read,
        source: "GreatSQL @02122d85 and @8756f328 (Percona Server 8.0.32-26), buf/buf0flu.cc and buf0lru.cc",
        ..ROW
    },
    FreeList {
        since: &[8, 0, 29],
        until: &[8, 0, 32],
        algorithms: LEGACY_FIRST,
        refillers: &[Refiller::Manager { per_instance: true, adapt: Adapt { clock: Clock::TruncatedMs, ..BY_ONE } }],
        evidence: Evidence::Between,
        source: "early 8.0 (venkatesh-prasad-v @127377c1, percona-ysorokin @00fcea2d) and 8.0.32-26, buf/buf0flu.cc; release 8.0.29-21 sleeps by the C++ library \
                 (std::this_thread::sleep_for in buf0lru.cc), as 8.0.32 does, so that it is taken to have the clock of 8.0.32",
        ..ROW
    },
    FreeList {
        since: &[8, 0],
        until: &[8, 0, 29],
        algorithms: LEGACY_FIRST,
        evidence: Evidence::Between,
        source: "early 8.0 (venkatesh-prasad-v @127377c1, percona-ysorokin @00fcea2d) and 8.0.32-26, buf/buf0flu.cc; where between them the clock changes is not \
                 known; default legacy by the manual since December 2019 (PS-6116), some releases before had backoff (PS-5881)",
        ..ROW
    },
    ROW,
    FreeList {
        since: &[5, 7, 10],
        until: &[5, 7, 18],
        refillers: &[Refiller::Manager {
            per_instance: true,
            adapt: Adapt { step_up_ms: 50, target: Target::Depth, ..BY_ONE },
        }],
        evidence: Evidence::Assumed,
        source: "earlier 5.7 (robgolebiowski @0cfd59f1), buf/buf0flu.cc; LRU managers by pull request 349 of February 2016; steps of 50 ms until the pull \
                 requests of March 2017 is assumed for all of them",
        ..ROW
    },
    FreeList {
        since: &[5, 6, 36],
        until: &[5, 7],
        legacy: OnEmpty::Searches(SEARCH_5_6),
        counters: super::counters::PERCONA_5_6,
        refillers: &[Refiller::Manager { per_instance: false, adapt: BY_ONE_5_6 }],
        sleep: SleepCall::Select,
        batch: BatchLimit::ChunksOfWrites(100),
        evidence: Evidence::Read,
        source: "XtraDB 5.6.36-82.0 (storage/xtradb of MariaDB 10.1.25); buf/buf0lru.cc of percona/percona-server @f9015dbb; the page cleaner by a Percona XtraDB \
                 Cluster 5.6 (@357e5436)",
        ..ROW
    },
    FreeList {
        since: &[5, 6, 35],
        until: &[5, 6, 36],
        legacy: OnEmpty::Searches(SEARCH_5_6),
        counters: super::counters::PERCONA_5_6,
        refillers: &[Refiller::Manager { per_instance: false, adapt: BY_FIFTY }],
        sleep: SleepCall::Select,
        batch: BatchLimit::ChunksOfWrites(100),
        evidence: Evidence::Read,
        source: "XtraDB 5.6.35-80.0, the program of MariaDB 10.1.23 read as machine code; that Percona Server's own has no second refiller is by a Percona XtraDB \
                 Cluster 5.6 (@357e5436)",
        ..ROW
    },
];
