// SPDX-License-Identifier: Apache-2.0
//! The times that logs are written with, and what they tell of their time zone.

use time::{Date, Month};

/// Some twelve thousand years. No log is older, and sums of two such times fit.
const US_MOST: i64 = 400_000_000_000_000_000;

/// The time zone of a time in a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Zone {
    /// UTC, or a time that the server counts from 1970.
    #[default]
    Utc,
    /// So many seconds east of UTC. The moment is in UTC.
    Offset(i64),
    /// A name that does not tell the offset (`EST`, `CEST`). The moment is as the log shows it.
    Named(String),
    /// The moment is as the log shows it.
    NotTold,
}

impl Zone {
    /// `rest`: what follows the time of the day: ` UTC`, `Z`, `+01:00`, ` +0530|28490`.
    fn of(rest: &str) -> Self {
        const LONGEST_NAME: usize = 6;
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        let name = &rest[..rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len())];
        match name {
            "" => offset(rest)
                .map_or(Self::NotTold, |seconds| if seconds == 0 { Self::Utc } else { Self::Offset(seconds) }),
            "Z" | "UTC" | "GMT" => Self::Utc,
            name if name.len() <= LONGEST_NAME && name.bytes().all(|byte| byte.is_ascii_uppercase()) => {
                Self::Named(name.to_owned())
            }
            _ => Self::NotTold,
        }
    }

    fn east_us(&self) -> i64 {
        if let Self::Offset(seconds) = self { seconds * 1_000_000 } else { 0 }
    }
}

/// Seconds east of UTC: `+03`, `-0330`, `+05:30`.
fn offset(text: &str) -> Option<i64> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let digits = text.strip_prefix(['+', '-'])?;
    let digits = &digits[..digits.find(|c: char| !(c.is_ascii_alphanumeric() || c == ':')).unwrap_or(digits.len())];
    let number = |at: std::ops::Range<usize>| digits.get(at)?.parse::<i64>().ok();
    let minutes = match digits.len() {
        2 => 0,
        4 => number(2..4)?,
        5 if digits[2..].starts_with(':') => number(3..5)?,
        _ => return None,
    };
    let hours = number(0..2)?;
    (hours <= 15 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60)
}

/// A time with its day, as a log shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) at: Moment,
    /// Whether it has a fraction of the second.
    pub(crate) is_fine: bool,
    pub(crate) zone: Zone,
}

impl Told {
    /// `2026-11-21T22:43:55.123456Z`, `2026-11-21 22:43:55.123 UTC`; other text may follow.
    pub(crate) fn of_iso(text: &str) -> Option<Self> {
        let (date, time) = (text.get(..10)?, text.get(11..)?);
        let mut parts = date.split('-').map(str::parse::<i64>);
        let (year, month, day) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
        (date.as_bytes()[4] == b'-' && (0..=9999).contains(&year)).then_some(())?;
        let shown_us = days(year, month, day)? * 86_400_000_000 + of_day(time)?;
        let (clock, rest) = time.split_at(clock_length(time));
        let zone = Zone::of(rest);
        Some(Self { at: Moment::within(shown_us - zone.east_us())?, is_fine: clock.contains('.'), zone })
    }

    /// `1795902968.704`: seconds since the beginning of 1970.
    pub(crate) fn of_epoch(seconds: &str) -> Option<Self> {
        Some(Self { at: Moment::of_seconds(seconds)?, is_fine: seconds.contains('.'), zone: Zone::Utc })
    }
}

/// The length of the time of the day that a text begins with: `22:43:55.123`.
pub(crate) fn clock_length(text: &str) -> usize {
    text.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(text.len())
}

/// Microseconds since the beginning of 1970: in UTC, where the log tells the offset from it ([`Zone`]), otherwise by the log's own clock. A time without a day
/// counts as a time of that first day.
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

    /// As [`Told::of_iso`].
    pub(crate) fn of_iso(text: &str) -> Option<Self> {
        Told::of_iso(text).map(|told| told.at)
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
    let mut parts = text[..clock_length(text)].split(':');
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
    #[test]
    fn an_offset_that_the_log_tells_is_applied_and_a_name_is_not() {
        let told = |text: &str| Told::of_iso(text).map(|told| (told.at.us, told.zone)).expect("a time");
        let (utc, _) = told("2026-11-21 22:43:55 UTC");
        for zone in ["Z", " Z", " GMT", "+00:00", " UTC|28490"] {
            assert_eq!(told(&format!("2026-11-21 22:43:55{zone}")), (utc, Zone::Utc), "{zone}");
        }
        let hour = 3_600_000_000;
        for (zone, hours) in
            [(" +03", 3), ("+03:00", 3), (" +0300 [7]", 3), (" -02|28490|", -2), ("-02:00\t 7 Query", -2)]
        {
            let expected = (utc - hours * hour, Zone::Offset(hours * 3600));
            assert_eq!(told(&format!("2026-11-21 22:43:55{zone}")), expected, "{zone}");
        }
        assert_eq!(told("2026-11-21 22:43:55.5 +0530").1, Zone::Offset(19_800));
        assert_eq!(told("2026-11-21 22:43:55 CEST"), (utc, Zone::Named("CEST".to_owned())));
        for none in ["", " [123]", " 28490", "-6920e1d3.6f4a-", " me@shop", " -1234567"] {
            assert_eq!(told(&format!("2026-11-21 22:43:55{none}")), (utc, Zone::NotTold), "{none}");
        }
    }
}
