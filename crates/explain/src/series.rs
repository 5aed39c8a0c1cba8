// SPDX-License-Identifier: Apache-2.0
//! The recorded series that this crate reads, and the value of a counter between two readings.

use evidence::Evidence;

/// The needed series, by source and name. A recording may contain hundreds of others.
const ASKED: &[(&str, &[&str])] = &[
    ("stat", &["user", "nice", "system", "irq", "softirq", "steal", "idle", "iowait"]),
    ("process.stat", &["utime", "stime", "cutime", "cstime", "rss"]),
    ("process.smaps_rollup", &["Pss"]),
    ("psi.io", &["some.total"]),
    ("server.status", &["Questions"]),
    ("server.pg_stat_database", &["xact_commit"]),
    ("observer", &["cpu"]),
];

/// Whether [`crate::explain`] reads this series. Its result is the same for a recording without the other series.
pub fn needs(series: &evidence::Series) -> bool {
    is_asked(&series.source, &series.name)
}

fn is_asked(source: &str, name: &str) -> bool {
    ASKED.iter().any(|(of, names)| *of == source && names.contains(&name))
}

/// The parts of the server's CPU time in `process.stat`.
pub(crate) const SERVER_CPU: [&str; 4] = ["utime", "stime", "cutime", "cstime"];

#[derive(Debug, Clone, Copy)]
pub(crate) struct Series<'e>(pub(crate) &'e evidence::Series);

impl<'e> Series<'e> {
    /// The first series of this name.
    pub(crate) fn find(evidence: &'e Evidence, source: &str, name: &str) -> Option<Self> {
        debug_assert!(is_asked(source, name), "{source} {name} is missing in the list of what is read");
        evidence.samples.iter().find(|series| series.source == source && series.name == name).map(Self)
    }

    /// The value at one moment, interpolated between two readings; `None` when there is no reading before or no reading after it.
    pub(crate) fn at(self, at_us: u64) -> Option<f64> {
        let points = &self.0.points;
        let after = points.iter().position(|point| point.at_us >= at_us)?;
        let later = points[after];
        let earlier = if later.at_us == at_us { later } else { points[after.checked_sub(1)?] };
        let span_us = (later.at_us - earlier.at_us).max(1) as f64;
        Some(earlier.value + (later.value - earlier.value) * (at_us - earlier.at_us) as f64 / span_us)
    }

    /// The growth between two moments; `None` when there is no value for one of them.
    pub(crate) fn grown_between(self, from_us: u64, to_us: u64) -> Option<f64> {
        Some(self.changed_between(from_us, to_us)?.max(0.0))
    }

    fn changed_between(self, from_us: u64, to_us: u64) -> Option<f64> {
        Some(self.at(to_us)? - self.at(from_us)?)
    }

    /// Whether a counter became smaller at some time between two moments: the server began it anew.
    pub(crate) fn began_anew_between(self, from_us: u64, to_us: u64) -> bool {
        let mut pairs = self.0.points.windows(2).filter(|pair| pair[1].at_us > from_us && pair[0].at_us < to_us);
        pairs.any(|pair| pair[1].value < pair[0].value)
    }
}

/// The server's CPU time between two moments. The CPU time of processes that have ended is in the counters of their parent, so a part may become smaller
/// while another one grows by as much: only the sum is never negative. `None`: it was not read all the time.
pub(crate) fn server_cpu_us_between(evidence: &Evidence, from_us: u64, to_us: u64) -> Option<f64> {
    let changed = SERVER_CPU
        .iter()
        .filter_map(|name| Series::find(evidence, "process.stat", name)?.changed_between(from_us, to_us));
    let changed: Vec<f64> = changed.collect();
    (!changed.is_empty()).then(|| changed.iter().sum::<f64>().max(0.0))
}
