// SPDX-License-Identifier: Apache-2.0
//! Waits until the host is quiet, for a limited time.

use explain::busy::{self, Busy};
use host::places::Places;
use observe::busy::Look;
use observe::server::witnesses;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long one look is. In a shorter look, single requests would decide the pressure counters.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Waited {
    pub(crate) us: u64,
    /// What the host is still busy with; empty: it is quiet.
    pub(crate) busy: Vec<String>,
}

/// Looks at the host for a second at a time, until one second was quiet, and for `longest` at most. With zero it does not wait.
pub(crate) fn wait(places: &Places, longest: Duration, stop: &AtomicBool, tell: &mut dyn FnMut(&[String])) -> Waited {
    if longest.is_zero() {
        return Waited::default();
    }
    let began = Instant::now();
    let look = Look::on_behalf_of(std::process::id(), Some(&places.sandboxes));
    let mut before = look.counters();
    loop {
        sleep(LOOK.min(longest));
        let now = look.counters();
        let causes = causes(Busy::from_counters(&witnesses(busy::HOST, &before, &now)).as_ref());
        before = now;
        let elapsed = began.elapsed();
        if causes.is_empty() || elapsed >= longest || stop.load(Ordering::SeqCst) {
            return Waited { us: u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX), busy: causes };
        }
        tell(&causes);
    }
}

/// What the host is busy with, in words. No cell of this sweep runs now: if programs wait for the disk, these are other programs, or the kernel still
/// writes data of the cell before. Where the kernel has no such counters the host counts as quiet: waiting for it would never end.
fn causes(busy: Option<&Busy>) -> Vec<String> {
    let Some(busy) = busy else { return Vec::new() };
    let mut told: Vec<String> = busy.causes(false).into_iter().map(|cause| cause.words(busy)).collect();
    let waits = busy.waits().filter(|(_, ratio)| *ratio > busy::WAITING_RATIO);
    told.extend(waits.map(|(what, ratio)| format!("programs waited for {what} {:.0} % of the time", ratio * 100.0)));
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_that_disturbs_is_told() {
        let quiet = Busy { cpu_waiting_ratio: Some(0.01), ..Busy::default() };
        assert!(causes(Some(&quiet)).is_empty() && causes(None).is_empty());
        for (busy, words) in [
            (Busy { others_ratio: 0.5, ..quiet }, "other programs used 50"),
            (Busy { stolen_ratio: 0.08, ..quiet }, "hypervisor"),
            (Busy { io_waiting_ratio: Some(0.4), ..quiet }, "waited for the disk 40 %"),
            (Busy { cpu_waiting_ratio: Some(0.2), ..quiet }, "waited for a CPU 20 %"),
        ] {
            let told = causes(Some(&busy));
            assert!(told.len() == 1 && told[0].contains(words), "{told:?}");
        }
    }

    #[test]
    fn it_waits_no_longer_than_it_was_told() {
        let home = tempfile::tempdir().expect("a folder");
        let places = Places::below(home.path());
        let stop = AtomicBool::new(false);
        let waited = wait(&places, Duration::ZERO, &stop, &mut |_| ());
        assert_eq!(waited, Waited::default());
        let waited = wait(&places, Duration::from_millis(50), &stop, &mut |_| ());
        assert!(waited.us >= 50_000, "{waited:?}");
        stop.store(true, Ordering::SeqCst);
        let waited = wait(&places, Duration::from_secs(3600), &stop, &mut |_| ());
        assert!(waited.us < 1_000_000_000, "{waited:?}");
    }
}
