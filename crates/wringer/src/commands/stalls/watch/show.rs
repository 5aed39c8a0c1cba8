// SPDX-License-Identifier: Apache-2.0
//! A stall on one line, and the summary, for people.

use crate::commands::chart::time;
use crate::commands::stalls::lost::{by_cause, wait_free};
use ::stalls::watch::Watched;
use ::stalls::{Cause, Stall};
use host::clock::rfc3339;
use std::fmt::Write as _;

/// The most characters of a statement on a line.
const STATEMENT_CHARS: usize = 70;

/// `23:05:01.204  412 ms  row_lock (95 %): connection 12 waited for a lock of a row ...`.
pub(super) fn line(stall: &Stall) -> String {
    let began = stall.started_us.map_or_else(|| "-".to_owned(), clock);
    let sure = if stall.confidence > 0.0 { format!(" ({:.0} %)", stall.confidence * 100.0) } else { String::new() };
    let who = match stall.victims.as_slice() {
        [] => "the whole server".to_owned(),
        [one] => match &one.connection {
            Some(connection) => format!("connection {connection}"),
            None => format!("thread {}", one.thread.unwrap_or(0)),
        },
        several => {
            let names: Vec<&str> = several.iter().filter_map(|it| it.connection.as_deref()).take(5).collect();
            let more = if stall.victim_count > names.len() as u64 { ", ..." } else { "" };
            format!("{} connections ({}{more})", stall.victim_count, names.join(", "))
        }
    };
    let statement = stall.victims.iter().map(|it| it.statement_with_values.as_deref().unwrap_or(&it.statement));
    let statement = statement.map(shortened).find(|it| !it.is_empty()).map_or_else(String::new, |it| format!(": {it}"));
    let holder = match stall.held_by.as_slice() {
        [] => String::new(),
        holders => format!(", held by connection {}", holders.join(", ")),
    };
    let lost = if stall.victims.len() > 1 {
        format!(", {} lost in all", time(stall.lost_query_us as f64))
    } else {
        String::new()
    };
    // of what is not known, the evidence tells at least what was seen
    let seen = stall.evidence.speaks_for.first().filter(|_| stall.cause == Cause::Unknown);
    let seen = seen.map_or_else(String::new, |seen| format!(" ({seen})"));
    let (length, cause, words) = (time(stall.length_us as f64), stall.cause.name(), words(stall.cause));
    let still = if stall.goes_on { " [not over]" } else { "" };
    format!("{began}  {length:>9}  {cause}{sure}: {who} waited {words}{seen}{holder}{lost}{statement}{still}")
}

/// What the victims waited for, in plain words.
fn words(cause: Cause) -> &'static str {
    match cause {
        Cause::FreeListBackoff => "for a free page of the buffer pool, asleep (backoff)",
        Cause::FreeListLegacy | Cause::FreeListWait => "for a free page of the buffer pool",
        Cause::RowLock => "for a lock of a row",
        Cause::MetadataLock => "for a lock of a table",
        Cause::DiskReads => "for the disk to read",
        Cause::Sync => "for the disk to write",
        Cause::RedoOrCheckpoint => "for room in the redo log, or for a checkpoint",
        Cause::Mutex => "for a latch inside the server",
        Cause::BufferPin => "for a page that another connection has pinned",
        Cause::Cpu => "for a CPU",
        Cause::Reclaim => "for the kernel to free memory",
        Cause::Probe => "for this watch itself",
        Cause::OwnWork => "for its own work",
        Cause::Unknown => "for something unknown",
    }
}

pub(super) fn summary(watched: &Watched) -> String {
    let mut out = String::new();
    let (account, cost) = (&watched.account, &watched.cost);
    let us = |us: u64| time(us as f64);
    let _ = writeln!(
        out,
        "\nwatched for {}; stalls of {} and more are seen\n",
        us(cost.elapsed_us),
        us(watched.resolution_us)
    );
    for tier in watched.tiers.iter().filter(|tier| !tier.causes.is_empty()) {
        let _ = writeln!(
            out,
            "{}: waits for a free page of {} and more are seen; {} hits, {} lost, {} of CPU time to read them\n",
            tier.tier,
            us(tier.resolution_us),
            tier.hits,
            tier.hits_lost,
            us(tier.cpu_us.unwrap_or(0))
        );
    }
    if !watched.least_free_by_instance.is_empty() {
        let _ = writeln!(out, "fewest free pages of each instance: {:?}\n", watched.least_free_by_instance);
    }
    if account.by_cause.is_empty() {
        out.push_str("No stall.\n");
    } else {
        out.push_str(&by_cause(account, None));
        let share = account.attributed_query_us as f64 / account.lost_query_us.max(1) as f64 * 100.0;
        let _ = writeln!(out, "lost {} in all; {share:.0} % of it has a cause", us(account.lost_query_us));
    }
    if account.own_work_query_us > 0 {
        let _ = writeln!(
            out,
            "in no stall: {} of waiting that statements asked for, or of their own work",
            us(account.own_work_query_us)
        );
    }
    match (account.wait_free, account.wait_free_by_stalls) {
        (Some(rose), Some(computed)) if rose > 0 || computed > 0 => {
            out.push_str(&wait_free(rose, computed));
        }
        (Some(rose), None) if rose > 0 => {
            let _ = writeln!(out, "Innodb_buffer_pool_wait_free rose by {rose}");
        }
        _ => {}
    }
    if let Some(pressure) = watched.pressure {
        let _ = writeln!(
            out,
            "on this host some task waited for a CPU for {}, for the disk for {}, for memory for {}",
            us(pressure.cpu_us),
            us(pressure.io_us),
            us(pressure.memory_us)
        );
    }
    let _ = writeln!(
        out,
        "watching took {} of CPU time ({:.2} % of one CPU); {} looks {} apart, {} late, {} apart at most; {} statements",
        us(cost.cpu_us),
        cost.cpu_share * 100.0,
        cost.sweeps,
        us(cost.interval_p50_us),
        cost.sweeps_late,
        us(cost.interval_max_us),
        cost.statements
    );
    for note in &watched.notes {
        let _ = writeln!(out, "note: {note}");
    }
    let skipped: u64 = watched.skipped.iter().map(|part| part.bytes).sum();
    if skipped > 0 {
        let _ = writeln!(out, "{skipped} bytes of the server's slow log were not understood: -o json has their places");
    }
    for missing in &watched.missing {
        let _ = writeln!(out, "not read: {}: {}", missing.what, missing.why);
        if let Some(remedy) = &missing.remedy {
            let _ = writeln!(out, "  would help: {remedy}");
        }
    }
    out
}

/// The time with milliseconds, in UTC.
fn clock(us: i64) -> String {
    let us = us.unsigned_abs();
    let seconds = rfc3339(us / 1_000_000);
    let clock = seconds.split_once('T').map_or(seconds.as_str(), |(_, clock)| clock).trim_end_matches('Z').to_owned();
    format!("{clock}.{:03}", us / 1000 % 1000)
}

fn shortened(statement: &str) -> String {
    let words: Vec<&str> = statement.split_whitespace().collect();
    let line = words.join(" ");
    if line.chars().count() > STATEMENT_CHARS {
        format!("{}...", line.chars().take(STATEMENT_CHARS).collect::<String>())
    } else {
        line
    }
}
