// SPDX-License-Identifier: Apache-2.0
//! A stall as parts of a recording, and back: the stall and each of its victims is a span with attributes, all of them text.

use crate::cause::{Cause, Evidence};
use crate::explained::{Stall, Victim};
use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error, StrDeserializer};
use std::collections::BTreeMap;
use std::str::FromStr;

/// A span: when it began, how long it was, and its attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Microseconds, on the caller's clock. `None`: the begin is not known.
    pub started_us: Option<i64>,
    pub length_us: u64,
    /// A stall has `number`, `cause`, `confidence` (0 to 1), `lost_query_us`, `ends_within_us`, `goes_on` (`yes`: it was not over when it was told), `held_by` (connections), `victims` (all of them), `for` and `against` (the
    /// evidence, one line each). A victim has `stall` (its number), `connection`, `thread`, `statement` (its class), `statement_with_values` where that
    /// was asked for, `lost_query_us`.
    pub attributes: BTreeMap<String, String>,
}

/// A stall and its victims, as far as they are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    pub stall: Part,
    pub victims: Vec<Part>,
}

impl Parts {
    /// `number`: distinguishes this stall from the other stalls of the same watch.
    pub fn of(stall: &Stall, number: u64) -> Self {
        let attributes = [
            ("number", number.to_string()),
            ("cause", stall.cause.name().to_owned()),
            ("confidence", stall.confidence.to_string()),
            ("lost_query_us", stall.lost_query_us.to_string()),
            ("ends_within_us", stall.ends_within_us.to_string()),
            ("goes_on", if stall.goes_on { "yes" } else { "" }.to_owned()),
            ("victims", stall.victim_count.to_string()),
            ("held_by", stall.held_by.join(" ")),
            ("for", lines(&stall.evidence.speaks_for)),
            ("against", lines(&stall.evidence.against)),
        ];
        Self {
            stall: Part { started_us: stall.started_us, length_us: stall.length_us, attributes: known(attributes) },
            victims: stall.victims.iter().map(|victim| of_victim(victim, number)).collect(),
        }
    }

    /// Attributes that are missing count as 0 or empty; a cause that this build does not know becomes `unknown`.
    pub fn stall(&self) -> Stall {
        let Part { started_us, length_us, attributes } = &self.stall;
        let evidence = Evidence { speaks_for: listed(attributes, "for"), against: listed(attributes, "against") };
        Stall {
            started_us: *started_us,
            length_us: *length_us,
            cause: attributes.get("cause").and_then(|name| cause(name)).unwrap_or(Cause::Unknown),
            confidence: number(attributes, "confidence").filter(|it: &f64| it.is_finite()).unwrap_or(0.0),
            lost_query_us: number(attributes, "lost_query_us").unwrap_or(0),
            ends_within_us: number(attributes, "ends_within_us").unwrap_or(0),
            goes_on: attributes.contains_key("goes_on"),
            evidence,
            held_by: words(attributes, "held_by"),
            victim_count: number(attributes, "victims").unwrap_or(0),
            victims: self.victims.iter().map(victim).collect(),
        }
    }
}

impl Part {
    /// The number of the stall; for a victim, the number of its stall. `None`: it has none.
    pub fn number(&self) -> Option<u64> {
        number(&self.attributes, "number").or_else(|| number(&self.attributes, "stall"))
    }
}

fn of_victim(victim: &Victim, stall: u64) -> Part {
    let attributes = [
        ("stall", stall.to_string()),
        ("connection", victim.connection.clone().unwrap_or_default()),
        ("thread", victim.thread.map(|it| it.to_string()).unwrap_or_default()),
        ("statement", victim.statement.to_string()),
        ("statement_with_values", victim.statement_with_values.clone().unwrap_or_default()),
        ("lost_query_us", victim.lost_query_us.to_string()),
    ];
    Part { started_us: victim.started_us, length_us: victim.length_us, attributes: known(attributes) }
}

fn victim(part: &Part) -> Victim {
    let text = |name: &str| part.attributes.get(name).cloned();
    Victim {
        connection: text("connection"),
        thread: number(&part.attributes, "thread"),
        statement: text("statement").unwrap_or_default().into(),
        statement_with_values: text("statement_with_values"),
        started_us: part.started_us,
        length_us: part.length_us,
        lost_query_us: number(&part.attributes, "lost_query_us").unwrap_or(0),
    }
}

/// The attributes that are not empty.
fn known<const N: usize>(attributes: [(&str, String); N]) -> BTreeMap<String, String> {
    let known = attributes.into_iter().filter(|(_, text)| !text.is_empty());
    known.map(|(name, text)| (name.to_owned(), text)).collect()
}

fn lines(evidence: &[String]) -> String {
    let lines: Vec<String> = evidence.iter().map(|it| it.replace('\n', " ")).collect();
    lines.join("\n")
}

fn listed(attributes: &BTreeMap<String, String>, name: &str) -> Vec<String> {
    attributes.get(name).map(|text| text.lines().map(str::to_owned).collect()).unwrap_or_default()
}

fn words(attributes: &BTreeMap<String, String>, name: &str) -> Vec<String> {
    attributes.get(name).map(|text| text.split(' ').map(str::to_owned).collect()).unwrap_or_default()
}

fn number<T: FromStr>(attributes: &BTreeMap<String, String>, name: &str) -> Option<T> {
    attributes.get(name)?.parse().ok()
}

fn cause(name: &str) -> Option<Cause> {
    let name: StrDeserializer<'_, Error> = name.into_deserializer();
    Cause::deserialize(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stall() -> Stall {
        let victim = |connection: u32, with_values: Option<&str>| Victim {
            connection: Some(connection.to_string()),
            thread: Some(connection + 100),
            statement: "select c from t where id = ?".into(),
            statement_with_values: with_values.map(str::to_owned),
            started_us: Some(5_000_000),
            length_us: 300_000,
            lost_query_us: 299_000,
        };
        Stall {
            started_us: Some(5_000_000),
            length_us: 301_000,
            cause: Cause::RowLock,
            confidence: 0.95,
            lost_query_us: 598_000,
            ends_within_us: 1000,
            goes_on: true,
            evidence: Evidence { speaks_for: vec!["one".into(), "two".into()], against: Vec::new() },
            held_by: vec!["3".into(), "9".into()],
            victim_count: 2,
            victims: vec![victim(7, None), victim(8, Some("select c from t where id = 1"))],
        }
    }

    #[test]
    fn a_stall_comes_back_as_it_was() {
        let parts = Parts::of(&stall(), 3);
        assert_eq!(parts.stall.number(), Some(3));
        assert!(parts.victims.iter().all(|victim| victim.number() == Some(3)), "{parts:?}");
        assert_eq!(parts.stall(), stall());
    }

    #[test]
    fn a_cause_of_a_newer_build_is_unknown_and_the_rest_stays() {
        let mut parts = Parts::of(&stall(), 0);
        parts.stall.attributes.insert("cause".to_owned(), "magnetism".to_owned());
        parts.stall.attributes.remove("confidence");
        let read = parts.stall();
        assert_eq!((read.cause, read.confidence, read.victim_count), (Cause::Unknown, 0.0, 2));
    }
}
