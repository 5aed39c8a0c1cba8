// SPDX-License-Identifier: Apache-2.0
//! `CLOCK_MONOTONIC` as one number, because the futex takes its deadline on that clock.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds on `CLOCK_MONOTONIC`. The kernel never lets that clock be negative.
pub(crate) type MonotonicNs = u64;

const SECOND: u64 = 1_000_000_000;

pub(crate) fn now() -> MonotonicNs {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * SECOND + u64::try_from(time.tv_nsec).unwrap_or(0)
}

pub(crate) fn timespec(moment: MonotonicNs) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(moment / SECOND).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(moment % SECOND).unwrap_or(0),
    }
}
