// SPDX-License-Identifier: Apache-2.0
//! The result of one injection: the figures that were asked for, and the measured ones.

use crate::Injection;
use serde::Serialize;

/// One injection that was carried out, or tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Injected {
    pub cause: &'static str,
    /// The length that was asked for.
    pub asked_us: u64,
    /// The moment that was asked for, from when everything was ready.
    pub asked_at_us: u64,
    /// When it began, in microseconds since 1970 by this host's clock. `None`: it did not begin.
    pub started_us: Option<u64>,
    /// The time from its begin to its end, by the clock of the code that planted it.
    pub length_us: Option<u64>,
    /// Whether the stall took effect: the witness waited for at least four fifths of the length. `None`: not known.
    pub bit: Option<bool>,
    pub witness: Option<Witness>,
    /// The table that was held, or read.
    pub table: Option<String>,
    /// Why it took no effect, did not begin, or why its effect is not known.
    pub why: Option<String>,
}

/// The measurement of the witness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Witness {
    /// The measured quantity, with its unit.
    pub what: String,
    pub value: u64,
}

/// The result of a stall that began.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bite {
    pub(crate) started_us: u64,
    pub(crate) length_us: u64,
    pub(crate) bit: Option<bool>,
    pub(crate) witness: Option<Witness>,
    pub(crate) why: Option<String>,
}

impl Injected {
    pub(crate) fn of(asked: &Injection, table: Option<String>, bite: Bite) -> Self {
        let Bite { started_us, length_us, bit, witness, why } = bite;
        let (started_us, length_us) = (Some(started_us), Some(length_us));
        Self { started_us, length_us, bit, witness, table, why, ..Self::not(asked, String::new()) }
    }

    /// The result of an injection that did not begin.
    pub(crate) fn not(asked: &Injection, why: String) -> Self {
        Self {
            cause: asked.cause.name(),
            asked_us: asked.length_us,
            asked_at_us: asked.at_us,
            started_us: None,
            length_us: None,
            bit: Some(false),
            witness: None,
            table: None,
            why: Some(why),
        }
    }
}

/// Whether a witness that waited for `waited_us` shows a stall of `length_us`. It may have come a little later than the stall, and two clocks
/// were read.
pub(crate) fn has_bitten(waited_us: u64, length_us: u64) -> bool {
    waited_us.saturating_mul(5) >= length_us.saturating_mul(4)
}
