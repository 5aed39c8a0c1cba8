// SPDX-License-Identifier: Apache-2.0
//! Parses times, limits and stalls. The command line and an experiment file use the same syntax.

use crate::distribution::{Distribution, Rare};
use crate::model::{Counts, Limit, Of, Operation, Stalls};
use crate::table::{Bin, Table};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use units::{Bytes, Span};

/// The mistake in a text, and the correct form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {hint}")]
pub struct SpecError {
    pub message: String,
    pub hint: String,
}

pub(crate) fn wrong(message: impl Into<String>, hint: impl Into<String>) -> SpecError {
    SpecError { message: message.into(), hint: hint.into() }
}

/// How long an operation takes: `10ms`, `normal:10ms,2ms`, `lognormal:p50=1ms,p99=10ms`, `quantiles:p50=0.5ms,p99=2ms`,
/// `tail:0.2ms,1/1000:80ms`, `histogram:FILE`. `+4us/KiB` after it adds time for each KiB above 4 KiB.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationSpec {
    text: String,
    takes: Takes,
    us_per_kib: f64,
}

#[derive(Debug, Clone, PartialEq)]
enum Takes {
    Known(Distribution),
    /// A measured histogram, not read yet.
    File(String),
}

/// The longest time: beyond it a server's own time-outs end the experiment, not the disk.
const LONGEST: Span = Span::secs(10);
const FORMS: &str = "write a time (10ms), normal:MEAN,DEVIATION, lognormal:p50=TIME,p99=TIME, quantiles:p50=TIME,p99=TIME, \
                     tail:TIME,1/1000:TIME or histogram:FILE";

impl FromStr for OperationSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (takes, per_kib) = match text.rsplit_once('+') {
            Some((takes, per_kib)) if !text.starts_with("histogram:") || per_kib.ends_with("/KiB") => {
                let time = per_kib.trim().strip_suffix("/KiB").ok_or_else(|| {
                    wrong(format!("\"+{per_kib}\" is no time a KiB"), "write it as \"10ms +4us/KiB\"")
                })?;
                (takes.trim(), span(time)?)
            }
            _ => (text.trim(), Span::ZERO),
        };
        Ok(Self { text: text.trim().to_owned(), takes: takes_of(takes)?, us_per_kib: us(per_kib) })
    }
}

fn takes_of(text: &str) -> Result<Takes, SpecError> {
    let Some((kind, rest)) = text.split_once(':') else {
        return Ok(Takes::Known(Distribution::Constant { us: us(span(text)?) }));
    };
    let known = match kind {
        "normal" => normal(rest)?,
        "lognormal" => lognormal(rest)?,
        "quantiles" => quantiles(rest)?,
        "tail" => tail(rest)?,
        "histogram" if rest.is_empty() => return Err(wrong("histogram: names no file", "write histogram:FILE.json")),
        "histogram" => return Ok(Takes::File(rest.to_owned())),
        _ => return Err(wrong(format!("\"{kind}\" is no distribution"), FORMS)),
    };
    Ok(Takes::Known(known))
}

fn span(text: &str) -> Result<Span, SpecError> {
    let read: Span = text.trim().parse().map_err(|error| wrong(format!("{error}"), FORMS))?;
    if read > LONGEST {
        return Err(wrong(format!("an operation cannot take {read}"), format!("{LONGEST} is the most")));
    }
    Ok(read)
}

fn us(span: Span) -> f64 {
    span.as_ns() as f64 / 1000.0
}

fn normal(text: &str) -> Result<Distribution, SpecError> {
    let example = "write normal:10ms,2ms, the mean and the standard deviation";
    let (mean, sd) = text.split_once(',').ok_or_else(|| wrong("normal: takes a mean and a deviation", example))?;
    let (mean_us, sd_us) = (us(span(mean)?), us(span(sd)?));
    if sd_us * 3.0 > mean_us {
        let hint =
            "a deviation of at most a third of the mean, or lognormal:p50=TIME,p99=TIME, which has no negative times";
        return Err(wrong(format!("normal:{text} would have many times below 0"), hint));
    }
    Ok(Distribution::Normal { mean_us, sd_us })
}

fn lognormal(text: &str) -> Result<Distribution, SpecError> {
    let example = "write lognormal:p50=1ms,p99=10ms";
    let points = points(text, example)?;
    match points.as_slice() {
        [(0.5, p50), (0.99, p99)] if *p50 > 0.0 && p99 > p50 => {
            Ok(Distribution::Lognormal { p50_us: *p50, p99_us: *p99 })
        }
        _ => Err(wrong(format!("lognormal:{text} does not say a median and a larger 99th percentile"), example)),
    }
}

