// SPDX-License-Identifier: Apache-2.0
//! Advice for people.

use crate::commands::chart::time;
use crate::commands::connections::table::table;
use advice::{Advised, Basis, Share, Trade};
use std::fmt::Write as _;
use units::Bytes;

/// The longest line of text.
const WIDTH: usize = 110;

pub(super) fn text(it: &Advised) -> String {
    let mut out = String::new();
    head(&mut out, it);
    facts(&mut out, it);
    advice(&mut out, it);
    trades(&mut out, it);
    counters(&mut out, it);
    for one in &it.missing {
        wrapped(&mut out, "not in the reading: ", &one.what);
        if let Some(statement) = &one.statement {
            let _ = writeln!(out, "    this statement would tell it: {statement}");
        }
    }
    for note in &it.notes {
        wrapped(&mut out, "note: ", note);
    }
    out
}

fn head(out: &mut String, it: &Advised) {
    let algorithm = it.algorithm.map_or_else(String::new, |algorithm| format!(", {algorithm}"));
    let _ = writeln!(out, "{}{algorithm}, over {:.1} s  ({})", it.server, it.seconds, it.said);
    wrapped(out, "  ", &it.applicable_why);
    if let Some(source) = &it.source {
        wrapped(out, "  known from: ", source);
    }
    out.push('\n');
}

fn facts(out: &mut String, it: &Advised) {
    if let Some(ratio) = &it.free_ratio {
        let verdict = match ratio.verdict {
            Share::Fine => "fine (below 5 %)",
            Share::Acceptable => "acceptable (5 to 20 %)",
            Share::Problem => "a problem (more than 20 %)",
        };
        let words = format!(
            "{}, {:.1} % of the pool: {} pages (innodb_lru_scan_depth) in each of {}: {verdict}",
            Bytes(ratio.bytes),
            ratio.share * 100.0,
            ratio.lru_scan_depth,
            if ratio.instances == 1 { "1 instance".to_owned() } else { format!("{} instances", ratio.instances) },
        );
        wrapped(out, "kept free     ", &words);
    }
    if let (Some(per_second), Some(demand)) = (it.page_demand_per_second, &it.page_demand) {
        let mut words = format!("{per_second:.0} pages a second, by {}", demand.from.join(" + "));
        if let Some(without) = demand.without {
            let _ = write!(words, "; without {without}");
        }
        wrapped(out, "page demand   ", &words);
        if let (Some(us), Some(pages), Some(needed)) =
            (it.longest_sleep_us, demand.pages_in_longest_sleep, demand.lru_scan_depth_needed)
        {
            let words = format!(
                "{}: {pages:.0} pages of each instance are asked for meanwhile; a depth of {needed} would last",
                time(us as f64)
            );
            wrapped(out, "longest sleep ", &words);
        }
    }
    wrapped(out, "LRU list      ", &it.dirty_tail.says);
    out.push('\n');
}

fn advice(out: &mut String, it: &Advised) {
    for (index, one) in it.advice.iter().enumerate() {
        let how = match one.dynamic {
            Some(true) => "   while the server runs; for its next start also in its option file",
            Some(false) => "   in the option file, at the next start",
            None => "",
        };
        let _ = writeln!(out, "{}. {}{how}", index + 1, one.statement.as_deref().unwrap_or("Leave it as it is."));
        wrapped(out, "   why:    ", &one.why);
        wrapped(out, "   price:  ", &one.price);
        // the further sources are those of the version, which are shown above
        let source = one.source.split("; ").next().unwrap_or_default();
        wrapped(out, &format!("   {}: ", basis(one.basis)), source);
    }
    for one in &it.watch {
        wrapped(out, "watch: ", &format!("{}: {}", one.what, one.means));
    }
    if !it.advice.is_empty() || !it.watch.is_empty() {
        out.push('\n');
    }
}

fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::Measured => "measured",
        Basis::Simulated => "simulated",
        Basis::Assumed => "assumed",
    }
}

fn trades(out: &mut String, it: &Advised) {
    let Some(of) = &it.trades_of else { return };
    let row = |trade: &Trade| {
        vec![
            format!("{}{}", trade.lru_scan_depth, if trade.is_current { " now" } else { "" }),
            trade.algorithm.to_owned(),
            range(trade.queries_per_second.low, trade.queries_per_second.high, whole),
            trade.queries_times.map_or_else(|| "-".to_owned(), |it| range(it.low, it.high, times)),
            range(trade.stalls_per_minute.low, trade.stalls_per_minute.high, whole),
            trade.stall_p50_us.map_or_else(|| "-".to_owned(), |it| range(it.low, it.high, time)),
            range(trade.stall_max_us.low, trade.stall_max_us.high, time),
            Bytes(trade.free_list_bytes).to_string(),
            String::new(),
        ]
    };
    let rows: Vec<Vec<String>> = it.trades.iter().map(row).collect();
    let _ = writeln!(out, "What other settings gain and cost, simulated for {}", of.load.join(", "));
    out.push_str(&table(
        &["depth", "algorithm", "queries/s", "times now", "stalls/min", "median", "longest query", "kept free", ""],
        &rows,
    ));
    for unknown in &of.unknown {
        wrapped(out, "band: nobody knows ", unknown);
    }
    out.push('\n');
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

fn times(value: f64) -> String {
    format!("{value:.2}")
}

fn range(low: f64, high: f64, words: impl Fn(f64) -> String) -> String {
    let (low, high) = (words(low), words(high));
    if low == high { low } else { format!("{low} to {high}") }
}

fn counters(out: &mut String, it: &Advised) {
    let there = it.counters.iter().filter(|one| one.trust != "missing");
    for one in there {
        let value = match (one.value_now, one.value_per_second) {
            (Some(now), _) => format!("{now:.0} now"),
            (None, Some(rate)) => format!("{rate:.1}/s"),
            (None, None) => "-".to_owned(),
        };
        wrapped(out, &format!("{} {value}: ", one.name), &one.means);
        for bug in &one.bugs {
            wrapped(out, &format!("    doubtful, {}: ", bug.name), bug.says);
        }
    }
    if !it.counters.is_empty() {
        out.push('\n');
    }
}

/// Wraps words into lines of [`WIDTH`]; further lines begin below the first word.
fn wrapped(out: &mut String, begin: &str, words: &str) {
    let indent = if begin.chars().count() <= 20 { begin.chars().count() } else { 6 };
    let mut line = begin.to_owned();
    let mut length = begin.chars().count();
    let mut is_first = true;
    for word in words.split_whitespace() {
        let more = word.chars().count();
        if !is_first && length + 1 + more > WIDTH {
            let _ = writeln!(out, "{line}");
            line = " ".repeat(indent);
            length = indent;
            is_first = true;
        }
        if !is_first {
            line.push(' ');
            length += 1;
        }
        line.push_str(word);
        length += more;
        is_first = false;
    }
    let _ = writeln!(out, "{line}");
}
