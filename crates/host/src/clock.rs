// SPDX-License-Identifier: Apache-2.0
//! The run's clock: monotonic, started once, read everywhere.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Microseconds since the start of the run. Copies share the start.
#[derive(Debug, Clone, Copy)]
pub struct RunClock {
    start: Instant,
}

impl RunClock {
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    pub fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub fn at(&self, instant: Instant) -> u64 {
        u64::try_from(instant.saturating_duration_since(self.start).as_micros()).unwrap_or(u64::MAX)
    }
}

/// Since boot, suspend included (clock_gettime(2), CLOCK_BOOTTIME): nobody can set it.
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

/// `2026-11-20T20:15:30Z` for seconds since 1970.
pub fn rfc3339(unix_seconds: u64) -> String {
    let (year, month, day) = civil_from_days(unix_seconds / 86_400);
    let second = unix_seconds % 86_400;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// The proleptic Gregorian date of a day count since 1970-01-01 (Howard Hinnant, "chrono-compatible low-level date
/// algorithms", civil_from_days, for days after the epoch).
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_795_205_730), "2026-11-20T20:15:30Z");
        assert_eq!(rfc3339_us(1_795_205_730_000_001), "2026-11-20T20:15:30.000001Z");
    }
}
