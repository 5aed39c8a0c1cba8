// SPDX-License-Identifier: Apache-2.0
//! `assert`: conditions on the result of an arm.

use crate::model::{Asserted, DriverProgram, Load};
use crate::problem::Problems;
use crate::replayed::Speed;
use crate::tree::{Node, Table, Value};
use assertion::Assertion;
use evidence::Arrivals;

const GRAMMAR: &str = "write [CLASS] [response|service] FIGURE RELATION VALUE, such as \"p99<20ms\", \"queries/s>1000\" or \"errors=0\"; of what the \
    run records, NAME RELATION VALUE, such as \"memory.explained>=0.9\", \"stalls.count=0\" or \"article VSZ over RSS>1\"";

/// Reads the assertions of an arm. `merged`: the file's keys, with the arm's own in place of them.
pub(super) fn read(merged: &Table, load: &Load, problems: &Problems) -> Vec<Asserted> {
    let Some(node) = merged.get("assert") else { return Vec::new() };
    let one = std::slice::from_ref(node);
    let items = match &node.value {
        Value::List(items) => items.as_slice(),
        Value::Text(_) => one,
        other => {
            let message = format!("assert is {}, not a list of texts", other.kind());
            problems.add(&node.at, message, Some("write assert = [\"p99<20ms\", \"errors=0\"]".into()));
            return Vec::new();
        }
    };
    let has_rate = merged.table("load").is_some_and(|load| load.get("rate").is_some());
    items.iter().filter_map(|item| asserted(item, load, has_rate, problems)).collect()
}

fn asserted(item: &Node, load: &Load, has_rate: bool, problems: &Problems) -> Option<Asserted> {
    let Value::Text(text) = &item.value else {
        let message = format!("assert has {} in it, not a text", item.value.kind());
        problems.add(&item.at, message, Some(GRAMMAR.into()));
        return None;
    };
    let assertion: Assertion = match Assertion::of_run(text) {
        Ok(assertion) => assertion,
        Err(error) => {
            problems.add(&item.at, format!("\"{text}\" is no assertion: {}", error.reason()), Some(GRAMMAR.into()));
            return None;
        }
    };
    if let Some((why, hint)) = untold(&assertion, load, has_rate) {
        problems.add(&item.at, format!("\"{text}\" cannot be asserted: {why}"), Some(hint.into()));
    }
    Some(Asserted { assertion, place: problems.place(&item.at) })
}

/// Refuses an assertion on a figure that another program does not report: the assertion would always fail, or never.
///
/// `has_rate`: a rate is written; where it is wrong, that was told.
fn untold(assertion: &Assertion, load: &Load, has_rate: bool) -> Option<(String, &'static str)> {
    if let Some(replay) = &load.replay {
        return match (assertion.figure(), replay.speed) {
            (Some("backlog"), _) => Some((
                "a replay has no backlog, for each connection waits for its own statements".into(),
                "late counts statements that started late",
            )),
            (Some("late"), Speed::Max) => Some((
                "with speed = \"max\" no statement has a moment to be late for".into(),
                "write speed = 1, or another figure",
            )),
            _ => None,
        };
    }
    let Some(driver) = load.driver.as_ref() else {
        let figure = assertion.of_arrivals().filter(|_| load.arrivals == Arrivals::Closed && !has_rate)?;
        return Some((format!("without a rate nothing is {figure}"), "write load.rate, or another figure"));
    };
    let program = match driver.program {
        DriverProgram::Command => "a command".to_owned(),
        program => program.name().to_owned(),
    };
    let told = "it tells latencies of whole transactions, transactions/s and errors";
    if let Some(figure) = assertion.of_arrivals() {
        return Some((format!("{program} does not say how many were {figure}"), told));
    }
    if assertion.class().is_some() || assertion.is_of_connecting() {
        return Some((format!("{program} does not tell the statements apart, nor how long connecting took"), told));
    }
    if driver.program != DriverProgram::Pgbench {
        return None;
    }
    match assertion.figure() {
        Some(figure @ ("queries/s" | "reconnects")) => Some((format!("pgbench does not count {figure}"), told)),
        None if !driver.logs() => {
            Some(("pgbench tells single latencies only in its log".into(), "write \"-l\" into load.arguments"))
        }
        _ => None,
    }
}
