// SPDX-License-Identifier: Apache-2.0
//! Arms and conditions of recordings that tests make up.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)] // a test

use evidence::{Arrivals, Conditions, LatencyHistogram, LoadResult, Phase};
use explain::Finding;
use serde_json::{Value, json};

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

/// The figures of a finding, by the names that they have in a result.
pub fn figures(finding: &Finding) -> Value {
    serde_json::to_value(finding).unwrap()["evidence"].take()
}
