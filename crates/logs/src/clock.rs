// SPDX-License-Identifier: Apache-2.0
//! The times that logs are written with. Only differences count, so time zones are ignored.

use time::{Date, Month};

/// Some twelve thousand years. No log is older, and sums of two such times fit.
const US_MOST: i64 = 400_000_000_000_000_000;

/// Microseconds since the beginning of 1970 by the log's own clock; a time without a day counts as a time of that first day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    pub us: i64,
}

impl Moment {
    pub(crate) fn minus_us(self, us: i64) -> Self {
        Self { us: self.us - us }
    }

    pub(crate) fn of_seconds(seconds: &str) -> Option<Self> {
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
        let us = whole.parse::<i64>().ok()?.checked_mul(1_000_000)?.checked_add(micros(fraction)?)?;
        Self::within(us)
    }

    /// `None`: no log has such a time.
    fn within(us: i64) -> Option<Self> {
        (-US_MOST..=US_MOST).contains(&us).then_some(Self { us })
    }

    /// `2026-11-21T22:43:55.123456Z`, `2026-11-21 22:43:55.123 UTC`.
    pub(crate) fn of_iso(text: &str) -> Option<Self> {
        let (date, time) = (text.get(..10)?, text.get(11..)?);
        let mut parts = date.split('-').map(str::parse::<i64>);
        let (year, month, day) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
        (date.as_bytes()[4] == b'-' && (0..=9999).contains(&year)).then_some(())?;
        Self::within(days(year, month, day)? * 86_400_000_000 + of_day(time)?)
    }

    /// A time without a day: `22:43:55.123456Z`.
    pub(crate) fn of_day(text: &str) -> Option<Self> {
        text.starts_with(|letter: char| letter.is_ascii_digit()).then(|| of_day(text))?.and_then(Self::within)
    }

    /// MariaDB's: `261121 22:43:55`, `261121  2:43:55`.
    pub(crate) fn of_mariadb(text: &str) -> Option<Self> {
        let (date, time) = text.trim().split_once(' ')?;
        if date.len() != 6 {
            return None;
        }
        let number = |at: usize| date.get(at..at + 2)?.parse::<i64>().ok();
        let day = days(2000 + number(0)?, number(2)?, number(4)?)?;
        Self::within(day * 86_400_000_000 + of_day(time.trim())?)
    }
}

/// `22:43:55`, with a fraction or not; the text after it is ignored.
fn of_day(text: &str) -> Option<i64> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(text.len());
    let mut parts = text[..end].split(':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    let (second, fraction) = second.split_once('.').unwrap_or((second, ""));
    let number = |text: &str| text.parse::<i64>().ok().filter(|number| (0..100).contains(number));
    Some(((number(hour)? * 60 + number(minute)?) * 60 + number(second)?) * 1_000_000 + micros(fraction)?)
}

fn micros(fraction: &str) -> Option<i64> {
    let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
    digits.parse().ok()
}

/// The Julian day of 1970-01-01.
const FIRST_DAY: i64 = 2_440_588;

/// Days since the beginning of 1970. `None`: no such day.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    let date = Date::from_calendar_date(i32::try_from(year).ok()?, month, u8::try_from(day).ok()?).ok()?;
    Some(i64::from(date.to_julian_day()) - FIRST_DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_moment_in_several_spellings() {
        let expected = Moment::of_iso("2026-11-21T22:43:55.000000Z");
        assert!(expected.is_some());
        assert_eq!(Moment::of_iso("2026-11-21 22:43:55 UTC"), expected);
        assert_eq!(Moment::of_mariadb("261121 22:43:55"), expected);
        let us = |text| Moment::of_iso(text).expect("a moment").us;
        assert_eq!(us("2026-03-01 00:00:00.5 CET") - us("2026-02-28 23:59:59.25 CET"), 1_250_000);
        assert_eq!(us("2024-03-01 00:00:00") - us("2024-02-28 00:00:00"), 2 * 86_400_000_000);
        assert_eq!(us("2027-01-01 00:00:00") - us("2026-12-31 23:00:00"), 3_600_000_000);
        assert_eq!(
            Moment::of_mariadb("261121  2:43:55").map(|it| it.us + 20 * 3_600_000_000),
            expected.map(|it| it.us)
        );
        assert_eq!(Moment::of_iso("1970-01-02T00:00:01Z").map(|it| it.us), Some(86_401_000_000));
        assert_eq!(Moment::of_day("01:00:00.5Z").map(|it| it.us), Some(3_600_500_000));
        assert_eq!(Moment::of_seconds("5.25").map(|it| it.us), Some(5_250_000));
        for bad in ["", "2026-11-21", "soon 22:43:55", "2026-1x-21 22:43:55", "2026-02-29 22:43:55"] {
            assert!(Moment::of_iso(bad).is_none() && Moment::of_mariadb(bad).is_none(), "{bad}");
        }
    }
}
