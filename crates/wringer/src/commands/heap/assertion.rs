// SPDX-License-Identifier: Apache-2.0
//! Assertions on a profile: `growth<1M`, `Log_event::read_log_event<4M`.

use heap::Growth;
use serde::Serialize;
use std::str::FromStr;
use units::Bytes;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assertion {
    text: String,
    /// `None`: no function.
    function: Option<String>,
    limit: Bytes,
}

impl FromStr for Assertion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (what, limit) = text.rsplit_once('<').ok_or("write it as growth<1M, or FUNCTION<4M")?;
        let limit = limit.trim().parse().map_err(|error: units::ParseError| error.to_string())?;
        let what = what.trim();
        if what.is_empty() {
            return Err("a function is missing ahead of `<`, or the word growth".to_owned());
        }
        Ok(Self { text: text.to_owned(), function: (what != "growth").then(|| what.to_owned()), limit })
    }
}

/// Whether an assertion holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Verdict {
    pub(super) assertion: String,
    /// `None`: it is not known, because the profiler hides too many bytes below its threshold.
    pub(super) holds: Option<bool>,
    /// The measured bytes: for `growth`, the largest growth of all functions; for a function, the bytes that it holds at the end.
    pub(super) bytes: i128,
    pub(super) at_most_bytes: i128,
    pub(super) function: Option<String>,
}

impl Assertion {
    pub(super) fn judge(&self, grown: &[Growth], hidden_bytes: u64) -> Verdict {
        let limit = i128::from(self.limit.0);
        let (bytes, at_most_bytes, function) = match &self.function {
            None => match grown.first() {
                Some(most) => (most.growth_bytes, most.high_bytes, Some(most.function.clone())),
                None => (0, i128::from(hidden_bytes), None),
            },
            Some(name) => {
                let of_name = grown.iter().filter(|it| it.function == *name || base(&it.function) == name);
                let bytes = of_name.map(|it| i128::from(it.after_bytes)).sum();
                (bytes, bytes + i128::from(hidden_bytes), Some(name.clone()))
            }
        };
        let holds = match () {
            () if bytes >= limit => Some(false),
            () if at_most_bytes < limit => Some(true),
            () => None,
        };
        Verdict { assertion: self.text.clone(), holds, bytes, at_most_bytes, function }
    }
}

/// The function without its arguments.
fn base(function: &str) -> &str {
    function.split_once('(').map_or(function, |(name, _)| name)
}
