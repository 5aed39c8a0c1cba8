// SPDX-License-Identifier: Apache-2.0
//! A server's settings, and its counters at two moments or more.

use crate::names::{METRICS, STATUS, VARIABLES};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A reading, in the form that `--save` writes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// `assumed`: made by hand. Otherwise all figures come from a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<String>,
    pub variables: BTreeMap<String, String>,
    /// The rows of INNODB_BUFFER_POOL_STATS: one for each instance of the buffer pool. `None`: it was not read; the variable may tell another number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<u64>,
    /// Two or more, in the order of time.
    pub readings: Vec<Snapshot>,
    /// Parts of the file that were ignored, in words.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// The counters at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Seconds after the first reading.
    pub at_seconds: f64,
    pub status: BTreeMap<String, f64>,
    /// The metrics of INNODB_METRICS that are turned on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
}

impl Reading {
    /// From the first reading to the last.
    pub fn seconds(&self) -> f64 {
        match (self.readings.first(), self.readings.last()) {
            (Some(first), Some(last)) => last.at_seconds - first.at_seconds,
            _ => 0.0,
        }
    }

    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(|it| it.trim()).filter(|it| !it.is_empty())
    }

    /// A variable that is a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.variable(name)?.parse().ok().filter(|it: &f64| it.is_finite())
    }

    /// The value of a counter or a metric in the last reading.
    pub fn last(&self, name: &str) -> Option<f64> {
        self.readings.last()?.value(name)
    }

    /// By how much a counter rose in a second. `None`: it is not in both readings, or it fell: the server was started anew, or the metric was reset.
    pub fn rate(&self, name: &str) -> Option<f64> {
        let rose = self.readings.last()?.value(name)? - self.readings.first()?.value(name)?;
        (rose >= 0.0 && self.seconds() > 0.0).then(|| rose / self.seconds())
    }

    /// All values of a gauge.
    pub fn values(&self, name: &str) -> Vec<f64> {
        self.readings.iter().filter_map(|it| it.value(name)).collect()
    }

    /// The reading with only the variables and counters that are used, under the names that are used here: XtraDB in MariaDB 10.1 writes `Innodb_buffer_pool_pages_lru_flushed`.
    #[must_use]
    pub fn reduced(self) -> Self {
        let snapshot = |it: Snapshot| Snapshot {
            at_seconds: it.at_seconds,
            status: used(it.status, STATUS),
            metrics: used(it.metrics, METRICS),
        };
        let readings = self.readings.into_iter().map(snapshot).collect();
        Self { variables: used(self.variables, VARIABLES), readings, ..self }
    }
}

fn used<T>(all: BTreeMap<String, T>, names: &[&str]) -> BTreeMap<String, T> {
    let known = |name: &str| names.iter().find(|it| it.eq_ignore_ascii_case(name)).map(|it| (*it).to_owned());
    all.into_iter().filter_map(|(name, value)| Some((known(&name)?, value))).collect()
}

impl Snapshot {
    fn value(&self, name: &str) -> Option<f64> {
        self.status.get(name).or_else(|| self.metrics.get(name)).copied()
    }
}
