// SPDX-License-Identifier: Apache-2.0
use crate::{ParseError, scale, split_number};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const UNITS: &str = "ns us ms s m h";

/// A length of time. Written `50us`, `10ms`, `1.5s`, `2m`, `1h`; `0` needs no unit. Printed in the largest unit that keeps
/// the value at or above one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(pub Duration);

impl Span {
    pub const ZERO: Span = Span(Duration::ZERO);

    pub const fn micros(us: u64) -> Self {
        Self(Duration::from_micros(us))
    }

    pub const fn millis(ms: u64) -> Self {
        Self(Duration::from_millis(ms))
    }

    pub const fn secs(s: u64) -> Self {
        Self(Duration::from_secs(s))
    }

    pub fn is_zero(self) -> bool {
        self.0.is_zero()
    }

    /// Whole microseconds; half a millennium fits.
    pub fn as_us(self) -> u64 {
        u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX)
    }

    pub fn as_ns(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Reads a time as sysbench reads its flags: a bare number means seconds.
    ///
    /// # Errors
    /// [`ParseError`] when the text is neither a number nor a number with a unit.
    pub fn parse_seconds(text: &str) -> Result<Self, ParseError> {
        let (number, unit) = split_number(text);
        if unit.is_empty() && !number.is_empty() { format!("{number}s").parse() } else { text.parse() }
    }
}

impl FromStr for Span {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let is_negative =
            text.trim().strip_prefix('-').is_some_and(|rest| rest.starts_with(|it: char| it.is_ascii_digit()));
        let refused = || if is_negative { ParseError::Negative } else { ParseError::Span }(text.to_owned());
        let (number, unit) = split_number(text);
        let value: f64 = number.parse().map_err(|_| refused())?;
        let factor = match unit {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "" if value == 0.0 => 1,
            "" => return Err(ParseError::NoUnit(text.to_owned(), UNITS)),
            _ => return Err(refused()),
        };
        scale(number, factor)
            .map(|ns| Span(Duration::from_nanos(ns)))
            .ok_or_else(|| ParseError::TooLarge(text.to_owned()))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.as_nanos();
        if ns == 0 {
            return f.pad("0");
        }
        let units: [(u128, &str); 5] =
            [(3_600_000_000_000, "h"), (60_000_000_000, "m"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
        for (factor, name) in units {
            // minutes and hours only for whole numbers of them: "90 s" reads better than "1.50 m"
            let long = factor > 1_000_000_000;
            if ns >= factor && (!long || ns.is_multiple_of(factor)) {
                let text = if ns.is_multiple_of(factor) {
                    format!("{} {name}", ns / factor)
                } else {
                    format!("{:.*} {name}", decimals(ns as f64 / factor as f64), ns as f64 / factor as f64)
                };
                return f.pad(&text);
            }
        }
        f.pad(&format!("{ns} ns"))
    }
}

/// The value with three significant digits.
fn decimals(value: f64) -> usize {
    match value {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_string())
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Span;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as \"10ms\" or \"2m\"")
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Span, E> {
                if value == 0 { Ok(Span::ZERO) } else { Err(E::custom(ParseError::NoUnit(value.to_string(), UNITS))) }
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Span, E> {
                self.visit_i64(i64::try_from(value).unwrap_or(i64::MAX))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_forms() {
        for (text, us) in [("50us", 50), ("0.5ms", 500), ("10ms", 10_000), ("2m", 120_000_000), ("0", 0)] {
            assert_eq!(text.parse::<Span>(), Ok(Span::micros(us)), "{text}");
        }
        assert_eq!("250ns".parse::<Span>().unwrap().as_ns(), 250);
    }

    #[test]
    fn a_bare_number_is_refused_except_at_sysbench_flags() {
        assert_eq!("10".parse::<Span>(), Err(ParseError::NoUnit("10".into(), UNITS)));
        assert_eq!(Span::parse_seconds("10"), Ok(Span::secs(10)));
        assert_eq!(Span::parse_seconds("10ms"), Ok(Span::millis(10)));
    }

    #[test]
    fn printed_with_three_digits() {
        for (us, text) in [(50, "50 us"), (10_160, "10.2 ms"), (1_000_000, "1 s"), (90_000_000, "90 s"), (0, "0")] {
            assert_eq!(Span::micros(us).to_string(), text);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "ms", "-5ms", "5 parsecs"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
