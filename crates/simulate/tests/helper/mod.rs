// SPDX-License-Identifier: Apache-2.0
//! Settings for tests: the defaults of the command line.
#![allow(dead_code)] // each program uses some of it

use capability::{Algorithm, Flavour, free_list};
use simulate::{Costs, Settings, Start};

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const S: u64 = 1_000_000_000;

pub(crate) fn of(flavour: Flavour, version: &str, algorithm: Algorithm) -> Settings {
    let server = free_list(flavour, &version.parse().expect("a version")).expect("a known version");
    Settings {
        server,
        algorithm,
        scan_depth: server.scan_depth,
        instance_pages: 8192,
        instances: 1,
        threads: 1,
        rate_per_second: None,
        time_ns: 2 * S,
        pause_ns: 0,
        repeat: 1,
        gap_ns: 200 * MS,
        reads_per_query: 1.0,
        pages_without_read: 0.0,
        service_ns: 28_700,
        read_ns: 0,
        write_ns: 100 * US,
        dirty: 0.0,
        active: false,
        burst: None,
        sleep_overhead_ns: 60 * US,
        loop_overhead_ns: 70 * US,
        initial_sleep_ms: 1000,
        initial_free: None,
        start: Start::default(),
        clock: None,
        seed: 1,
        costs: Costs::default(),
    }
}

/// The server of the article with its host's figures: 34,800 queries a second without stalls, and 1024 pages drained in 40 ms.
pub(crate) fn article() -> Settings {
    Settings { reads_per_query: 0.73, ..of(Flavour::Percona, "8.0.29", Algorithm::Backoff) }
}
