// SPDX-License-Identifier: Apache-2.0
use serde::{Deserialize, Serialize};
use std::ops::{AddAssign, Sub};
use std::time::Duration;

/// Processor time of the calling thread: the cost of a probe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    pub user: Duration,
    pub system: Duration,
}

impl Cpu {
    /// getrusage(2), `RUSAGE_THREAD`.
    pub(crate) fn of_this_thread() -> Self {
        // SAFETY: the kernel fills a plain struct, for which zeros are valid.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
            usage
        };
        Self { user: duration(usage.ru_utime), system: duration(usage.ru_stime) }
    }
}

fn duration(time: libc::timeval) -> Duration {
    let (seconds, micros) = (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_usec).unwrap_or(0));
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

impl Sub for Cpu {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { user: self.user.saturating_sub(before.user), system: self.system.saturating_sub(before.system) }
    }
}

impl AddAssign for Cpu {
    fn add_assign(&mut self, other: Self) {
        self.user += other.user;
        self.system += other.system;
    }
}
