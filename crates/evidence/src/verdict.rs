// SPDX-License-Identifier: Apache-2.0
use crate::{Quantity, Unit};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The result of an assertion: the asked and the measured value, side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The text of the assertion: `p99<20ms`.
    pub assertion: String,
    pub passed: bool,
    /// A latency is in microseconds.
    pub asked: Quantity,
    /// In the unit of `asked`; `None`: there was nothing to measure.
    pub measured: Option<f64>,
    /// The true value may be higher than `measured`: transactions were due that had not ended when the load did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

impl Verdict {
    /// `31.250 ms`, `812.4/s`, `3`, `64.0 MiB`, `0.987`; `nothing` when there was nothing to measure. A lower bound is told as one.
    pub fn measured_text(&self) -> String {
        let value = self.value_text();
        if self.at_least { format!(">= {value} (not all had ended)") } else { value }
    }

    fn value_text(&self) -> String {
        match (self.measured, self.asked.unit) {
            (None, _) => "nothing".into(),
            (Some(us), Unit::Microseconds) => format!("{:.3} ms", us / 1e3),
            (Some(rate), Unit::PerSecond) => format!("{rate:.1}/s"),
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a size is no less than 0
            (Some(bytes), Unit::Bytes) => units::Bytes(bytes as u64).to_string(),
            (Some(ratio), Unit::Ratio) => format!("{ratio:.3}"),
            (Some(count), Unit::Count) => format!("{count:.0}"),
        }
    }

    /// The keys contain the unit: `asked_us`, `asked_per_second`, `asked_bytes`; `asked` for a count and a ratio.
    pub fn json(&self) -> Value {
        let suffix = match self.asked.unit {
            Unit::Microseconds => "_us",
            Unit::PerSecond => "_per_second",
            Unit::Bytes => "_bytes",
            Unit::Count | Unit::Ratio => "",
        };
        let mut value = json!({ "assertion": self.assertion, "passed": self.passed });
        value[format!("asked{suffix}")] = json!(self.asked.value);
        value[format!("measured{suffix}")] = json!(self.measured);
        if self.at_least {
            value["measured_at_least"] = json!(true);
        }
        value
    }
}
