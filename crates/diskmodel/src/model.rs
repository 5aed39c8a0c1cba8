// SPDX-License-Identifier: Apache-2.0
use crate::distribution::{Distribution, time};
use evidence::{Delay, DelayMode};
use serde::{Deserialize, Serialize};
use std::fmt;
use units::Bytes;

/// Everything that the slow layer imitates. Plain data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// The profile that the model was made from, as the user wrote it: `gp2:100G,credits=0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    pub read: Operation,
    pub write: Operation,
    pub sync: Operation,
    pub mode: DelayMode,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// How many requests the disk serves at the same time; `None`: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    /// The same seed and the same order of requests give the same times.
    pub seed: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// The time for 4 KiB or less.
    pub takes: Distribution,
    /// The additional time for each KiB above 4 KiB.
    #[serde(default)]
    pub us_per_kib: f64,
    /// The time of a request that begins where the request before it ended, so that the head need not move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequential: Option<Distribution>,
}

/// A token bucket over all requests, or over one class. Syncs cost no tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    pub counts: Counts,
    pub of: Of,
    pub rate_per_second: f64,
    /// The rate while there are credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_per_second: Option<f64>,
    /// The most credits that can be saved.
    #[serde(default)]
    pub capacity: f64,
    /// The credits at the start.
    #[serde(default)]
    pub credits: f64,
    /// A larger request counts as several operations of this size; `None`: one request is one operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_bytes: Option<u64>,
    /// Adjoining requests count as one operation, up to the unit.
    #[serde(default)]
    pub merge: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counts {
    Operations,
    Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    Both,
    Reads,
    Writes,
}

/// Episodes in which everything takes `factor` times as long: the last `lasting_us` of each `every_us`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    pub every_us: f64,
    pub lasting_us: f64,
    pub factor: f64,
}

impl Operation {
    pub fn constant(us: f64) -> Self {
        Self { takes: Distribution::Constant { us }, us_per_kib: 0.0, sequential: None }
    }

    fn is_constant(&self) -> bool {
        self.takes.is_constant() && self.us_per_kib == 0.0 && self.sequential.is_none()
    }
}

impl From<Delay> for Model {
    fn from(delay: Delay) -> Self {
        let [read, write, sync] =
            [delay.read_us, delay.write_us, delay.sync_us].map(|us| Operation::constant(us as f64));
        let Delay { mode, .. } = delay;
        Self { profile: None, read, write, sync, mode, limits: Vec::new(), depth: None, stalls: None, seed: 0 }
    }
}

impl Model {
    /// The medians, and whether the model has more than medians.
    pub fn delay(&self) -> Delay {
        #[allow(clippy::cast_possible_truncation)] // times are not negative, and below an hour
        let us = |operation: &Operation| operation.takes.quantile(0.5).round() as u64;
        Delay {
            read_us: us(&self.read),
            write_us: us(&self.write),
            sync_us: us(&self.sync),
            mode: self.mode,
            varies: !self.is_constant(),
        }
    }

    /// Whether each class has one constant time, and nothing is limited.
    pub fn is_constant(&self) -> bool {
        [&self.read, &self.write, &self.sync].iter().all(|operation| operation.is_constant())
            && self.limits.is_empty()
            && self.depth.is_none()
            && self.stalls.is_none()
    }

    #[must_use]
    pub fn none(mode: DelayMode) -> Self {
        Self::from(Delay { read_us: 0, write_us: 0, sync_us: 0, mode, varies: false })
    }
}

/// A text for people: `read 11.6 ms, write 12.4 ms, sync 100 us in total; at most 1 at once; ...`.
impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(profile) = &self.profile {
            write!(f, "{profile}: ")?;
        }
        for (name, operation) in [("read", &self.read), ("write", &self.write), ("sync", &self.sync)] {
            let comma = if name == "read" { "" } else { ", " };
            let brackets = if operation.takes.is_constant() { ["", ""] } else { ["(", ")"] };
            write!(f, "{comma}{name} {}{}{}", brackets[0], operation.takes, brackets[1])?;
            if operation.us_per_kib > 0.0 {
                write!(f, " +{}/KiB", time(operation.us_per_kib))?;
            }
        }
        f.write_str(if self.mode == DelayMode::Total { " in total" } else { " added" })?;
        self.limits.iter().try_for_each(|limit| write!(f, "; {limit}"))?;
        if let Some(depth) = self.depth {
            write!(f, "; {depth} at once")?;
        }
        if let Some(Stalls { every_us, lasting_us, factor }) = self.stalls {
            write!(f, "; every {} {} times as slow for {}", time(every_us), factor, time(lasting_us))?;
        }
        Ok(())
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[allow(clippy::cast_possible_truncation)] // not negative
        let amount = |value: f64| match self.counts {
            Counts::Operations => format!("{}", value.round()),
            Counts::Bytes => format!("{}", Bytes(value.round() as u64)),
        };
        let unit = match (self.counts, self.of) {
            (Counts::Bytes, Of::Both) => "/s",
            (Counts::Operations, Of::Both) => " IOPS",
            (Counts::Operations, Of::Reads) => " read IOPS",
            (Counts::Operations, Of::Writes) => " write IOPS",
            (Counts::Bytes, Of::Reads) => "/s read",
            (Counts::Bytes, Of::Writes) => "/s written",
        };
        write!(f, "{}{unit}", amount(self.rate_per_second))?;
        if let Some(burst) = self.burst_per_second {
            let [burst, credits, capacity] = [burst, self.credits, self.capacity].map(amount);
            write!(f, ", {burst} with credits (starts with {credits} of {capacity})")?;
        }
        Ok(())
    }
}
