// SPDX-License-Identifier: Apache-2.0
//! `--sweep KEY=FROM..TO/STEP`: the same simulation for each value of one flag.

use super::flags::Flags;
use std::str::FromStr;
use units::{Bytes, Span};

/// The most simulations of one command: a larger number is taken for a mistake.
pub(super) const VALUES_MAX: usize = 10_000;

/// One flag and its values, in the smallest unit of the flag.
#[derive(Debug, Clone)]
pub(super) struct Sweep {
    key: &'static Key,
    values: Vec<f64>,
}

#[derive(Debug)]
struct Key {
    name: &'static str,
    unit: Unit,
    set: fn(&mut Flags, f64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Unit {
    Whole,
    Number,
    Size,
    Time,
    /// A time; a bare number means seconds.
    Seconds,
}

#[allow(clippy::cast_possible_truncation)] // within the type's range, by the check in `parse`
const KEYS: &[Key] = &[
    key("lru-scan-depth", Unit::Whole, |it, value| it.lru_scan_depth = Some(value as u32)),
    key("pool", Unit::Size, |it, value| it.pool = Bytes(value as u64)),
    key("instances", Unit::Whole, |it, value| it.instances = value as u32),
    key("threads", Unit::Whole, |it, value| it.threads = value as u32),
    key("rate", Unit::Number, |it, value| it.rate = Some(value)),
    key("time", Unit::Seconds, |it, value| it.time = span(value)),
    key("pause", Unit::Seconds, |it, value| it.pause = span(value)),
    key("repeat", Unit::Whole, |it, value| it.repeat = value as u32),
    key("table", Unit::Size, |it, value| it.table = Some(Bytes(value as u64))),
    key("pages-per-query", Unit::Number, |it, value| it.pages_per_query = Some(value)),
    key("pages-without-read", Unit::Number, |it, value| it.pages_without_read = value),
    key("service-time", Unit::Time, |it, value| it.service_time = span(value)),
    key("read-time", Unit::Time, |it, value| it.read_time = span(value)),
    key("write-time", Unit::Time, |it, value| it.write_time = span(value)),
    key("dirty", Unit::Number, |it, value| it.dirty = value),
    key("burst-pages", Unit::Whole, |it, value| it.burst_pages = Some(value as u64)),
    key("burst-every", Unit::Seconds, |it, value| it.burst_every = Some(span(value))),
    key("sleep-overhead", Unit::Time, |it, value| it.sleep_overhead = span(value)),
    key("loop-overhead", Unit::Time, |it, value| it.loop_overhead = span(value)),
    key("initial-sleep", Unit::Time, |it, value| it.initial_sleep = span(value)),
    key("initial-free", Unit::Whole, |it, value| it.initial_free = Some(value as u64)),
    key("wake-offset", Unit::Time, |it, value| it.wake_offset = Some(span(value))),
    key("phase", Unit::Time, |it, value| it.phase = Some(span(value))),
    key("seed", Unit::Whole, |it, value| it.seed = value as u64),
];

const fn key(name: &'static str, unit: Unit, set: fn(&mut Flags, f64)) -> Key {
    Key { name, unit, set }
}

#[allow(clippy::cast_possible_truncation)] // a number that is too large becomes the largest one
fn span(ns: f64) -> Span {
    Span(std::time::Duration::from_nanos(ns as u64))
}

/// Parses one value.
fn value(unit: Unit, text: &str) -> Result<f64, String> {
    let text = text.trim();
    match unit {
        Unit::Whole => {
            let whole: u32 = text.parse().map_err(|_| format!("'{text}' is not a whole number up to {}", u32::MAX))?;
            Ok(f64::from(whole))
        }
        Unit::Number => {
            let number: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
            if number.is_finite() && number >= 0.0 {
                Ok(number)
            } else {
                Err(format!("'{text}' is not a number from 0 on"))
            }
        }
        Unit::Size => Bytes::from_str(text).map(|it| it.0 as f64).map_err(|error| error.to_string()),
        Unit::Time => Span::from_str(text).map(|it| it.as_ns() as f64).map_err(|error| error.to_string()),
        Unit::Seconds => Span::parse_seconds(text).map(|it| it.as_ns() as f64).map_err(|error| error.to_string()),
    }
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form =
            || format!("'{text}' is not KEY=FROM..TO/STEP, as in lru-scan-depth=128..4096/128 or pause=5s..60s/5s");
        let (name, rest) = text.split_once('=').ok_or_else(form)?;
        let name = name.trim().trim_start_matches("--").replace('_', "-");
        let key = KEYS.iter().find(|key| key.name == name).ok_or_else(|| {
            let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
            format!("'{name}' cannot be swept; these can: {}", names.join(", "))
        })?;
        let (from, rest) = rest.split_once("..").ok_or_else(form)?;
        let (to, step) = rest.split_once('/').ok_or_else(form)?;
        let [from, to, step] = [value(key.unit, from)?, value(key.unit, to)?, value(key.unit, step)?];
        if step <= 0.0 {
            return Err("the step is 0: it would never come to an end".into());
        }
        if to < from {
            return Err("it ends before it begins".into());
        }
        // the binary fraction of 0.1 is not exact: the last value must not be lost because of that
        let steps = ((to - from) / step + 1e-9).floor();
        if steps + 1.0 > VALUES_MAX as f64 {
            return Err(format!("more than {VALUES_MAX} values: a larger step"));
        }
        #[allow(clippy::cast_possible_truncation)] // below VALUES_MAX
        let values = (0..=steps as u32).map(|index| from + f64::from(index) * step).collect();
        Ok(Self { key, values })
    }
}

impl Sweep {
    pub(super) fn name(&self) -> &'static str {
        self.key.name
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The flags, once with each value.
    pub(super) fn apply(&self, flags: &Flags) -> Vec<(Value, Flags)> {
        let with = |value: &f64| {
            let mut flags = flags.clone();
            (self.key.set)(&mut flags, *value);
            (Value { name: self.key.name, value: *value, unit: self.key.unit }, flags)
        };
        self.values.iter().map(with).collect()
    }
}

/// The value of a swept flag in one run.
#[derive(Debug, Clone)]
pub(super) struct Value {
    pub(super) name: &'static str,
    value: f64,
    unit: Unit,
}

impl Value {
    /// The key and the value; the key ends with the unit, if the flag has a unit.
    pub(super) fn json(&self) -> (String, serde_json::Value) {
        let name = self.name.replace('-', "_");
        match self.unit {
            Unit::Time | Unit::Seconds => (format!("{name}_us"), (self.value / 1000.0).into()),
            Unit::Size => (format!("{name}_bytes"), self.value.into()),
            Unit::Whole | Unit::Number => (name, self.value.into()),
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        #[allow(clippy::cast_possible_truncation)] // the value was parsed from such a number
        match self.unit {
            Unit::Time | Unit::Seconds => write!(f, "{}", span(self.value)),
            Unit::Size => write!(f, "{}", Bytes(self.value as u64)),
            Unit::Whole => write!(f, "{}", self.value),
            // rounded, so that the sum of 0.1 and 0.2 is printed as 0.3
            Unit::Number => write!(f, "{}", (self.value * 1e9).round() / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        let sweep: Sweep = text.parse().expect("a sweep");
        let one = |value: &f64| Value { name: sweep.key.name, value: *value, unit: sweep.key.unit }.to_string();
        sweep.values.iter().map(one).collect()
    }

    #[test]
    fn both_ends_are_in_a_sweep() {
        assert_eq!(values("lru-scan-depth=128..512/128"), ["128", "256", "384", "512"]);
        assert_eq!(values("lru_scan_depth=1..4/2"), ["1", "3"]);
        assert_eq!(values("pages-per-query=0.1..0.5/0.1"), ["0.1", "0.2", "0.3", "0.4", "0.5"]);
        assert_eq!(values("pause=5..15/5s"), ["5 s", "10 s", "15 s"]);
        assert_eq!(values("pool=128M..384M/128M"), ["128 MiB", "256 MiB", "384 MiB"]);
        assert_eq!(values("threads=3..3/1"), ["3"]);
    }

    #[test]
    fn what_is_no_sweep_says_why() {
        let why = |text: &str| Sweep::from_str(text).expect_err("no sweep");
        assert!(why("depth=1..2/1").contains("lru-scan-depth"), "names those that can be swept");
        assert!(why("threads=1..2").contains("FROM..TO/STEP"));
        assert!(why("threads=1..2/0").contains("never"));
        assert!(why("threads=2..1/1").contains("before it begins"));
        assert!(why("threads=-1..2/1").contains("'-1'"));
        assert!(why("threads=1..99999999999/1").contains("99999999999"));
        assert!(why("threads=0..1000000/1").contains("larger step"));
        assert!(why("wake-offset=1..2/1").contains("unit"));
        assert!(why("rate=1..inf/1").contains("inf"));
    }
}
