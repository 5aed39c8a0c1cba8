// SPDX-License-Identifier: Apache-2.0
//! Random latencies with known humps, and the bins different tools put them in. Fixed seeds: every run sees the same cases.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, dead_code, unreachable_pub)] // a test

use evidence::{Arrivals, Conditions, LatencyHistogram, LoadResult, Phase};
use explain::Finding;
use explain::modes::{Bin, bins_of};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A host of two CPUs with nothing special, and a server of this flavour.
pub fn conditions(flavour: &str) -> Conditions {
    let mut conditions: Conditions = serde_json::from_value(json!({
        "tool": {"version": "0", "command": [], "as_root": true},
        "host": {"kernel": "", "distribution": "", "cpu_model": "", "cpus": 2, "mem_total_bytes": 0, "swap_total_bytes": 0,
            "page_size_bytes": 4096, "huge_page_size_bytes": 0, "hz": 250, "virtualisation": "", "cgroup": "", "storage": "", "clock_source": ""},
        "server": {"flavour": "", "version": "", "binary": "", "source": "", "variables": {}},
        "mechanisms": {}, "caveats": []
    }))
    .unwrap();
    conditions.server.flavour = flavour.into();
    conditions
}

/// A closed loop of point selects, from one worker.
pub fn load(driver: &str, connections: u32, measured: Phase) -> LoadResult {
    LoadResult {
        workload: "oltp_point_select".into(),
        driver: driver.into(),
        connections,
        workers: 1,
        arrivals: Arrivals::Closed,
        seed: 1,
        distribution: "uniform".into(),
        prepared_statements: true,
        connect: LatencyHistogram::new(),
        warmup: None,
        measured,
    }
}

/// SplitMix64: a generator of a few lines, so that no release of a library changes the cases.
pub struct Random(pub u64);

impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In 0..1, never 0.
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Evenly on a logarithmic scale.
    pub fn scaled(&mut self, low: f64, high: f64) -> f64 {
        (self.between(low.ln(), high.ln())).exp()
    }

    pub fn below(&mut self, count: usize) -> usize {
        (self.bits() % count as u64) as usize
    }

    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    pub fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }

    /// Shape at least 1 (Marsaglia and Tsang).
    pub fn gamma(&mut self, shape: f64) -> f64 {
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && self.unit().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v;
            }
        }
    }
}

/// How the values reach the finder.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bucketing {
    /// Our own, 0.1 %.
    Hdr,
    /// sysbench's 1024 steps from 1 us to 100 s, 1.8 %.
    Sysbench,
    /// Rounded to this many microseconds, then ours.
    Rounded(f64),
}

pub fn bin(values_us: &[f64], bucketing: Bucketing) -> Vec<Bin> {
    let rounded = |value: f64, step: f64| (value / step).round() * step;
    match bucketing {
        Bucketing::Hdr => hdr(values_us.iter().copied()),
        Bucketing::Rounded(step) => hdr(values_us.iter().map(|value| rounded(*value, step).max(step))),
        Bucketing::Sysbench => {
            let ratio = (1e8f64).ln() / 1023.0;
            let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
            values_us
                .iter()
                .for_each(|value| *counts.entry((value.max(1.0).ln() / ratio).floor() as i64).or_default() += 1);
            let edge = |index: i64| (index as f64 * ratio).exp();
            counts.into_iter().map(|(i, count)| Bin { low_us: edge(i), high_us: edge(i + 1), count }).collect()
        }
    }
}

fn hdr(values_us: impl Iterator<Item = f64>) -> Vec<Bin> {
    let mut histogram = LatencyHistogram::new();
    values_us.for_each(|value| histogram.record((value * 1000.0) as u64));
    bins_of(&histogram)
}

pub fn any_bucketing(random: &mut Random) -> Bucketing {
    [Bucketing::Hdr, Bucketing::Hdr, Bucketing::Sysbench, Bucketing::Rounded(1.0)][random.below(4)]
}

/// The figures of a finding, by the names that they have in a result.
pub fn figures(finding: &Finding) -> Value {
    serde_json::to_value(finding).unwrap()["evidence"].take()
}
