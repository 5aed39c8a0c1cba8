// SPDX-License-Identifier: Apache-2.0
//! The heap at two times, side by side, as text.

use heap::{Growth, Held, Holdings};
use std::fmt::Write as _;
use units::{Bytes, SignedBytes};

/// A signed size.
pub(in crate::commands) fn signed(bytes: i128) -> String {
    format!("{:+}", SignedBytes(bytes))
}

/// Names in a profile may hold any bytes; on a terminal only text is shown.
pub(super) fn in_line(name: &str) -> String {
    name.replace(char::is_control, "\u{fffd}")
}

/// That the sizes of a profile are estimates.
pub(super) fn sampled(every: u64) -> String {
    format!("the profiler looked at one allocation for {} on the average: each size is an estimate", Bytes(every))
}

/// The functions that grew or shrank; of the others, their number.
pub(in crate::commands) fn table(growth: &[Growth], top: usize) -> String {
    changed(growth, top, true)
}

/// The same where a part of a profile is lost, so that the growth has no bounds.
pub(super) fn unbounded(growth: &[Growth], top: usize) -> String {
    changed(growth, top, false)
}

fn changed(growth: &[Growth], top: usize, has_bounds: bool) -> String {
    let changed = heap::changed(growth);
    let mut text = if changed.is_empty() { String::new() } else { rows(&changed, top, has_bounds) };
    let shown = changed.iter().take(top);
    let open = shown.filter(|it| it.growth_bytes.is_some() && it.low_bytes < 0 && it.high_bytes > 0).count();
    if has_bounds && open > 0 {
        let of = units::counted(open as u64, "function");
        let _ = writeln!(text, "{of} above may have grown or shrunk: the bounds have both signs");
    }
    if let Some(others) = report::heap_without_growth(growth) {
        let _ = writeln!(text, "{others}");
    }
    text
}

fn rows(grown: &[&Growth], top: usize, has_bounds: bool) -> String {
    let mut text = String::new();
    let (shown, rest) = grown.split_at(grown.len().min(top));
    let width = |bytes: &dyn Fn(&Growth) -> Option<u64>| {
        let absent = shown.iter().filter(|it| bytes(it).is_none()).map(|it| it.absent().len());
        absent.max().unwrap_or(11)
    };
    let (first, last) = (width(&|it| it.before_bytes), width(&|it| it.after_bytes));
    let _ = writeln!(
        text,
        "{:>12}  {:>24}  {:>first$}  {:>last$}  function",
        "growth", "at least to at most", "before", "after"
    );
    for it in shown {
        let bounds = match has_bounds {
            true => format!("{} to {}", signed(it.low_bytes), signed(it.high_bytes)),
            false => "not known".to_owned(),
        };
        let size = |bytes: Option<u64>| bytes.map_or_else(|| it.absent().to_owned(), |it| Bytes(it).to_string());
        let (before, after) = (size(it.before_bytes), size(it.after_bytes));
        let growth = it.growth_bytes.map_or_else(|| "not known".to_owned(), signed);
        let part = it.subsystem.map_or_else(String::new, |part| format!("  [{part}]"));
        let _ = writeln!(
            text,
            "{growth:>12}  {bounds:>24}  {before:>first$}  {after:>last$}  {}{part}",
            in_line(&it.function)
        );
    }
    if !rest.is_empty() {
        let sum: i128 = rest.iter().filter_map(|it| it.growth_bytes).sum();
        let _ = writeln!(
            text,
            "{:>12}  {:>24}  {:>first$}  {:>last$}  {} more functions (--top)",
            signed(sum),
            "",
            "",
            "",
            rest.len()
        );
    }
    text
}

/// The functions that hold most. One that has freed everything holds nothing, and is no line.
pub(in crate::commands) fn holders(functions: &[Held], top: usize) -> String {
    let mut text = String::new();
    let holding = || functions.iter().filter(|it| it.bytes > 0);
    for held in holding().take(top) {
        let part = held.subsystem.map_or_else(String::new, |part| format!("  [{part}]"));
        let _ = writeln!(text, "{:>12}  {}{part}", Bytes(held.bytes).to_string(), in_line(&held.function));
    }
    let rest = holding().skip(top);
    let (count, bytes) = rest.fold((0, 0), |(count, sum), it| (count + 1, u64::saturating_add(sum, it.bytes)));
    if count > 0 {
        let _ = writeln!(text, "{:>12}  {count} more functions (--top)", Bytes(bytes).to_string());
    }
    text
}

/// Parts of the server, the largest first.
pub(super) fn parts(holdings: &Holdings) -> String {
    let mut text = String::new();
    let total = holdings.total_bytes.max(1) as f64;
    let mut line = |name: &str, bytes: u64| {
        let share = 100.0 * bytes as f64 / total;
        let _ = writeln!(text, "  {share:5.1} %  {:>11}  {name}", Bytes(bytes).to_string());
    };
    for part in holdings.subsystems() {
        line(part.subsystem.unwrap_or("functions whose names tell no part"), part.bytes);
    }
    if holdings.hidden_bytes > 0 {
        line("below the profiler's threshold, which names no function", holdings.hidden_bytes);
    }
    text
}
