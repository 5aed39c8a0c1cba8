// SPDX-License-Identifier: Apache-2.0
//! The run's clock: monotonic, started once, read everywhere.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Microseconds since the start of the run. Copies share the start.
#[derive(Debug, Clone, Copy)]
pub struct RunClock {
    start: Instant,
    started_unix_us: u64,
}

/// The quickest of this many looks at both clocks is taken: a pause between the two clocks would place everything too early.
const LOOKS: u32 = 3;

impl RunClock {
    pub fn start() -> Self {
        let look = |_| {
            let start = Instant::now();
            let clock = Self { start, started_unix_us: unix_us() };
            (start.elapsed(), clock)
        };
        let quicker = |one: (Duration, Self), other: (Duration, Self)| if other.0 < one.0 { other } else { one };
        (1..LOOKS).map(look).fold(look(0), quicker).1
    }

    /// The zero of this clock, in microseconds since 1970, UTC: as the host's clock was set then.
    pub fn started_unix_us(&self) -> u64 {
        self.started_unix_us
    }

    pub fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub fn at(&self, instant: Instant) -> u64 {
        u64::try_from(instant.saturating_duration_since(self.start).as_micros()).unwrap_or(u64::MAX)
    }
}

/// The processor time of the calling thread, user and system (clock_gettime(2), CLOCK_THREAD_CPUTIME_ID).
pub fn thread_cpu_time() -> Duration {
    Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// The time since boot, without the time that the machine slept (clock_gettime(2), CLOCK_MONOTONIC), as the kernel's log counts.
pub fn monotonic_time() -> Duration {
    Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::Monotonic)).unwrap_or_default()
}

/// The time since boot, suspend included (clock_gettime(2), CLOCK_BOOTTIME): nobody can set it.
pub fn boot_time() -> Duration {
    Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::Boottime)).unwrap_or_default()
}

/// Seconds since 1970, UTC.
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// Microseconds since 1970, UTC: as this host's clock is set now.
pub fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// `2026-11-20T20:15:30.000001Z` for microseconds since 1970.
pub fn rfc3339_us(unix_us: u64) -> String {
    let whole = rfc3339(unix_us / 1_000_000);
    format!("{}.{:06}Z", whole.trim_end_matches('Z'), unix_us % 1_000_000)
}

/// `2026-11-20T20:15:30Z` for seconds since 1970; `@` and the number for a time after the year 9999.
pub fn rfc3339(unix_seconds: u64) -> String {
    let moment = i64::try_from(unix_seconds).ok().and_then(|it| OffsetDateTime::from_unix_timestamp(it).ok());
    moment.and_then(|it| it.format(&Rfc3339).ok()).unwrap_or_else(|| format!("@{unix_seconds}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zero_of_a_run_is_a_moment_of_both_clocks() {
        let before = unix_us();
        let clock = RunClock::start();
        let (now_us, after) = (clock.now_us(), unix_us());
        assert!((before..=after).contains(&clock.started_unix_us()), "{before} {clock:?} {after}");
        assert!(now_us <= after - before);
    }

    #[test]
    fn dates() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_795_205_730), "2026-11-20T20:15:30Z");
        assert_eq!(
            (rfc3339(253_402_300_799), rfc3339(u64::MAX)),
            ("9999-12-31T23:59:59Z".into(), format!("@{}", u64::MAX))
        );
        assert_eq!(rfc3339_us(1_795_205_730_000_001), "2026-11-20T20:15:30.000001Z");
    }
}
