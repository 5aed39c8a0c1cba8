// SPDX-License-Identifier: Apache-2.0
//! Latency histograms in the formats of several tools, read into bins.
//!
//! Understood: our own JSON (a histogram, or any document that holds one), sysbench's `--histogram` output, fio's `json+` (the
//! `clat_ns`, `lat_ns` and `slat_ns` bins), HdrHistogram logs, and tables of value and count with a unit in the heading.
//! Some tools write one number for each bin, without its width: each reader states its source for the width.

mod fio;
mod hdr;
mod merge;
mod table;

use evidence::LatencyHistogram;
use modes::{Bin, bins_of};
use serde_json::Value;

pub use merge::merge;

/// The unit in which most programs fill an HdrHistogram.
const NANOSECOND_US: f64 = 1e-3;

/// One histogram that was found in a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// Its place in the text: `sysbench`, `jobs[0].read.clat_ns`, `arms[2].load.transaction.service`.
    pub name: String,
    pub bins: Vec<Bin>,
    /// The read delay that the document itself contains, in microseconds.
    pub delay_us: Option<f64>,
}

/// Why nothing was read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "no histogram found: sysbench --histogram, fio --output-format=json+, an HdrHistogram log, Wringer's JSON, or lines of value \
         and count are understood"
    )]
    None,
    #[error("{at}: {why}")]
    Broken { at: String, why: String },
}

/// Reads every histogram in a text, from any known tool.
///
/// # Errors
/// There is no histogram, or one is broken.
pub fn read(text: &str) -> Result<Vec<Named>, Error> {
    read_in(text, None)
}

/// Like [`read`], with a unit in microseconds (1000 for milliseconds) for formats without a unit: HdrHistogram logs and tables.
///
/// # Errors
/// The errors of [`read`].
pub fn read_in(text: &str, unit_us: Option<f64>) -> Result<Vec<Named>, Error> {
    let document = document(text);
    let found = match &document {
        Some(Ok(document)) => in_json(document)?,
        _ if hdr::is_log(text) => hdr::read(text, unit_us.unwrap_or(NANOSECOND_US))?,
        _ => table::read(text, unit_us)?,
    };
    let mut found: Vec<Named> = found.into_iter().filter(|named| !named.bins.is_empty()).collect();
    found.iter_mut().try_for_each(tidy)?;
    match document {
        _ if !found.is_empty() => Ok(found),
        Some(Err(broken)) => Err(broken),
        _ => Err(Error::None),
    }
}

/// A JSON document: the whole text, or the text from some line on, because fio writes remarks above its document. `None`: there is none.
fn document(text: &str) -> Option<Result<Value, Error>> {
    if let Ok(document) = serde_json::from_str(text) {
        return Some(Ok(document));
    }
    let mut offset = 0;
    for (line, content) in text.split_inclusive('\n').enumerate() {
        if content.trim_end().starts_with('{') {
            let first = serde_json::Deserializer::from_str(&text[offset..]).into_iter().next()?;
            return Some(first.map_err(|error| broken(line, &error)));
        }
        offset += content.len();
    }
    None
}

/// `lines`: the number of lines before the document.
fn broken(lines: usize, error: &serde_json::Error) -> Error {
    let why = error.to_string();
    let why = why.rsplit_once(" at line ").map_or(why.as_str(), |(why, _)| why).to_owned();
    Error::Broken { at: format!("line {}, column {}", lines + error.line(), error.column()), why }
}

/// Sorts the bins, and checks that the sum of the counts is not too large.
fn tidy(named: &mut Named) -> Result<(), Error> {
    named.bins.sort_by(|a, b| a.low_us.total_cmp(&b.low_us));
    let sum = named.bins.iter().try_fold(0u64, |sum, bin| sum.checked_add(bin.count));
    let broken = || Error::Broken { at: named.name.clone(), why: "the counts add up to more than 2^64".to_owned() };
    sum.map(|_| ()).ok_or_else(broken)
}

fn in_json(document: &Value) -> Result<Vec<Named>, Error> {
    let mut found = fio::read(document)?;
    let mut walk = Walk { found: Vec::new(), delay_us: None };
    walk.visit("", document)?;
    found.append(&mut walk.found);
    Ok(found)
}

/// Looks for our own histograms anywhere in a document.
struct Walk {
    found: Vec<Named>,
    delay_us: Option<f64>,
}

impl Walk {
    fn visit(&mut self, path: &str, value: &Value) -> Result<(), Error> {
        match value {
            Value::Object(map) if map.get("encoding").is_some() && map.get("data").is_some() => self.take(path, value),
            Value::Object(map) => {
                let before = self.delay_us;
                let delay = map.get("delay").filter(|delay| delay.get("read_us").is_some());
                // of a delay that varies, the time of a read is not known
                let read_us =
                    |delay: &Value| delay["read_us"].as_f64().filter(|_| delay["varies"] != Value::Bool(true));
                self.delay_us = delay.map_or(before, read_us);
                for (key, inner) in map {
                    self.visit(&if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, inner)?;
                }
                self.delay_us = before;
                Ok(())
            }
            Value::Array(items) => {
                items.iter().enumerate().try_for_each(|(index, inner)| self.visit(&format!("{path}[{index}]"), inner))
            }
            _ => Ok(()),
        }
    }

    fn take(&mut self, path: &str, value: &Value) -> Result<(), Error> {
        let at = if path.is_empty() { "histogram".to_owned() } else { path.to_owned() };
        let read = serde_json::from_value::<LatencyHistogram>(value.clone());
        let histogram = read.map_err(|error| Error::Broken { at: at.clone(), why: error.to_string() })?;
        self.found.push(Named { name: at, bins: bins_of(&histogram), delay_us: self.delay_us });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
