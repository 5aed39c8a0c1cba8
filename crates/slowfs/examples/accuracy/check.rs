// SPDX-License-Identifier: Apache-2.0
//! fio and the tool's own probe (`wringer probe read`) through the same layer: two clients that share no code.

use crate::fio::fio;
use crate::layer::Layer;
use evidence::DelayMode;
use probe::random::{Operation, Options, measure};
use probe::target::Target;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Both at depth 1, in turn.
pub fn both(file: &Path, seconds: u64) -> Value {
    println!("\nadd, depth 1 | fio p50 us | probe p50 us | probe to fio");
    println!("--- | ---: | ---: | ---:");
    let mut checks = Vec::new();
    for delay_us in [0, 100, 1_000, 10_000] {
        let layer = Layer::start(file, DelayMode::Add, delay_us);
        let fio_us = fio(Some(&layer), file, 1, seconds, None).median_us;
        let mut command = layer.enter(std::env::current_exe().unwrap().to_str().unwrap());
        let output = command.arg("probe").arg(file).arg(seconds.to_string()).output().unwrap();
        let probe_us: f64 = String::from_utf8(output.stdout).unwrap().trim().parse().expect("the probe says a number");
        let ratio = probe_us / fio_us;
        println!("{:.2} ms | {fio_us:.1} | {probe_us:.1} | {ratio:.3}", delay_us as f64 / 1e3);
        checks.push(json!({ "delay_us": delay_us, "fio_p50_us": fio_us, "probe_p50_us": probe_us, "ratio": ratio }));
    }
    Value::Array(checks)
}

/// What [`both`] runs inside the layer's namespace: prints the median in microseconds.
pub fn probe(file: &Path, seconds: u64) {
    let target = Target::open(file).unwrap();
    target.go_direct().unwrap();
    let options = Options {
        operation: Operation::Read,
        block_bytes: 4096,
        threads: 1,
        count: None,
        time: Some(Duration::from_secs(seconds)),
        working_set_bytes: None,
        interval: Duration::ZERO,
        seed: 1,
    };
    let measured = measure(&target, &options).unwrap();
    println!("{:.1}", measured.histogram.percentile_ns(50.0) as f64 / 1e3);
}
