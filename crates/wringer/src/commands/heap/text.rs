// SPDX-License-Identifier: Apache-2.0
//! The result of `wringer heap show`, as text.

use super::assertion::Verdict;
use super::grown::{self, in_line};
use super::profile::{Profile, up_to};
use super::shown::Shown;
use heap::{Growth, Holdings, Snapshot, TimeUnit};
use std::fmt::Write as _;
use units::{Bytes, Span};

/// The most files that are listed for addresses without names: those with the most such addresses.
const MOST_FILES: usize = 5;

pub(super) fn text(top: usize, profile: &Profile, shown: &Shown) -> String {
    let of = shown.command.as_deref().unwrap_or(shown.format);
    let mut text = format!("{}: {}\n", in_line(&profile.name()), in_line(of));
    text += &over_time(&profile.outline.snapshots, shown.time_unit);
    if let Some(every) = shown.sampled_every_bytes {
        let _ = writeln!(text, "{}", grown::sampled(every));
    }
    if let (Some(from), Some(to)) = (shown.from, shown.to) {
        text += &format!("\nWho held the {} at snapshot {to}\n", Bytes(shown.total_bytes));
        let after = Holdings {
            functions: shown.functions.clone(),
            hidden_bytes: shown.hidden_bytes,
            total_bytes: shown.total_bytes,
            sampled_every_bytes: shown.sampled_every_bytes,
        };
        text += &grown::parts(&after);
        let _ = writeln!(text, "\nFunctions that held the heap at snapshot {to}");
        text += &grown::holders(&shown.functions, top);
        text += &growth(&shown.growth, (from, to), top);
    } else {
        text += "\nno snapshot says who held the heap: Massif gives every tenth one a tree, --detailed-freq=1 all of them\n";
    }
    let is_sampled = shown.sampled_every_bytes.is_some();
    text += &shown.assertions.iter().map(|it| judged(it, is_sampled)).collect::<String>();
    if let Some(symbols) = shown.symbols.as_ref().filter(|it| it.unnamed_addresses > 0) {
        let all = symbols.named_addresses + symbols.unnamed_addresses;
        let _ = writeln!(text, "\n{} of {all} addresses have no name:", symbols.unnamed_addresses);
        for missing in symbols.missing.iter().take(MOST_FILES) {
            let _ = writeln!(text, "  {} in {}: {}", missing.addresses, in_line(&missing.file), in_line(&missing.why));
        }
    }
    if let Some(damage) = &shown.damage {
        let file = shown.damaged_file.as_deref().unwrap_or_default();
        let _ = write!(text, "\n{}", in_line(&up_to(file, damage)));
    }
    text
}

pub(super) fn judged(verdict: &Verdict, is_sampled: bool) -> String {
    let holds = match verdict.holds {
        Some(true) => "holds",
        Some(false) => "does not hold",
        None => "cannot be told",
    };
    let bytes = [verdict.bytes, verdict.at_least_bytes, verdict.at_most_bytes].map(|it| it.map(grown::signed));
    let bytes = match bytes {
        [None, ..] => String::new(),
        [Some(bytes), Some(least), Some(most)] => {
            let of = if is_sampled { "an estimate, in 95 of 100 cases" } else { "with what the profiler hides" };
            format!(" ({bytes}; {of} {least} to {most})")
        }
        [Some(bytes), ..] => format!(" ({bytes} of what could be read)"),
    };
    format!("\n{}: {holds}{bytes}", in_line(&verdict.assertion))
}

fn growth(growth: &[Growth], (from, to): (u64, u64), top: usize) -> String {
    if from == to {
        return "\nThere is one moment, which tells no growth\n".to_owned();
    }
    let mut text = format!("\nFunctions from snapshot {from} to {to}, the one that grew most first\n");
    text += &grown::table(growth, top);
    if let Some(most) = growth.first().filter(|it| it.growth_bytes > Some(0)) {
        let callers: Vec<String> = most.path.iter().skip(1).take(8).map(|it| in_line(it)).collect();
        let _ = writeln!(text, "\n{} is called by\n  {}", in_line(&most.function), callers.join("\n  "));
    }
    text
}

/// The peak, the end, and a line of bars for the time between.
fn over_time(snapshots: &[Snapshot], unit: Option<TimeUnit>) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let total = |it: &Snapshot| it.total_bytes().unwrap_or(u64::MAX);
    let Some(peak) = snapshots.iter().max_by_key(|it| total(it)) else { return String::new() };
    let end = snapshots.last().map_or(0, |it| it.time);
    let bar = |it: &Snapshot| {
        let eighths = u128::from(total(it)) * 7 / u128::from(total(peak).max(1));
        usize::try_from(eighths).ok().and_then(|at| BARS.get(at)).copied().unwrap_or(' ')
    };
    let bars: String = snapshots.iter().map(bar).collect();
    let (count, largest) = (snapshots.len(), Bytes(total(peak)));
    match unit {
        None if count == 1 => format!("one moment: {largest}\n"),
        None => format!("{count} snapshots; the heap was largest at snapshot {}: {largest}\n|{bars}|\n", peak.number),
        Some(unit) => format!(
            "{count} snapshots over {}; the heap was largest at {} (snapshot {}): {largest}\n|{bars}|\n",
            time(end, unit),
            time(peak.time, unit),
            peak.number
        ),
    }
}

fn time(time: u64, unit: TimeUnit) -> String {
    match unit {
        TimeUnit::Milliseconds => Span::millis(time).to_string(),
        TimeUnit::Instructions => format!("{time} instructions"),
        TimeUnit::Bytes => format!("{} allocated and freed", Bytes(time)),
    }
}
