// SPDX-License-Identifier: Apache-2.0
//! Stalls, their account, and classes of statements for people.

use crate::commands::chart::time;
use crate::commands::connections::table::table;
use crate::commands::stalls::lost::{by_cause, wait_free};
use ::stalls::{ClassOf, Explained, OfCause, Stall};
use std::fmt::Write as _;

/// The most characters of a statement on a line.
const STATEMENT_CHARS: usize = 60;

pub(super) fn text(explained: &Explained, top: usize) -> String {
    let mut out = String::new();
    source(&mut out, explained);
    if let Some(counter) = &explained.counter {
        let band = |band: stalls::Band, what: &str| {
            let known = format!("{}{what}", time(band.likely));
            if band.least < band.most {
                format!("{known} (from {} to {})", time(band.least), time(band.most))
            } else {
                known
            }
        };
        let _ = writeln!(out, "{:.1} tries each: {}", counter.tries_each, band(counter.length_us, " each stall"));
        let _ = writeln!(out, "{}", band(counter.lost_query_us, " lost in all"));
        let _ =
            writeln!(out, "one sleep takes {} than the server asked for\n", band(counter.sleep_overhead_us, " more"));
    } else {
        stalls_of(&mut out, explained, top);
    }
    account(&mut out, explained);
    classes(&mut out, &explained.classes, top);
    for note in &explained.notes {
        let _ = writeln!(out, "note: {note}");
    }
    skipped(&mut out, explained);
    out
}

fn source(out: &mut String, explained: &Explained) {
    let (source, cost) = (&explained.source, &explained.cost);
    let server = source.server.as_deref().map_or_else(String::new, |server| format!(", {server}"));
    let _ = match &explained.counter {
        Some(_) => writeln!(out, "Innodb_buffer_pool_wait_free alone{server}"),
        None => {
            let entries = if cost.bytes > 0 {
                format!("{} entries in {} bytes", cost.entries, cost.bytes)
            } else {
                format!("{} statements", cost.entries)
            };
            let (format, least) = (source.format.unwrap_or("log"), time(source.least_us as f64));
            writeln!(out, "{format}{server}: {entries}; stalls of {least} and more\n")
        }
    };
}

fn stalls_of(out: &mut String, explained: &Explained, top: usize) {
    if explained.stalls.is_empty() {
        let nothing = "Nothing could be judged: no entry of this log tells how long a statement took.";
        let _ = writeln!(out, "{}\n", if explained.is_unread() { nothing } else { "No stall." });
        return;
    }
    let mut shown: Vec<&Stall> = explained.stalls.iter().collect();
    shown.sort_by_key(|stall| std::cmp::Reverse(stall.lost_query_us));
    shown.truncate(top);
    shown.sort_by_key(|stall| stall.started_us);
    let row = |stall: &&Stall| {
        let sure = if stall.confidence > 0.0 { format!("{:.0} %", stall.confidence * 100.0) } else { "-".to_owned() };
        let first = stall.victims.first();
        let statement = first.map_or("", |victim| victim.statement_with_values.as_deref().unwrap_or(&victim.statement));
        vec![
            stall.started_us.map_or_else(|| "-".to_owned(), moment),
            time(stall.length_us as f64),
            stall.victim_count.to_string(),
            time(stall.lost_query_us as f64),
            sure,
            format!("{:<18} {}", stall.cause.name(), shortened(statement)),
        ]
    };
    let rows: Vec<Vec<String>> = shown.iter().map(row).collect();
    out.push_str(&table(&["began", "length", "victims", "lost", "sure", "cause, first victim"], &rows));
    let left = explained.stalls.len() as u64 + explained.stalls_left_out - rows.len() as u64;
    if left > 0 {
        let _ = writeln!(out, "and {left} more that lost less: --top, or -o json");
    }
    if let Some(most) = shown.iter().max_by_key(|stall| stall.lost_query_us) {
        let _ = writeln!(out, "\nWhy {}, for the one that lost the most:", most.cause.name());
        for what in &most.evidence.speaks_for {
            let _ = writeln!(out, "  + {what}");
        }
        for what in &most.evidence.against {
            let _ = writeln!(out, "  - {what}");
        }
    }
    out.push('\n');
}

