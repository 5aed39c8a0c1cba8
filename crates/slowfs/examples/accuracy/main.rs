// SPDX-License-Identifier: Apache-2.0
//! The slow layer beside the bare file, for `benches/squeeze/run.sh`: how exact its delays are, what it costs, how much it carries.
//!
//! Usage: `accuracy FILE SECONDS JSON [PART...]`; parts: `cost` (always), `add`, `total`, `check`, `idle`; all of them without one. FILE is read only.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, unreachable_pub)] // a benchmark for people, not a part of the tool

mod check;
mod fio;
mod layer;

use evidence::DelayMode;
use fio::{Read, fio};
use layer::Layer;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

const DELAYS_US: [u64; 8] = [50, 100, 500, 1_000, 5_000, 10_000, 20_000, 100_000];
const PAIRS: usize = 3;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let ["probe", file, seconds] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return check::probe(Path::new(file), seconds.parse().expect("whole seconds"));
    }
    let [file, seconds, json, parts @ ..] = arguments.as_slice() else {
        eprintln!("usage: accuracy FILE SECONDS JSON [add|total|check|idle ...]");
        std::process::exit(2);
    };
    let (file, seconds) = (Path::new(file), seconds.parse().expect("whole seconds"));
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    let cost = cost(file, seconds);
    let cap = cost["depth_32"]["layer_iops"].as_f64().unwrap();
    let mut document = json!({ "schema": 1, "cost": cost });
    let mut cells = Vec::new();
    for (part, mode) in [("add", DelayMode::Add), ("total", DelayMode::Total)] {
        if wanted(part) {
            cells.extend(accuracy(file, seconds, mode, cap));
        }
    }
    document["accuracy"] = Value::Array(cells);
    if wanted("check") {
        document["check"] = check::both(file, seconds);
    }
    if wanted("idle") {
        document["idle"] = idle(file);
    }
    std::fs::write(json, format!("{document:#}\n")).unwrap();
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Delay 0 on the path that delays, bare and layer in turn.
fn cost(file: &Path, seconds: u64) -> Value {
    println!("delay 0 | bare p50 us | layer p50 us | on top us | bare IOPS | layer IOPS | ratio | CPU us/read");
    println!("--- | ---: | ---: | ---: | ---: | ---: | ---: | ---:");
    let mut document = json!({});
    for depth in [1, 32] {
        let (mut bare, mut slow, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            bare.push(fio(None, file, depth, seconds, None));
            let layer = Layer::start(file, DelayMode::Add, 0);
            let before = layer.cpu();
            slow.push(fio(Some(&layer), file, depth, seconds, None));
            cpu.push((layer.cpu() - before).as_secs_f64() * 1e6 / slow.last().unwrap().count as f64);
        }
        let of = |reads: &[Read], value: fn(&Read) -> f64| median(reads.iter().map(value).collect());
        let (bare_us, layer_us) = (of(&bare, |read| read.median_us), of(&slow, |read| read.median_us));
        let (bare_iops, layer_iops) = (of(&bare, |read| read.iops), of(&slow, |read| read.iops));
        let ratios: Vec<f64> = bare.iter().zip(&slow).map(|(bare, slow)| slow.iops / bare.iops).collect();
        let on_top = median(bare.iter().zip(&slow).map(|(bare, slow)| slow.median_us - bare.median_us).collect());
        let (ratio, cpu) = (median(ratios), median(cpu));
        println!(
            "depth {depth} | {bare_us:.1} | {layer_us:.1} | {on_top:+.1} | {bare_iops:.0} | {layer_iops:.0} | {ratio:.2} | {cpu:.1}"
        );
        document[format!("depth_{depth}")] = json!({
            "bare_p50_us": bare_us, "layer_p50_us": layer_us, "on_top_us": on_top,
            "bare_iops": bare_iops, "layer_iops": layer_iops, "iops_ratio": ratio, "cpu_us_per_read": cpu,
        });
    }
    document
}

/// Each delay at both depths: within what is promised, or not, or more than the layer can carry.
fn accuracy(file: &Path, seconds: u64, mode: DelayMode, cap: f64) -> Vec<Value> {
    let name = if mode == DelayMode::Add { "add" } else { "total" };
    println!(
        "\n{name} | depth | delay ms | bare us | due us | p50 us | off | p99 us | off | bare p99 us | IOPS | CPU us/read |"
    );
    println!("--- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---");
    let mut cells = Vec::new();
    for depth in [1, 16] {
        for delay_us in DELAYS_US {
            // at least 50 reads of each request in flight
            let seconds = seconds.max(delay_us * 50 / 1_000_000);
            let layer = Layer::start(file, mode, delay_us);
            let before = layer.cpu();
            let got = fio(Some(&layer), file, depth, seconds, None);
            let cpu_us = (layer.cpu() - before).as_secs_f64() * 1e6 / got.count as f64;
            let own_us = layer.own_median_us();
            drop(layer);
            // as many reads a second past the layer: a disk that is asked rarely answers later than one in a busy row
            let paced = fio(None, file, depth, seconds.min(2), Some(got.iops));
            // beside others that were released together a read takes longer than one in an even row: then the layer's own clock says
            let bare_us = if depth == 1 { paced.median_us } else { own_us };
            let delay = delay_us as f64;
            let due = if mode == DelayMode::Add { bare_us + delay } else { bare_us.max(delay) };
            let (off, tail) = (got.median_us - due, got.p99_us - due);
            let within = off.abs() <= (due * 0.02).max(15.0) && tail <= (due * 0.1).max(100.0);
            let saturated = depth as f64 / delay * 1e6 > cap / 2.0;
            let verdict = match (saturated, within) {
                (true, _) => "saturated",
                (false, true) => "ok",
                (false, false) => "OUT",
            };
            println!(
                "{name} | {depth} | {:.2} | {bare_us:.0} | {due:.0} | {:.1} | {off:+.1} us, {:+.1} % | {:.1} | {tail:+.0} us, {:+.1} % | {:.0} | {:.0} | {cpu_us:.0} | {verdict}",
                delay / 1e3,
                got.median_us,
                off / due * 100.0,
                got.p99_us,
                tail / due * 100.0,
                paced.p99_us,
                got.iops,
            );
            cells.push(json!({
                "mode": name, "depth": depth, "delay_us": delay_us, "bare_p50_us": bare_us, "bare_paced_p50_us": paced.median_us, "bare_paced_p99_us": paced.p99_us,
                "backing_p50_us": own_us, "due_us": due, "p50_us": got.median_us, "p99_us": got.p99_us, "iops": got.iops,
                "reads": got.count, "cpu_us_per_read": cpu_us, "verdict": verdict,
            }));
        }
    }
    cells
}

/// A delay in force, a file open, nothing asked.
fn idle(file: &Path) -> Value {
    let layer = Layer::start(file, DelayMode::Add, 10_000);
    fio(Some(&layer), file, 16, 1, None);
    std::thread::sleep(Duration::from_millis(200));
    let (before, watched) = (layer.cpu(), Duration::from_secs(5));
    std::thread::sleep(watched);
    let used_us = (layer.cpu() - before).as_secs_f64() * 1e6;
    println!("\nidle for {} s: {used_us:.0} us of CPU", watched.as_secs());
    json!({ "watched_us": watched.as_micros(), "cpu_us": used_us })
}
