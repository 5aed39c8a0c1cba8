// SPDX-License-Identifier: Apache-2.0
//! Lines of value and count: sysbench's `--histogram` output, and comma, tab or blank separated tables.
//!
//! sysbench 1.0 keeps 1024 steps from 1 us to 100 s, evenly on a logarithmic scale, and prints the middle of each (sysbench 1.0.20,
//! sb_histogram.c; sysbench.c: OPER_LOG_MIN_VALUE, OPER_LOG_MAX_VALUE): a bin reaches half a step to both sides, 0.9 %.
//! For other tables the smallest ratio between neighbours is taken as the step.

use super::{Error, Named};
use modes::Bin;

const SYSBENCH_STEPS: f64 = 1023.0;
const SYSBENCH_RANGE: f64 = 1e8;
/// The largest value, in any unit.
const LARGEST: f64 = 1e18;
/// No known tool has wider latency bins than this.
const COARSEST: f64 = 1.25;

pub(super) fn read(text: &str, unit_us: Option<f64>) -> Result<Vec<Named>, Error> {
    let sysbench = sysbench(text);
    if !sysbench.is_empty() {
        return Ok(sysbench);
    }
    if let Some(error) = damaged(text) {
        return Err(error);
    }
    let unit_us = unit_us.unwrap_or_else(|| unit(text));
    let points = (1..).zip(text.lines()).filter_map(|(number, line)| point(number, line).transpose());
    let points: Vec<(f64, u64)> =
        points.map(|point| point.map(|(value, count)| (value * unit_us, count))).collect::<Result<_, _>>()?;
    let looks_so = text.to_ascii_lowercase().contains("sysbench");
    let ratio = if looks_so { sysbench_ratio() } else { ratio_of(&points) };
    Ok(vec![Named { name: "table".into(), bins: bins(&points, ratio), delay_us: None }])
}

/// Every block below "Latency histogram (values are in milliseconds)".
fn sysbench(text: &str) -> Vec<Named> {
    let mut found: Vec<Vec<(f64, u64)>> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.contains("Latency histogram (values are in milliseconds)") {
            found.push(Vec::new());
            inside = true;
            continue;
        }
        match bar(line) {
            Some((ms, count)) if inside => {
                if let Some(block) = found.last_mut() {
                    block.push((ms * 1000.0, count));
                }
            }
            // the heading, and blank lines or remarks above the first bar
            None if found.last().is_some_and(|block| !block.is_empty()) => inside = false,
            _ => {}
        }
    }
    let several = found.len() > 1;
    let name =
        |index: usize| if several { format!("sysbench histogram {}", index + 1) } else { "sysbench histogram".into() };
    let named = |(index, points): (usize, Vec<(f64, u64)>)| Named {
        name: name(index),
        bins: bins(&points, sysbench_ratio()),
        delay_us: None,
    };
    found.into_iter().enumerate().map(named).collect()
}

/// `       0.116 |****                                     2`
fn bar(line: &str) -> Option<(f64, u64)> {
    let (value, rest) = line.split_once('|')?;
    Some((value.trim().parse().ok()?, rest.trim_start_matches(['*', ' ']).trim().parse().ok()?))
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.trim().split([',', ';', '\t', ' ']).filter(|word| !word.is_empty())
}

fn is_number(word: &str) -> bool {
    word.parse::<f64>().is_ok()
}

/// A line of two numbers, and nothing else.
fn pair(line: &str) -> Option<(&str, &str)> {
    let mut words = words(line);
    let (value, count) = (words.next()?, words.next()?);
    (words.next().is_none() && is_number(value) && is_number(count)).then_some((value, count))
}

/// A line of one pair, in which one of the two numbers is damaged or missing. Remarks are no such lines, as in `# 2`, `block 2` or, behind the pairs, `total,500`.
fn damaged(text: &str) -> Option<Error> {
    let lines = || (1..).zip(text.lines());
    let mut pairs = lines().filter(|(_, line)| pair(line).is_some()).map(|(number, _)| number);
    let first = pairs.next()?;
    let last = pairs.last().unwrap_or(first);
    let is_damaged = |(number, line): &(usize, &str)| {
        let words: Vec<&str> = words(line).take(3).collect();
        let begins_so = words.first().is_some_and(|word| is_number(word));
        let has_one = line.contains([',', ';', '\t']) && words.iter().any(|word| is_number(word));
        let is_short = words.len() < 3 && pair(line).is_none();
        *number > first && is_short && (begins_so || (*number < last && has_one))
    };
    let (number, line) = lines().find(is_damaged)?;
    Some(broken(number, format!("`{}` is no value and count", line.trim())))
}

/// `Ok(None)`: the line is no pair. A pair that is no value and count is an error, because it would be missing in the histogram.
fn point(number: usize, line: &str) -> Result<Option<(f64, u64)>, Error> {
    let Some((value, count)) = pair(line) else { return Ok(None) };
    let fits = |value: &f64| (f64::MIN_POSITIVE..LARGEST).contains(value);
    match (value.parse::<f64>().ok().filter(fits), count.parse::<u64>()) {
        (_, Ok(0)) => Ok(None),
        (Some(value), Ok(count)) => Ok(Some((value, count))),
        (None, _) => Err(broken(number, format!("{value} is no latency: it is above 0 and below {LARGEST:e}"))),
        (_, Err(_)) => Err(broken(number, format!("{count} is no count: it is a whole number from 0 to 2^64"))),
    }
}

fn broken(number: usize, why: String) -> Error {
    Error::Broken { at: format!("line {number}"), why }
}

const UNITS: [(&[&str], f64); 4] = [
    (&["ns", "nsec", "nanosecond", "nanoseconds"], 0.001),
    (&["us", "\u{b5}s", "\u{3bc}s", "usec", "microsecond", "microseconds"], 1.0),
    (&["ms", "msec", "millisecond", "milliseconds"], 1000.0),
    (&["s", "sec", "second", "seconds"], 1e6),
];

/// The unit in the heading, which is the last line before the first pair: `value_ms,count`. Microseconds when the heading has none.
fn unit(text: &str) -> f64 {
    let before = text.lines().take_while(|line| pair(line).is_none()).filter(|line| !line.trim().is_empty());
    let words = before.last().unwrap_or_default().to_lowercase().replace("'s ", " ");
    let mut words = words.split(|c: char| !c.is_alphanumeric());
    words.find_map(|word| UNITS.iter().find(|(names, _)| names.contains(&word))).map_or(1.0, |(_, unit)| *unit)
}

fn sysbench_ratio() -> f64 {
    (SYSBENCH_RANGE.ln() / SYSBENCH_STEPS).exp()
}

/// The smallest ratio between neighbours.
fn ratio_of(points: &[(f64, u64)]) -> f64 {
    let mut values: Vec<f64> = points.iter().map(|(value, _)| *value).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let least = values.windows(2).map(|pair| pair[1] / pair[0]).fold(f64::INFINITY, f64::min);
    if least.is_finite() { least.min(COARSEST) } else { 1.001 }
}

fn bins(points: &[(f64, u64)], ratio: f64) -> Vec<Bin> {
    let half = ratio.sqrt();
    points.iter().map(|(us, count)| Bin { low_us: us / half, high_us: us * half, count: *count }).collect()
}
