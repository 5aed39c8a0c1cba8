// SPDX-License-Identifier: Apache-2.0
//! HdrHistogram interval logs: lines of `start,length,max,base64`, as HistogramLogWriter writes them. All intervals of one tag are added up. The
//! format does not contain the unit of the values: the caller gives it.

use super::{Error, Named};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use modes::Bin;
use std::collections::BTreeMap;

/// Compressed and plain histograms of V2 begin like this in base64, after three numbers.
const BEGINNINGS: [&str; 2] = ["HISTF", "HIST"];

pub(super) fn is_log(text: &str) -> bool {
    text.lines().any(|line| payload(line).is_some())
}

fn payload(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let (tag, rest) = match line.strip_prefix("Tag=").and_then(|rest| rest.split_once(',')) {
        Some((tag, rest)) => (tag, rest),
        None => ("", line),
    };
    let data = rest.rsplit(',').next()?.trim().trim_matches('"');
    BEGINNINGS.iter().any(|start| data.starts_with(start)).then_some((tag, data))
}

pub(super) fn read(text: &str, unit_us: f64) -> Result<Vec<Named>, Error> {
    let mut by_tag: BTreeMap<String, Histogram<u64>> = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let Some((tag, data)) = payload(line) else { continue };
        let broken = |why: String| Error::Broken { at: format!("line {}", index + 1), why };
        let bytes = STANDARD.decode(data).map_err(|error| broken(error.to_string()))?;
        let one: Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|error| broken(error.to_string()))?;
        match by_tag.get_mut(tag) {
            Some(whole) => {
                whole.auto(true);
                whole.add(&one).map_err(|error| broken(error.to_string()))?;
            }
            None => drop(by_tag.insert(tag.to_owned(), one)),
        }
    }
    Ok(by_tag.into_iter().map(|(tag, histogram)| named(tag, &histogram, unit_us)).collect())
}

fn named(tag: String, histogram: &Histogram<u64>, unit_us: f64) -> Named {
    let bins = histogram.iter_recorded().map(|step| {
        let value = step.value_iterated_to();
        Bin {
            low_us: histogram.lowest_equivalent(value) as f64 * unit_us,
            high_us: (histogram.highest_equivalent(value) + 1) as f64 * unit_us,
            count: step.count_since_last_iteration(),
        }
    });
    let name = if tag.is_empty() { "HdrHistogram log".to_owned() } else { format!("HdrHistogram log, tag {tag}") };
    Named { name, bins: bins.collect(), delay_us: None }
}
