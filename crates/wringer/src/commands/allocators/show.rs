// SPDX-License-Identifier: Apache-2.0
//! The result as text: malloc and figures of each cell, the differences that verdicts show, and the recommended malloc.

use serde_json::Value;
use std::fmt::Write as _;

pub(super) fn text(told: &Value) -> String {
    let mut out = String::new();
    let empty = Vec::new();
    let list = |of: &Value, key: &str| of[key].as_array().unwrap_or(&empty).clone();
    let cells = list(told, "cells");
    _ = writeln!(
        out,
        "{:<20} {:<12} {:<8} {:<6} {:>5}  {:>6}  {:>10}  {:>10}  state",
        "malloc", "serving", "thp", "cpus", "block", "arenas", "idle rss", "retained"
    );
    for cell in &cells {
        let idle =
            list(cell, "footprint").iter().rev().find(|it| it["mark"] == "idle").map(|it| it["rss_bytes"].clone());
        let mib = |value: Option<f64>| value.map_or("-".to_owned(), |bytes| format!("{:.1} MiB", bytes / 1_048_576.0));
        let missing: Vec<String> = list(cell, "not_in_force").iter().map(|what| word(what).to_owned()).collect();
        let state = match (cell["as_asked"].as_bool(), cell["state"].as_str()) {
            (Some(false), Some("done")) if missing.is_empty() => "not as asked for: no verdict uses it".to_owned(),
            (Some(false), Some("done")) => format!("not as asked for ({}): no verdict uses it", missing.join(", ")),
            (_, state) => state.unwrap_or("?").to_owned(),
        };
        _ = writeln!(
            out,
            "{:<20} {:<12} {:<8} {:<6} {:>5}  {:>6}  {:>10}  {:>10}  {state}",
            word(&cell["malloc"]),
            word(&cell["serving"]),
            word(&cell["thp"]),
            word(&cell["cpus"]),
            cell["block"].as_u64().unwrap_or(0),
            cell["arenas"].as_u64().map_or("-".to_owned(), |count| count.to_string()),
            mib(idle.and_then(|it| it.as_f64())),
            mib(cell["retained_bytes"].as_f64()),
        );
        for load in list(cell, "loads") {
            let number = |key: &str| load[key].as_f64().unwrap_or(f64::NAN);
            let cpu = number("cpu_user_us_per_query") + number("cpu_system_us_per_query");
            _ = writeln!(
                out,
                "    {:<26} {:>9.0} transactions/s  p50 {:>8.0} us  p99 {:>8.0} us  {cpu:>7.1} us CPU a query",
                word(&load["arm"]),
                number("transactions_per_s"),
                number("p50_us"),
                number("p99_us"),
            );
        }
    }
    let comparisons = list(told, "comparisons");
    let shown = comparisons.iter().filter(|it| matches!(it["verdict"].as_str(), Some("lower" | "higher")));
    let shown: Vec<&Value> = shown.collect();
    let base = word(&told["base"]);
    _ = writeln!(out, "\nbeside {base}: {} of {} figures are shown to differ", shown.len(), comparisons.len());
    for it in shown {
        let number = |key: &str| it[key].as_f64().unwrap_or(f64::NAN);
        _ = writeln!(
            out,
            "  {:<20} {:<34} {:.2} times ({:.2} to {:.2}){}",
            word(&it["malloc"]),
            word(&it["figure"]),
            number("ratio"),
            number("low"),
            number("high"),
            setting(it)
        );
    }
    not_shown(&mut out, &comparisons);
    let recommendation = &told["recommendation"];
    let what = match recommendation["take"].as_str() {
        None => "none, because there is no verdict".to_owned(),
        Some("keep") => format!("keep {base}"),
        Some(take) => format!("take {take}"),
    };
    _ = writeln!(out, "\nrecommendation, {}: {what}", word(&recommendation["scope"]));
    list(recommendation, "because").iter().for_each(|why| _ = writeln!(out, "  {}", word(why)));
    list(recommendation, "notes").iter().for_each(|note| _ = writeln!(out, "  note: {}", word(note)));
    if let Some(price) = recommendation["price_bytes"].as_f64() {
        _ = writeln!(out, "  memory at the end of the rest: {:+.1} MiB", price / 1_048_576.0);
    }
    for line in list(told, "set_by") {
        _ = writeln!(out, "    {}", word(&line));
    }
    out
}

/// The setting in which two mallocs were compared, where the table has several.
fn setting(of: &Value) -> String {
    let named = |(key, name): (&str, &str)| of[key].as_str().map(|value| format!("{name} {value}"));
    let parts: Vec<String> = [("thp", "thp"), ("cpus", "CPUs")].into_iter().filter_map(named).collect();
    if parts.is_empty() { String::new() } else { format!("  with {}", parts.join(", ")) }
}

/// The differences that so many cells could not show, for the figures that people ask for first.
fn not_shown(out: &mut String, comparisons: &[Value]) {
    let largest = |figure: &str| {
        let of_figure = comparisons.iter().filter(|it| word(&it["figure"]).ends_with(figure));
        let not_shown = of_figure.filter(|it| it["verdict"] == "no_difference_shown");
        let ratio = not_shown.filter_map(|it| it["detectable_ratio"].as_f64()).reduce(f64::max)?;
        Some(format!("{figure} {ratio:.2} times"))
    };
    let told: Vec<String> = ["throughput", "p99", "idle rss"].into_iter().filter_map(largest).collect();
    if !told.is_empty() {
        _ = writeln!(
            out,
            "smaller differences than these may be there, and more repeats show them: {}",
            told.join(", ")
        );
    }
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}
