// SPDX-License-Identifier: Apache-2.0
//! A comparison as text for people.

use explain::sides::{ComparedArms, Sides};
use serde_json::Value;
use std::fmt::Write as _;
use verdict::Compared;

/// The most differing conditions that are listed; the others are only counted.
const MOST_CONDITIONS: usize = 20;
/// The most flags in the suggested command; with more, the line would be too long.
const MOST_MEANT: usize = 5;

pub(super) fn text<'c>(sides: &Sides, checked: impl Iterator<Item = &'c str>) -> String {
    let mut text = differs(sides);
    for reason in &sides.not_comparable {
        let _ = writeln!(text, "Not comparable: {reason}.");
    }
    if !sides.not_comparable.is_empty() {
        text.push_str("No verdict is given.\n");
    }
    let meant: Vec<String> =
        sides.differs.iter().filter(|one| !one.allowed).map(|one| format!("--across '{}'", one.key)).collect();
    match meant.len() {
        0 => {}
        1..=MOST_MEANT => {
            let _ = writeln!(text, "If that is what you want to compare, add: {}", meant.join(" "));
        }
        _ => text.push_str(
            "Each condition that is meant to differ is named with --across KEY, several at once by their beginning.\n",
        ),
    }
    sides.comparisons.iter().for_each(|one| arms(one, &mut text));
    for statement in checked {
        let _ = writeln!(text, "{statement}");
    }
    text
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

fn arms(one: &ComparedArms, text: &mut String) {
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
        text.push_str("  Run each side again, until there are three runs of each, and give them all: wringer compare --a A1 A2 A3 --b B1 B2 B3\n");
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
