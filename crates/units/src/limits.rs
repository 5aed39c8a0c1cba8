// SPDX-License-Identifier: Apache-2.0
//! The CPUs and the swap of a machine that a user, a command or a server is to get, as they are written on a command line, in an experiment file, and
//! by the kernel.

use crate::Bytes;
use crate::number_list::{parse_numbers, write_numbers};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A number of CPUs in thousandths: of two CPUs one command may use 0.5, 1.25 or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cpus {
    thousandths: u64,
}

/// The kernel grants no quota below 1 ms in a period of 100 ms.
const LEAST: u64 = 10;
const MOST: f64 = 8192.0;

impl Cpus {
    /// The time in each period of `period_us` that this number of CPUs gives, as the sum over all CPUs.
    pub fn quota_us(self, period_us: u64) -> u64 {
        self.thousandths * period_us / 1000
    }

    pub fn of_quota(quota_us: u64, period_us: u64) -> Self {
        Self { thousandths: quota_us * 1000 / period_us.max(1) }
    }

    pub fn is_more_than(self, cpus: usize) -> bool {
        self.thousandths > cpus as u64 * 1000
    }

    /// `0.5 CPUs`, `1 CPU`.
    pub fn in_words(self) -> String {
        format!("{self} {}", if self.thousandths == 1000 { "CPU" } else { "CPUs" })
    }

    pub fn value(self) -> f64 {
        self.thousandths as f64 / 1000.0
    }
}

impl FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        let Some(number) = number.filter(|number| *number <= MOST) else {
            return Err("write a number of CPUs: 2, 0.5".to_owned());
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 0 and MOST
        let thousandths = (number * 1000.0).round() as u64;
        if thousandths < LEAST {
            return Err("0.01 is the least: the kernel's smallest quota is 1 ms in 100 ms".to_owned());
        }
        Ok(Self { thousandths })
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.value())
    }
}

impl Serialize for Cpus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.value())
    }
}

impl<'de> Deserialize<'de> for Cpus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer)?.to_string().parse().map_err(de::Error::custom)
    }
}

/// CPUs by number, as the kernel writes lists: `0-1,4`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuList(BTreeSet<u32>);

impl CpuList {
    pub fn numbers(&self) -> Vec<u32> {
        self.0.iter().copied().collect()
    }

    /// The CPUs of this list that are not in `other`. `None`: there are none.
    pub fn beyond(&self, other: &Self) -> Option<Self> {
        let more: BTreeSet<u32> = self.0.difference(&other.0).copied().collect();
        (!more.is_empty()).then_some(Self(more))
    }

    pub fn of(numbers: impl IntoIterator<Item = u32>) -> Self {
        Self(numbers.into_iter().collect())
    }
}

/// No machine has a CPU with a higher number; a longer list would only fill memory.
const HIGHEST_CPU: u32 = 8191;

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_numbers(text, HIGHEST_CPU).map(Self).ok_or_else(|| "write CPUs by number: 0-1, 0,2".to_owned())
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_numbers(&self.0, formatter)
    }
}

impl Serialize for CpuList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// How much of a command's memory may be in swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "u64", from = "u64")]
pub enum Swap {
    Off,
    Most(Bytes),
}

impl Swap {
    pub fn bytes(self) -> u64 {
        match self {
            Self::Off => 0,
            Self::Most(bytes) => bytes.0,
        }
    }
}

impl From<Swap> for u64 {
    fn from(swap: Swap) -> Self {
        swap.bytes()
    }
}

impl From<u64> for Swap {
    fn from(bytes: u64) -> Self {
        if bytes == 0 { Self::Off } else { Self::Most(Bytes(bytes)) }
    }
}

impl FromStr for Swap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            size => size
                .parse::<Bytes>()
                .map(|bytes| Self::from(bytes.0))
                .map_err(|_| "write off, or a size: 512M, 2G".to_owned()),
        }
    }
}

impl fmt::Display for Swap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => formatter.write_str("off"),
            Self::Most(bytes) => bytes.fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_read_as_docker_reads_them() {
        let quota = |text: &str| text.parse::<Cpus>().map(|cpus| cpus.quota_us(100_000));
        assert_eq!(quota("0.5"), Ok(50_000));
        assert_eq!(quota("2"), Ok(200_000));
        assert_eq!(quota("1.25"), Ok(125_000));
        assert_eq!(quota("0.01"), Ok(1_000));
        for wrong in ["0", "-1", "0.001", "two", "inf", "NaN", "1e9", ""] {
            assert!(quota(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Cpus::of_quota(50_000, 100_000).in_words(), "0.5 CPUs");
        assert_eq!(Cpus::of_quota(100_000, 100_000).in_words(), "1 CPU");
        assert!("2.001".parse::<Cpus>().is_ok_and(|cpus| cpus.is_more_than(2)));
    }

    #[test]
    fn lists_of_cpus() {
        let list: CpuList = "0-2,5".parse().expect("a list");
        assert_eq!((list.numbers(), list.to_string()), (vec![0, 1, 2, 5], "0-2,5".into()));
        let there = CpuList::of(0..4);
        assert_eq!(list.beyond(&there).map(|list| list.to_string()), Some("5".into()));
        assert_eq!(there.beyond(&there), None);
        for wrong in ["", "a", "1-", "0-4000000000", "3-1", ","] {
            assert!(wrong.parse::<CpuList>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn swap_is_off_or_a_size() {
        assert_eq!("off".parse(), Ok(Swap::Off));
        assert_eq!("1G".parse(), Ok(Swap::Most(Bytes::gib(1))));
        assert!("on".parse::<Swap>().is_err());
    }
}
