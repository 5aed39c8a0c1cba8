// SPDX-License-Identifier: Apache-2.0
//! fio's `--output-format=json+`: `jobs[].{read,write,trim,sync}.{clat_ns,lat_ns,slat_ns}.bins`, value to count.
//!
//! fio keeps 64 bins for each power of two and writes the middle of a bin (fio 3.33, stat.c: plat_idx_to_val, stat.h:
//! FIO_IO_U_PLAT_BITS = 6), so a bin is 1/64 of the power of two below its value wide, and at least 1 ns.

use super::{Error, Named};
use modes::Bin;
use serde_json::Value;

const DIRECTIONS: [&str; 4] = ["read", "write", "trim", "sync"];
const KINDS: [&str; 3] = ["clat_ns", "lat_ns", "slat_ns"];
/// The largest value of fio's own counter.
const LONGEST_NS: f64 = u64::MAX as f64;
const BINS_A_POWER: f64 = 64.0;

pub(super) fn read(document: &Value) -> Result<Vec<Named>, Error> {
    let jobs = document.get("jobs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut found = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        for direction in DIRECTIONS {
            for kind in KINDS {
                let bins = job.get(direction).and_then(|part| part.get(kind)).and_then(|part| part.get("bins"));
                let Some(bins) = bins.and_then(Value::as_object) else { continue };
                let name = format!("jobs[{index}].{direction}.{kind}");
                let broken = |value: &String, count: &Value| Error::Broken {
                    at: format!("{name}.bins"),
                    why: format!("\"{value}\": {count} is no number of nanoseconds and a count"),
                };
                let read = bins.iter().map(|(value, count)| bin(value, count).ok_or_else(|| broken(value, count)));
                let bins = read.collect::<Result<Vec<Bin>, Error>>()?;
                found.push(Named { name, bins, delay_us: None });
            }
        }
    }
    Ok(found)
}

fn bin(value: &str, count: &Value) -> Option<Bin> {
    let ns: f64 = value.parse().ok().filter(|ns| (0.0..=LONGEST_NS).contains(ns))?;
    let half = (2f64.powf(ns.max(1.0).log2().floor()) / BINS_A_POWER / 2.0).max(0.5);
    Some(Bin { low_us: (ns - half) / 1e3, high_us: (ns + half) / 1e3, count: count.as_u64()? })
}
