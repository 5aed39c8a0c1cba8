// SPDX-License-Identifier: Apache-2.0
//! Waiting for a moment, unless somebody asks for the end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a wish to end may go unnoticed.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Whether all is to end: a signal came, or the server has ended.
#[derive(Debug, Default)]
pub(crate) struct Stop(AtomicBool);

impl Stop {
    pub(crate) fn ask(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::SeqCst) || host::interrupt::requested()
    }

    /// Returns at that moment; true, and earlier, when all is to end.
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
