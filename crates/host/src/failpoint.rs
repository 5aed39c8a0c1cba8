// SPDX-License-Identifier: Apache-2.0
//! Crash points. Without the feature `failpoints` they are nothing.

/// `WRINGER_CRASH=<n>`: the process ends itself with SIGKILL at the n-th crash point that it reaches, counted from 1.
pub const CRASH_VARIABLE: &str = "WRINGER_CRASH";

/// A place at which a test may kill this process. `place` is for the reader of the code.
#[cfg(feature = "failpoints")]
pub fn failpoint(place: &str) {
    use std::sync::atomic::{AtomicU64, Ordering};
    static REACHED: AtomicU64 = AtomicU64::new(0);
    let wanted = std::env::var(CRASH_VARIABLE).ok().and_then(|text| text.parse::<u64>().ok());
    let reached = REACHED.fetch_add(1, Ordering::SeqCst) + 1;
    if wanted == Some(reached) {
        let _ =
            std::io::Write::write_all(&mut std::io::stderr(), format!("crash point {reached}: {place}\n").as_bytes());
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

#[cfg(not(feature = "failpoints"))]
pub fn failpoint(_place: &str) {}
