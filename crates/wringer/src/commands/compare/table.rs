// SPDX-License-Identifier: Apache-2.0
//! A comparison as text for people.

use explain::sides::{ComparedArms, Sides};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use verdict::Compared;

/// The most differing conditions that are listed; the others are only counted.
const MOST_CONDITIONS: usize = 20;
/// The most flags in the suggested command; with more, the line would be too long.
const MOST_MEANT: usize = 5;

/// What else the text depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    /// Both sides have a run.
    pub(super) has_runs: bool,
    /// The sides are settings of a matrix.
    pub(super) is_sweep: bool,
}

pub(super) fn text<'c>(sides: &Sides, about: About, checked: impl Iterator<Item = &'c str>) -> String {
    let mut text = if about.has_runs { differs(sides) } else { String::new() };
    for reason in sides.not_comparable.iter().take(MOST_CONDITIONS) {
        let _ = writeln!(text, "Not comparable: {reason}.");
    }
    if let Some(more @ 1..) = sides.not_comparable.len().checked_sub(MOST_CONDITIONS) {
        let _ = writeln!(text, "Not comparable for {}; -o json has all.", units::counted(more as u64, "more reason"));
    }
    if !sides.not_comparable.is_empty() {
        text.push_str("No verdict is given.\n");
    }
    let meant = meant(sides);
    match meant.len() {
        0 => {}
        1..=MOST_MEANT => {
            let flags: Vec<String> = meant.iter().map(|key| format!("--across '{key}'")).collect();
            let _ = writeln!(text, "If that is what you want to compare, add: {}", flags.join(" "));
        }
        _ => text.push_str(
            "Each condition that is meant to differ is named with --across KEY, several at once by their beginning.\n",
        ),
    }
    sides.comparisons.iter().for_each(|one| arms(one, about.is_sweep, &mut text));
    for statement in checked {
        let _ = writeln!(text, "{statement}");
    }
    text
}

/// The conditions that differ and may not; where they are many, their beginnings.
fn meant(sides: &Sides) -> Vec<&str> {
    let keys: Vec<&str> = sides.differs.iter().filter(|one| !one.allowed).map(|one| one.key.as_str()).collect();
    if keys.len() <= MOST_MEANT {
        return keys;
    }
    // of several arms, each has its name behind this word
    let beginning = |key: &'_ str| -> usize { key.find(['.', ' ']).unwrap_or(key.len()) };
    let beginnings: BTreeSet<&str> = keys.iter().map(|key| &key[..beginning(key)]).collect();
    beginnings.into_iter().collect()
}

fn differs(sides: &Sides) -> String {
    if sides.differs.is_empty() {
        return "The runs were made under the same conditions, as far as those are recorded.\n".to_owned();
    }
    let mut text = "The runs differ in:\n".to_owned();
    for one in sides.differs.iter().take(MOST_CONDITIONS) {
        let allowed = if one.allowed { "  (may differ)" } else { "" };
        let _ = writeln!(text, "  {}: {} | {}{allowed}", one.key, values(&one.a), values(&one.b));
    }
    if let Some(more @ 1..) = sides.differs.len().checked_sub(MOST_CONDITIONS) {
        let _ = writeln!(text, "  and {more} more; -o json has all");
    }
    text
}

fn values(values: &[Value]) -> String {
    let told = |value: &Value| match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    values.iter().map(told).collect::<Vec<_>>().join(", ")
}

fn arms(one: &ComparedArms, is_sweep: bool, text: &mut String) {
    let judged = &one.judged;
    let _ =
        writeln!(text, "\nA \"{}\", {}; B \"{}\", {}", one.a, runs(judged.repeats_a), one.b, runs(judged.repeats_b));
    let _ = writeln!(
        text,
        "  {:<18} {:>12} {:>12} {:>8}  {:<16} {:<20} {:>10}",
        "figure", "A", "B", "B / A", "interval", "verdict", "detectable"
    );
    for figure in &judged.figures {
        let _ = writeln!(
            text,
            "  {:<18} {:>12} {:>12} {:>8}  {:<16} {:<20} {:>10}  {}",
            figure.name,
            number(figure.a),
            number(figure.b),
            ratio(figure.ratio),
            interval(figure),
            figure.verdict.map_or_else(|| "no verdict".to_owned(), |verdict| verdict.to_string()),
            ratio(figure.detectable_ratio),
            figure.unit
        );
    }
    let mut told: Vec<&str> = Vec::new();
    for sentence in judged.figures.iter().flat_map(|figure| &figure.told) {
        if !told.contains(&sentence.as_str()) {
            told.push(sentence);
            let _ = writeln!(text, "  note: {sentence}");
        }
    }
    if judged.repeats_a.min(judged.repeats_b) < verdict::FEWEST_REPEATS {
        text.push_str(match is_sweep {
            true => "  A verdict needs three blocks in which both settings are done: set `blocks` of [matrix] to 3 or more, and run the matrix again; it adds what is missing.\n",
            false => "  Run each side again, until there are three runs of each, and give them all: wringer compare --a A1 A2 A3 --b B1 B2 B3\n",
        });
    }
}

fn runs(count: usize) -> String {
    if count == 1 { "1 run".to_owned() } else { format!("{count} runs") }
}

fn number(value: Option<f64>) -> String {
    match value {
        Some(value) if value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.3}"),
        None => "-".to_owned(),
    }
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), report::ratio)
}

fn interval(figure: &Compared) -> String {
    match (figure.low, figure.high) {
        (Some(low), Some(high)) => format!("{} .. {}", report::ratio(low), report::ratio(high)),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use explain::sides::Differs;

    fn said(keys: impl Iterator<Item = String>, has_runs: bool) -> String {
        let of = |key: String| Differs { key, a: vec![1.into()], b: vec![2.into()], allowed: false };
        let differs: Vec<Differs> = keys.map(of).collect();
        let not_comparable = differs.iter().map(|one| format!("{} is not the same: 1 and 2", one.key)).collect();
        let sides = Sides { differs, not_comparable, comparisons: Vec::new() };
        text(&sides, About { has_runs, is_sweep: false }, std::iter::empty())
    }

    #[test]
    fn many_conditions_are_cut_and_named_by_their_beginnings() {
        let variables = (0..1000).map(|number| format!("server.variables.v{number}"));
        let text = said(variables.chain(["arm \"a\".load.threads".to_owned()]), true);
        assert!(text.lines().count() < 50, "{text}");
        assert!(text.contains("Not comparable for 981 more reasons; -o json has all."), "{text}");
        assert!(text.contains("add: --across 'arm' --across 'server'\n"), "{text}");
        assert!(said(["server.version".to_owned()].into_iter(), true).contains("add: --across 'server.version'\n"));
    }

    #[test]
    fn without_runs_nothing_is_said_of_their_conditions() {
        assert!(said(std::iter::empty(), true).contains("same conditions"));
        assert_eq!(said(std::iter::empty(), false), "");
    }
}
