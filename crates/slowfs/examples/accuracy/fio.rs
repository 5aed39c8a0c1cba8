// SPDX-License-Identifier: Apache-2.0
//! Random direct reads of 4 KiB by fio, with the exact latencies of its log.

use crate::layer::Layer;
use std::path::Path;
use std::process::{Command, Stdio};

pub struct Read {
    pub median_us: f64,
    pub p99_us: f64,
    pub iops: f64,
    pub count: usize,
}

/// `inside`: through this layer, otherwise past it. `rate`: no more than this many a second.
pub fn fio(inside: Option<&Layer>, file: &Path, depth: u32, seconds: u64, rate: Option<f64>) -> Read {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("reads");
    let mut command = match inside {
        Some(layer) => layer.enter("fio"),
        None => Command::new("fio"),
    };
    command
        .args(["--name=reads", "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=libaio", "--time_based"])
        .args(["--randrepeat=0", "--output=/dev/null"])
        .arg(format!("--filename={}", file.display()))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--runtime={seconds}"))
        .arg(format!("--write_lat_log={}", log.display()));
    if let Some(rate) = rate {
        command.arg(format!("--rate_iops={:.0}", rate.max(1.0)));
    }
    let status = command.stdout(Stdio::null()).status().expect("fio is installed");
    assert!(status.success(), "fio failed");
    let log = std::fs::read_to_string(folder.path().join("reads_lat.1.log")).unwrap();
    let latency = |line: &str| line.split(',').nth(1).and_then(|word| word.trim().parse::<f64>().ok());
    let mut latencies: Vec<f64> = log.lines().filter_map(latency).collect();
    latencies.sort_by(f64::total_cmp);
    let count = latencies.len();
    assert!(count > 0, "fio read nothing");
    Read {
        median_us: latencies[count / 2] / 1e3,
        p99_us: latencies[(count * 99 / 100).min(count - 1)] / 1e3,
        iops: count as f64 / seconds as f64,
        count,
    }
}
