// SPDX-License-Identifier: Apache-2.0
//! Crash points, points at which a process stops itself, and a shorter wait. Without the feature `failpoints` they do nothing.

use std::time::Duration;

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

/// `WRINGER_PAUSE=<place>`: the process stops itself with SIGSTOP when it first reaches this [`pause_point`].
pub const PAUSE_VARIABLE: &str = "WRINGER_PAUSE";

/// A place at which a test may stop this process, so that it can change something else before this process goes on (SIGCONT).
#[cfg(feature = "failpoints")]
pub fn pause_point(place: &str) {
    use std::sync::atomic::{AtomicBool, Ordering};
    static PAUSED: AtomicBool = AtomicBool::new(false);
    let is_wanted = std::env::var(PAUSE_VARIABLE).is_ok_and(|wanted| wanted == place);
    if is_wanted && !PAUSED.swap(true, Ordering::SeqCst) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
    }
}

#[cfg(not(feature = "failpoints"))]
pub fn pause_point(_place: &str) {}

/// `WRINGER_BUSY_TIMEOUT=<milliseconds>`: how long to wait until others stop using what is to be removed.
pub const BUSY_VARIABLE: &str = "WRINGER_BUSY_TIMEOUT";

/// The wait that a test wants.
#[cfg(feature = "failpoints")]
pub(crate) fn busy_timeout() -> Option<Duration> {
    std::env::var(BUSY_VARIABLE).ok()?.parse().ok().map(Duration::from_millis)
}

#[cfg(not(feature = "failpoints"))]
pub(crate) fn busy_timeout() -> Option<Duration> {
    None
}

/// The function that a test calls at each [`moment`].
#[cfg(feature = "failpoints")]
type Intruder = std::sync::Arc<dyn Fn(&str) + Send + Sync>;

#[cfg(feature = "failpoints")]
static INTRUDER: std::sync::Mutex<Option<Intruder>> = std::sync::Mutex::new(None);

/// A moment at which somebody else may change what was just read. A test can make the change at this moment, in its own process, so that the race
/// happens in every run.
#[cfg(feature = "failpoints")]
pub(crate) fn moment(name: &str) {
    let intruder = INTRUDER.lock().ok().and_then(|intruder| intruder.clone());
    if let Some(intruder) = intruder {
        intruder(name);
    }
}

#[cfg(not(feature = "failpoints"))]
pub(crate) fn moment(_name: &str) {}

/// From now on this process calls `act` at each moment, with its name. Only for tests: the build needs the feature `failpoints`.
#[cfg(feature = "failpoints")]
pub fn at_each_moment(act: impl Fn(&str) + Send + Sync + 'static) {
    if let Ok(mut intruder) = INTRUDER.lock() {
        *intruder = Some(std::sync::Arc::new(act));
    }
}