fn quantiles(text: &str) -> Result<Distribution, SpecError> {
    let example = "write quantiles:p50=0.5ms,p99=2ms,p99.9=9ms, ascending";
    let points = points(text, example)?;
    if let Some(pair) = points.windows(2).find(|pair| pair[1].0 <= pair[0].0) {
        let (one, next) = (pair[0].0 * 100.0, pair[1].0 * 100.0);
        return Err(wrong(format!("quantiles:{text}: p{next} is not above p{one}"), example));
    }
    let table = Table::of(points).map_err(|why| wrong(format!("quantiles:{text}: {why}"), example))?;
    Ok(Distribution::Table(table))
}

/// `p50=1ms,p99=10ms`.
fn points(text: &str, example: &str) -> Result<Vec<(f64, f64)>, SpecError> {
    fn split(part: &str) -> Option<(f64, &str)> {
        let (name, time) = part.split_once('=')?;
        let percent: f64 = name.trim().strip_prefix('p')?.parse().ok()?;
        (0.0..=100.0).contains(&percent).then_some((percent / 100.0, time))
    }
    let point = |part: &str| {
        let (p, time) = split(part).ok_or_else(|| wrong(format!("\"{part}\" is no quantile"), example))?;
        Ok((p, us(span(time)?)))
    };
    text.split(',').map(point).collect()
}

fn tail(text: &str) -> Result<Distribution, SpecError> {
    let example = "write tail:0.2ms,1/1000:80ms";
    let mut parts = text.split(',');
    let us_of_most = us(span(parts.next().unwrap_or_default())?);
    let mut rare = Vec::new();
    for part in parts {
        let read = part.trim().strip_prefix("1/").and_then(|part| part.split_once(':'));
        let (one_in, time) = read.ok_or_else(|| wrong(format!("\"{part}\" is no rare time"), example))?;
        let one_in: f64 = one_in.parse().ok().filter(|number| *number >= 2.0).ok_or_else(|| {
            wrong(format!("\"{part}\": 1 in {one_in} is not rare"), format!("{example}, with a number of 2 or more"))
        })?;
        rare.push(Rare { one_in, us: us(span(time)?) });
    }
    rare.sort_by(|a, b| a.us.total_cmp(&b.us));
    let share: f64 = rare.iter().map(|rare| 1.0 / rare.one_in).sum();
    if rare.is_empty() || share >= 1.0 || rare.iter().any(|rare| rare.us < us_of_most) {
        return Err(wrong(format!("tail:{text} does not say one time for most and longer ones for a few"), example));
    }
    Ok(Distribution::Tail { us: us_of_most, rare })
}

impl OperationSpec {
    /// The file that holds the histogram, if there is one.
    pub fn file(&self) -> Option<&str> {
        match &self.takes {
            Takes::File(file) => Some(file),
            Takes::Known(_) => None,
        }
    }

    /// Makes the operation. `read` returns the bins of the histogram in a file.
    ///
    /// # Errors
    /// There is no such histogram.
    pub fn resolve(&self, read: &mut dyn FnMut(&str) -> Result<Vec<Bin>, String>) -> Result<Operation, SpecError> {
        let takes = match &self.takes {
            Takes::Known(distribution) => distribution.clone(),
            Takes::File(file) => {
                let hint =
                    "name a file that holds one latency histogram: `wringer probe read PATH -o json`, or fio's json+";
                let table = read(file).and_then(|bins| Table::of_histogram(&bins));
                Distribution::Table(table.map_err(|why| wrong(format!("histogram:{file}: {why}"), hint))?)
            }
        };
        Ok(Operation { takes, us_per_kib: self.us_per_kib, sequential: None })
    }

    /// The distribution, when no file is needed for it; else `None`.
    pub fn known(&self) -> Option<&Distribution> {
        match &self.takes {
            Takes::Known(distribution) => Some(distribution),
            Takes::File(_) => None,
        }
    }

    pub fn is_none(&self) -> bool {
        self.known().is_some_and(Distribution::is_none) && self.us_per_kib == 0.0
    }
}

/// The text as the user wrote it.
impl fmt::Display for OperationSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.takes {
            Takes::Known(Distribution::Constant { us }) if self.us_per_kib == 0.0 => {
                write!(f, "{}", crate::distribution::time(*us))
            }
            _ => f.write_str(&self.text),
        }
    }
}

