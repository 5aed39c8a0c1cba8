// SPDX-License-Identifier: Apache-2.0
//! Waits for a moment, unless the end is asked for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time between two checks whether the end is asked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Whether everything must end: a signal came, or the server has ended.
#[derive(Debug, Default)]
pub(crate) struct Stop(AtomicBool);

impl Stop {
    pub(crate) fn ask(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::SeqCst) || host::interrupt::requested()
    }

    /// Waits until that moment. `true`: it returned earlier, because everything must end.
    pub(crate) fn or_at(&self, moment: Instant) -> bool {
        loop {
            if self.is_asked() {
                return true;
            }
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }
}

pub(crate) fn us(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
