// SPDX-License-Identifier: Apache-2.0
//! A moment of a recording, as a user writes it.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use units::Span;

const DAY_US: u64 = 86_400_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// The time of the first inventory.
    First,
    Last,
    /// The time after the recording's start.
    After(Duration),
    /// A clock time, counted from 1970.
    Clock {
        unix_us: u64,
    },
    /// A time of day in UTC, counted from midnight: it means the first such time after the recording's start.
    Daytime {
        us: u64,
    },
}

/// Times are printed in these units (after the start, from 100 s on, in seconds), and a time that is written in them means the whole of it.
const TENTH_US: u64 = 100_000;
const SECOND_US: u64 = 1_000_000;

impl Moment {
    /// The first and the last microsecond after the recording's start that the moment means. `None`: the moment is before the start. Also `None` for
    /// [`Self::First`] and [`Self::Last`], which only the recording knows.
    pub(super) fn after(self, started_unix_us: u64) -> Option<RangeInclusive<u64>> {
        match self {
            Self::First | Self::Last => None,
            Self::After(time) => {
                let us = u64::try_from(time.as_micros()).ok()?;
                Some(us..=end(us, if us < 100 * SECOND_US { TENTH_US } else { SECOND_US }))
            }
            Self::Clock { unix_us } => since(started_unix_us, unix_us, SECOND_US),
            Self::Daytime { us } => {
                let started = started_unix_us % DAY_US;
                since(started, us, SECOND_US).or_else(|| since(started, us + DAY_US, SECOND_US))
            }
        }
    }
}

/// The last microsecond of this unit, if the time is a whole number of units.
fn end(us: u64, unit: u64) -> u64 {
    if us.is_multiple_of(unit) { us.saturating_add(unit - 1) } else { us }
}

fn since(started: u64, us: u64, unit: u64) -> Option<RangeInclusive<u64>> {
    Some(us.saturating_sub(started)..=end(us, unit).checked_sub(started)?)
}

/// The accepted forms, as the error message lists them.
const FORMS: &str = "write the time after the start (90, 5m, 1h), a clock time in UTC (14:05, 14:05:30, 2026-11-20T14:05:30Z), first or last";

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = match text {
            "first" => Some(Self::First),
            "last" => Some(Self::Last),
            text if text.contains('T') => unix_us(text).map(|unix_us| Self::Clock { unix_us }),
            text if text.contains(':') => daytime_us(text).map(|us| Self::Daytime { us }),
            text => Span::parse_seconds(text).ok().map(|span| Self::After(span.0)),
        };
        found.ok_or_else(|| FORMS.to_owned())
    }
}

/// Microseconds since 1970 of an RFC 3339 time.
pub(super) fn unix_us(text: &str) -> Option<u64> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    u64::try_from(time.unix_timestamp_nanos() / 1000).ok()
}

/// `14:05`, `14:05:30` or `14:05:30Z`, in microseconds since midnight.
fn daytime_us(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let parts: Vec<u64> = text.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let (hours, minutes, seconds) = match parts[..] {
        [hours, minutes] => (hours, minutes, 0),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    let is_time = hours < 24 && minutes < 60 && seconds < 60;
    is_time.then_some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-20T20:15:30Z, in microseconds since 1970.
    const STARTED: u64 = 1_795_205_730_000_000;

    #[test]
    fn times_after_the_start_and_by_the_clock() {
        let after = |text: &str| text.parse::<Moment>().map(|moment| moment.after(STARTED));
        let whole = |seconds: u64, unit: u64| Ok(Some(seconds * SECOND_US..=seconds * SECOND_US + unit - 1));
        for (text, seconds, unit) in [("0", 0, TENTH_US), ("90", 90, TENTH_US), ("5m", 300, SECOND_US)] {
            assert_eq!(after(text), whole(seconds, unit), "{text}");
        }
        for (text, seconds) in [("20:16", 30), ("20:15:30", 0), ("20:15:30Z", 0), ("20:15:29", 86_399)] {
            assert_eq!(after(text), whole(seconds, SECOND_US), "{text}");
        }
        let one = |us: u64| Ok(Some(us..=us));
        assert_eq!((after("1234567us"), after("2026-11-20T20:15:31.5Z")), (one(1_234_567), one(1_500_000)));
        assert_eq!(after("2026-11-20T21:15:31+01:00"), whole(1, SECOND_US));
        assert_eq!(after("2026-11-20T20:15:29Z"), Ok(None), "before the start");
        // it began within the second that is printed
        let began = |text: &str| text.parse::<Moment>().map(|moment| moment.after(STARTED + 400_000));
        assert_eq!((began("20:15:30"), began("2026-11-20T20:15:30Z")), (Ok(Some(0..=599_999)), Ok(Some(0..=599_999))));
        assert_eq!(("first".parse(), "last".parse()), (Ok(Moment::First), Ok(Moment::Last)));
        for wrong in ["", "soon", "-5", "25:00", "12:60", "1:2:3:4", "12:", "2026-11-20T25:00:00Z"] {
            assert_eq!(after(wrong), Err(FORMS.to_owned()), "{wrong}");
        }
    }
}
