// SPDX-License-Identifier: Apache-2.0
//! CPU time of the calling thread.

use std::mem::MaybeUninit;
use std::ops::Sub;

/// From `getrusage(RUSAGE_THREAD)`: the sum is exact, the split between user and system is the kernel's estimate by ticks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) user_us: u64,
    pub(crate) system_us: u64,
}

impl Usage {
    pub(crate) fn of_this_thread() -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a whole rusage, which the kernel fills. If the call fails, all zeroes is a valid rusage.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
            usage.assume_init()
        };
        Self { user_us: micros(usage.ru_utime), system_us: micros(usage.ru_stime) }
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            user_us: self.user_us.saturating_sub(earlier.user_us),
            system_us: self.system_us.saturating_sub(earlier.system_us),
        }
    }
}

fn micros(time: libc::timeval) -> u64 {
    u64::try_from(time.tv_sec * 1_000_000 + time.tv_usec).unwrap_or(0)
}