impl Serialize for OperationSpec {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// A rate with its options: `3000`, `300,burst=3000,capacity=5400000,credits=0,unit=256K,merge`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LimitSpec {
    rate: f64,
    burst: Option<f64>,
    capacity: Option<f64>,
    credits: Option<f64>,
    unit: Option<u64>,
    merge: bool,
}

impl LimitSpec {
    /// # Errors
    /// Names the wrong part, and the correct form.
    pub fn parse(text: &str, counts: Counts) -> Result<Self, SpecError> {
        let (example, amount): (_, fn(&str) -> Option<f64>) = match counts {
            Counts::Operations => {
                ("write 3000, or 300,burst=3000,capacity=5400000,credits=0", |text| text.parse().ok())
            }
            Counts::Bytes => ("write 125M, or 40M,burst=250M,capacity=1T,credits=0", |text| {
                text.parse::<Bytes>().ok().map(|bytes| bytes.0 as f64)
            }),
        };
        let amount = |text: &str| {
            let read = amount(text.trim()).filter(|number| number.is_finite() && *number >= 0.0);
            read.ok_or_else(|| wrong(format!("\"{text}\" is no amount"), example))
        };
        let mut parts = text.split(',');
        let rate = amount(parts.next().unwrap_or_default())?;
        if rate < 1.0 {
            return Err(wrong(format!("a limit of {rate} a second lets nothing through"), example));
        }
        let mut words = Self { rate, burst: None, capacity: None, credits: None, unit: None, merge: false };
        for part in parts {
            match part.trim().split_once('=') {
                Some(("burst", value)) => words.burst = Some(amount(value)?),
                Some(("capacity", value)) => words.capacity = Some(amount(value)?),
                Some(("credits", value)) => words.credits = Some(amount(value)?),
                Some(("unit", value)) if counts == Counts::Operations => words.unit = Some(unit(value)?),
                None if part.trim() == "merge" && counts == Counts::Operations => words.merge = true,
                _ => return Err(wrong(format!("\"{part}\" is no part of a limit"), example)),
            }
        }
        words.check(text, example)
    }

    fn check(self, text: &str, example: &str) -> Result<Self, SpecError> {
        if self.burst.is_some_and(|burst| burst <= self.rate) {
            return Err(wrong(format!("\"{text}\": the burst is not above the rate"), example));
        }
        if self.burst.is_some() && self.capacity.is_none_or(|capacity| capacity == 0.0) {
            return Err(wrong(format!("\"{text}\": without a capacity no credits can be saved for a burst"), example));
        }
        if self.credits.unwrap_or(0.0) > self.capacity.unwrap_or(0.0) {
            return Err(wrong(format!("\"{text}\": there are more credits than the capacity holds"), example));
        }
        Ok(self)
    }

    pub(crate) fn limit(&self, counts: Counts) -> Limit {
        let capacity = self.capacity.unwrap_or(0.0);
        Limit {
            counts,
            of: Of::Both,
            rate_per_second: self.rate,
            burst_per_second: self.burst,
            capacity,
            credits: self.credits.unwrap_or(capacity),
            unit_bytes: self.unit,
            merge: self.merge,
        }
    }
}

pub(crate) fn unit(text: &str) -> Result<u64, SpecError> {
    let read = text.trim().parse::<Bytes>().ok().filter(|bytes| bytes.0 >= 512);
    read.map(|bytes| bytes.0).ok_or_else(|| wrong(format!("\"{text}\" is no size of an operation"), "write unit=256K"))
}

/// `every=60s,lasting=2s,factor=50`.
impl FromStr for Stalls {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let example = "write every=60s,lasting=2s,factor=50";
        let (mut every, mut lasting, mut factor) = (None, None, None);
        for part in text.split(',') {
            match part.trim().split_once('=') {
                Some(("every", value)) => every = value.parse::<Span>().ok().map(us),
                Some(("lasting", value)) => lasting = value.parse::<Span>().ok().map(us),
                Some(("factor", value)) => factor = value.parse::<f64>().ok(),
                _ => return Err(wrong(format!("\"{part}\" is no part of a stall"), example)),
            }
        }
        match (every, lasting, factor) {
            (Some(every_us), Some(lasting_us), Some(factor))
                if lasting_us > 0.0 && every_us > lasting_us && factor > 1.0 && factor <= 10_000.0 =>
            {
                Ok(Self { every_us, lasting_us, factor })
            }
            _ => Err(wrong(format!("\"{text}\" does not say how often, how long and how much slower"), example)),
        }
    }
}
