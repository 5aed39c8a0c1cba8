// SPDX-License-Identifier: Apache-2.0
//! The result of one injection: the figures that were asked for, and the measured ones.

use crate::Injection;
use serde::Serialize;
use std::collections::BTreeMap;

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
    /// The server's number of the connection that held a lock, or read the table: what a watch of the server has as `held_by`. `None`: no connection did.
    pub held_by: Option<u64>,
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
    /// The server's number of the connection that waited, where the witness is a connection: a watch of the server has it among the victims.
    pub connection: Option<u64>,
}

/// The result of a stall that began.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bite {
    pub(crate) started_us: u64,
    pub(crate) length_us: u64,
    pub(crate) bit: Option<bool>,
    pub(crate) witness: Option<Witness>,
    pub(crate) held_by: Option<u64>,
    pub(crate) why: Option<String>,
}

impl Injected {
    pub(crate) fn of(asked: &Injection, table: Option<String>, bite: Bite) -> Self {
        let Bite { started_us, length_us, bit, witness, held_by, why } = bite;
        let (started_us, length_us) = (Some(started_us), Some(length_us));
        Self { started_us, length_us, bit, witness, held_by, table, why, ..Self::not(asked, String::new()) }
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
            held_by: None,
            table: None,
            why: Some(why),
        }
    }

    /// The facts beside begin and length, as attributes of a span in a recording; a fact that is not known is missing.
    pub fn attributes(&self) -> BTreeMap<String, String> {
        let Self { cause, asked_us, asked_at_us, started_us, bit, witness, held_by, table, why, .. } = self;
        let yes_or_no = |it: bool| if it { "yes" } else { "no" }.to_owned();
        let of_witness = |fact: fn(&Witness) -> Option<String>| witness.as_ref().and_then(fact);
        let facts = [
            ("cause", Some((*cause).to_owned())),
            ("asked_us", Some(asked_us.to_string())),
            ("asked_at_us", Some(asked_at_us.to_string())),
            ("began", Some(yes_or_no(started_us.is_some()))),
            ("bit", bit.map(yes_or_no)),
            ("witness", of_witness(|it| Some(it.what.clone()))),
            ("witness_value", of_witness(|it| Some(it.value.to_string()))),
            ("witness_connection", of_witness(|it| it.connection.map(|number| number.to_string()))),
            ("held_by", held_by.map(|number| number.to_string())),
            ("table", table.clone()),
            ("why", why.clone()),
        ];
        facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?))).collect()
    }
}

/// Whether a witness that waited for `waited_us` shows a stall of `length_us`. It may have come a little later than the stall, and two clocks
/// were read.
pub(crate) fn has_bitten(waited_us: u64, length_us: u64) -> bool {
    waited_us.saturating_mul(5) >= length_us.saturating_mul(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stalls::Cause;

    const ASKED: Injection = Injection { cause: Cause::RowLock, at_us: 2_000_000, length_us: 400_000 };

    fn attributes(injected: &Injected) -> Vec<(String, String)> {
        injected.attributes().into_iter().collect()
    }

    #[test]
    fn a_planted_stall_has_an_attribute_for_each_known_fact() {
        let witness = Witness { what: "microseconds".into(), value: 398_000, connection: Some(8) };
        let (witness, held_by) = (Some(witness), Some(7));
        let bite = Bite { started_us: 9, length_us: 401_000, bit: Some(true), witness, held_by, why: None };
        let told = attributes(&Injected::of(&ASKED, Some("t".into()), bite));
        let told: Vec<(&str, &str)> = told.iter().map(|(name, fact)| (name.as_str(), fact.as_str())).collect();
        let of_asked = [("asked_at_us", "2000000"), ("asked_us", "400000"), ("began", "yes"), ("bit", "yes")];
        let more = [("cause", "row_lock"), ("held_by", "7"), ("table", "t"), ("witness", "microseconds")];
        let of_witness = [("witness_connection", "8"), ("witness_value", "398000")];
        assert_eq!(told, [&of_asked[..], &more, &of_witness].concat());
    }

    #[test]
    fn of_a_stall_that_did_not_begin_nothing_is_made_up() {
        let told = attributes(&Injected::not(&ASKED, "no such row".into()));
        let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["asked_at_us", "asked_us", "began", "bit", "cause", "why"], "{told:?}");
    }
}