fn account(out: &mut String, explained: &Explained) {
    let account = &explained.account;
    let us = |us: u64| time(us as f64);
    let sum = |of: fn(&OfCause) -> u64| account.by_cause.values().map(of).sum::<u64>();
    let (stalls, victims) = (sum(|of| of.stalls), sum(|of| of.victims));
    let longest_us = account.longest_us().unwrap_or(0);
    let of_all = OfCause { stalls, victims, lost_query_us: account.lost_query_us, longest_us };
    out.push_str(&by_cause(account, Some(("all", of_all))));
    if account.own_work_query_us > 0 {
        let _ = writeln!(
            out,
            "in no stall: {} beyond the median of the statements' classes, for their own work or because they asked to wait",
            us(account.own_work_query_us)
        );
    }
    match (account.wait_free, account.wait_free_by_stalls) {
        (Some(said), Some(computed)) if explained.counter.is_none() => {
            out.push_str(&wait_free(said, computed));
        }
        (None, Some(computed)) => {
            let _ = writeln!(out, "Innodb_buffer_pool_wait_free must have risen by about {computed}");
        }
        _ => {}
    }
    out.push('\n');
}

fn classes(out: &mut String, classes: &[ClassOf], top: usize) {
    if classes.is_empty() {
        return;
    }
    let us = |us: u64| time(us as f64);
    let row = |class: &ClassOf| {
        vec![
            shortened(&class.statement),
            class.count.to_string(),
            us(class.sum_us),
            us(class.median_us),
            us(class.p95_us),
            us(class.max_us),
            us(class.lost_query_us),
            String::new(),
        ]
    };
    let rows: Vec<Vec<String>> = classes.iter().take(top).map(row).collect();
    out.push_str(&table(&["class of statements", "count", "sum", "median", "95 %", "longest", "lost", ""], &rows));
    if classes.len() > top {
        let _ = writeln!(out, "and {} more: --top, or -o json", classes.len() - top);
    }
    out.push('\n');
}

fn skipped(out: &mut String, explained: &Explained) {
    if explained.skipped.is_empty() {
        return;
    }
    let _ = writeln!(out, "{} bytes were not understood:", explained.cost.skipped_bytes);
    for part in explained.skipped.iter().take(5) {
        let _ = writeln!(out, "  at byte {}, {} bytes: {}", part.offset, part.bytes, part.why);
    }
    if explained.skipped.len() > 5 {
        let _ = writeln!(out, "  and {} more places: -o json", explained.skipped.len() - 5);
    }
}

/// The statement on one line; characters that a terminal would act on are replaced.
fn shortened(statement: &str) -> String {
    if statement.is_empty() {
        return "(not in the log)".to_owned();
    }
    let line: String = statement.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    if line.chars().count() <= STATEMENT_CHARS {
        return line;
    }
    line.chars().take(STATEMENT_CHARS - 3).chain("...".chars()).collect()
}

/// A time by the log's own clock; on the first day of 1970, without the date.
fn moment(us: i64) -> String {
    let date = ::time::OffsetDateTime::from_unix_timestamp_nanos(i128::from(us) * 1000).ok();
    let Some(date) = date else { return format!("{us} us") };
    let (hour, minute, second) = (date.hour(), date.minute(), date.second());
    let clock = format!("{hour:02}:{minute:02}:{second:02}.{:03}", date.millisecond());
    if (0..86_400_000_000).contains(&us) { clock } else { format!("{} {clock}", date.date()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_statements_fit_a_line() {
        assert_eq!(moment(5_741_656_535), "01:35:41.656");
        assert_eq!(moment(1_669_772_141_656_535), "2022-11-30 01:35:41.656");
        assert_eq!(shortened("a\nb\u{1b}[2J"), "a b [2J");
        assert_eq!(shortened(&"x".repeat(100)).len(), STATEMENT_CHARS);
        assert_eq!(shortened(""), "(not in the log)");
    }
}
