// SPDX-License-Identifier: Apache-2.0
//! What tests share: skips that are counted, the program in a home of its own, and a look at the host from outside.
#![allow(clippy::disallowed_methods)] // test code makes its own folders and starts the program

mod counting;
mod experiment;
mod generated;
mod lab;
mod loop_device;
pub mod naive;
mod snapshot;

pub use counting::{Counting, allocations, most_bytes};
pub use experiment::small_experiment;
pub use generated::Generated;
pub use lab::{
    Alone, Lab, Ran, alone, begin_cache, copy_program, is_root, one_at_a_time, own_uid, shared_cache, wait_until,
    waiting_program,
};
pub use loop_device::{LoopDevice, ReadAhead};
pub use snapshot::Snapshot;

/// Ends the test here, and prints `SKIPPED <module>:<line>: why`. `make test` counts these lines, and fails if the reason of one is not in
/// `tests/skips-allowed.txt`.
#[macro_export]
macro_rules! skip {
    ($($why:tt)*) => {{
        $crate::announce_skip(concat!(module_path!(), ":", line!()), &format!($($why)*));
        return;
    }};
}

/// Whether a campaign takes every case, and not a sample of them: `WRINGER_FAULTS=full`.
pub fn takes_every_case() -> bool {
    std::env::var("WRINGER_FAULTS").is_ok_and(|word| word == "full")
}

/// The seed by which a campaign draws its cases: `WRINGER_FAULTS_SEED`, by default 1, so that a case that failed comes again. It is printed.
#[allow(clippy::print_stdout)] // the harness shows it when the test fails
pub fn campaign_seed() -> u64 {
    let seed = std::env::var("WRINGER_FAULTS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("WRINGER_FAULTS_SEED={seed}");
    seed
}

/// Prints the number of cases of a campaign that a test has run; `xtask` adds these numbers up.
pub fn announce_cases(test: &str, cases: usize) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr().lock(), "CASES {test}: {cases}");
    if let Some(path) = std::env::var_os("WRINGER_CASES")
        && let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path)
    {
        // one write, because other tests append to the file at the same time
        let _ = file.write_all(format!("{test}\t{cases}\n").as_bytes());
    }
}

/// The line is written past the test harness's capture, so that it is seen even if the test passes.
pub fn announce_skip(place: &str, why: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr().lock(), "SKIPPED {place}: {why}");
    if let Some(path) = std::env::var_os("WRINGER_SKIPS")
        && let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path)
    {
        let _ = file.write_all(format!("{place}\t{why}\n").as_bytes());
    }
}
