// SPDX-License-Identifier: Apache-2.0
//! What came of one injection: asked and measured side by side.

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
    /// From when it began to when it was taken away again, by the clock of who planted it.
    pub length_us: Option<u64>,
    /// Whether the witness was held up for four fifths of the length at least. `None`: nobody can tell.
    pub bit: Option<bool>,
    pub witness: Option<Witness>,
    /// The table that was held, or read.
    pub table: Option<String>,
    /// Why it did not bite, did not begin, or cannot be told.
    pub why: Option<String>,
}

/// Who saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Witness {
    /// What was measured, with its unit.
    pub what: String,
    pub value: u64,
}

/// Of a stall that began.
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

    /// It did not begin.
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

/// Whether a witness that was held up for `waited_us` has seen a stall of `length_us`: it may have come a little later, and two clocks were
/// read.
pub(crate) fn has_bitten(waited_us: u64, length_us: u64) -> bool {
    waited_us.saturating_mul(5) >= length_us.saturating_mul(4)
}
