// SPDX-License-Identifier: Apache-2.0
use serde::{Deserialize, Serialize};

/// The asked, the predicted and the measured quantity, side by side, for one thing that was squeezed or filled (invariant 4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// On the run's clock.
    pub at_us: u64,
    /// `None`: it holds for the whole run.
    pub arm: Option<String>,
    /// `ram.hidden`, `disk.read.median`, `fill.size`, ...
    pub what: String,
    /// `huge-page holder`, `fuse layer`, `cgroup v1`, ...
    pub mechanism: String,
    pub asked: Option<Quantity>,
    /// The quantity that the mechanism is expected to give on this host, when it differs from `asked`.
    pub predicted: Option<Quantity>,
    pub got: Option<Quantity>,
    /// How `got` was measured, by code that the change does not share.
    pub witness: String,
    /// `None`: no tolerance was promised.
    pub within_tolerance: Option<bool>,
    /// The tolerance in words: `2 % more or less`.
    pub tolerance: Option<String>,
    /// `None`: it was measured once, or it is not measured by looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looks: Option<Looks>,
    /// The share of `asked` that took effect, above the value without the squeeze: 1 is all of it. `None`: nothing was asked, or the share is not
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub came_on: Option<f64>,
}

/// All looks of a witness, none left out: the measured value is the median over all their readings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Looks {
    pub number: u32,
    /// The number of readings in all looks together.
    pub readings: u64,
    /// The lowest of the looks' own medians, in the unit of the measured value.
    pub lowest: f64,
    pub highest: f64,
}

impl Measured {
    /// A value for the whole run, with nothing asked and nothing measured yet. Callers use it after `..` to fill in the other fields.
    pub fn of(what: impl Into<String>, mechanism: impl Into<String>, witness: impl Into<String>) -> Self {
        Self {
            at_us: 0,
            arm: None,
            what: what.into(),
            mechanism: mechanism.into(),
            asked: None,
            predicted: None,
            got: None,
            witness: witness.into(),
            within_tolerance: None,
            tolerance: None,
            looks: None,
            came_on: None,
        }
    }

    /// The name of the measured thing, for people. A thing that has no such name keeps its key.
    pub fn subject(&self) -> String {
        let told = match self.what.as_str() {
            "disk.read.median" => "The time of a read",
            "disk.write.median" => "The time of a write",
            "disk.sync.median" => "The time of a sync",
            "disk.layer_cost.median" => "What the slow layer adds to a read by itself",
            "disk.floor.median" => "What a read takes on this host without any delay",
            "disk.floor.iops.depth32" => "What this host reads a second without any delay",
            "disk.read.iops.depth32" => "The reads a second of 32 readers",
            "server.ram.peak" => "The most memory that the server had",
            "server.cpus.used" => "The CPUs that the server used",
            "server.swap" => "The server's memory in swap",
            "ram.hidden" => "The RAM that was hidden",
            "ram.available" => "The RAM that was left",
            key => return format!("{key} (asked and got)"),
        };
        told.to_owned()
    }

    /// The squeeze took effect, and its measured value is outside of its tolerance.
    pub fn is_outside(&self) -> bool {
        self.within_tolerance == Some(false)
    }

    /// Outside of its tolerance, and by so much that this is no squeeze of that size any more. Less than half of what was asked is always a miss. More than
    /// twice is one for RAM, and for a disk that this host is too slow to imitate; a delay or a limit that is in force is not missed because other
    /// programs, which keep the CPUs and the disk busy, slow the reads down even more: the result has what was got.
    pub fn is_missed(&self) -> bool {
        let Some(share) = self.came_on.filter(|_| self.is_outside()) else { return false };
        let (is_half, is_twice) = match self.got.map(|got| got.unit) {
            Some(Unit::PerSecond) => (share > 2.0, share < 0.5),
            _ => (share < 0.5, share > 2.0),
        };
        is_half || is_twice && !self.is_slowed_by_others()
    }

    /// Whether others on the host can make it stronger than what was asked.
    fn is_slowed_by_others(&self) -> bool {
        let is_speed = self.got.is_some_and(|got| matches!(got.unit, Unit::Microseconds | Unit::PerSecond));
        is_speed && !self.what.starts_with("disk.floor.")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    pub value: f64,
    pub unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Bytes,
    Microseconds,
    Count,
    PerSecond,
    /// A part of a whole, from 0 to 1; or one quantity over another.
    Ratio,
}

impl Quantity {
    pub fn bytes(value: u64) -> Self {
        Self { value: value as f64, unit: Unit::Bytes }
    }

    pub fn micros(value: f64) -> Self {
        Self { value, unit: Unit::Microseconds }
    }

    pub fn count(value: f64) -> Self {
        Self { value, unit: Unit::Count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_missed(what: &str, unit: Unit, share: f64) -> bool {
        let got = Some(Quantity { value: share, unit });
        let measured =
            Measured { got, within_tolerance: Some(false), came_on: Some(share), ..Measured::of(what, "", "") };
        measured.is_missed()
    }

    #[test]
    fn a_delay_or_a_limit_that_others_make_stronger_is_told_and_is_no_miss() {
        let missed = |what, unit| [0.4, 0.6, 1.9, 2.3].map(|share| is_missed(what, unit, share));
        assert_eq!(missed("disk.read.median", Unit::Microseconds), [true, false, false, false]);
        assert_eq!(missed("disk.read.iops.depth32", Unit::PerSecond), [false, false, false, true]);
    }

    #[test]
    fn ram_and_what_the_host_cannot_do_are_missed_on_both_sides() {
        let missed = |what, unit| [0.4, 0.6, 1.9, 2.3].map(|share| is_missed(what, unit, share));
        let both = [true, false, false, true];
        assert_eq!(missed("ram.hidden", Unit::Bytes), both);
        assert_eq!(missed("disk.floor.median", Unit::Microseconds), both);
        assert_eq!(missed("disk.floor.iops.depth32", Unit::PerSecond), both);
    }
}
