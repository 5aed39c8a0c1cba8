// SPDX-License-Identifier: Apache-2.0
//! `wringer memory account`: leaves that sum, together with the unexplained rest, to the kernel's total.

use super::recorded::{self, Recorded};
use super::recording_time::Moment;
use super::{Looked, Wanted, change, openmetrics, tree, within};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use clap::ValueEnum;
use ledger::{Account, Interval, Inventory, Probe, ProcessAccount};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use units::{Bytes, Span, counted};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A TIME is a time after the recording's start (90, 5m, 1h), a clock time in UTC (14:05, 14:05:30, 2026-11-20T14:05:30Z), `first` or `last`. \
    The account is computed from the last inventory that was taken at this time or before it. Times are as exact as they are printed: `14:05:30` includes everything until \
    the end of that second, `5.0` everything until the end of that tenth of a second; from 100 s on, a time includes its whole second.\n\n\
    Examples:\n  \
      wringer memory account --sandbox shop\n  \
      # how a recording's memory changed in the first 10 minutes\n  \
      wringer memory account --from out --since first --at 10m\n\n\
    More: docs/memory.md, or `wringer doc memory`."
)]
pub(super) struct Args {
    #[command(flatten)]
    looked: Looked<Format>,
    /// With `--from RECORDING`: the account at this time [default: last]
    #[arg(long, value_name = "TIME")]
    at: Option<Moment>,
    /// With `--from RECORDING`: the changes from this time to the time of `--at`, leaf by leaf
    #[arg(long, value_name = "TIME")]
    since: Option<Moment>,
    /// Show small leaves, too
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    /// For Prometheus, also through node_exporter's textfile collector
    Openmetrics,
}

/// So many parts are named of each of the largest processes.
const PARTS: usize = 4;

pub(super) fn main(args: &Args) -> Outcome {
    let from = args.looked.from.as_deref();
    if let Some(path) = from.and_then(recorded::recording_at) {
        return then(args, &path);
    }
    // of a file that is not there, the reading says so
    let is_there = |file: &Path| file == Path::new("-") || file.exists();
    if args.at.or(args.since).is_some() && from.is_none_or(is_there) {
        let message = match from {
            Some(file) => format!("{} is no recording: it has one inventory, and no times", file.display()),
            None => "--at and --since name times of a recording, and --from names none".to_owned(),
        };
        return Err(
            Failure::message(Exit::Usage, message).hint("leave out --at and --since, or name a recording with --from")
        );
    }
    let read = args.looked.read(Wanted::default())?;
    show(args, &read.of, &read.server, &read.inventory);
    Ok(())
}

/// The account, or the changes, from a recording.
fn then(args: &Args, path: &Path) -> Outcome {
    let recorded = Recorded::open(path)?;
    let after = recorded.at(args.at.unwrap_or(Moment::Last))?;
    let Some(since) = args.since else {
        let of = format!("{}, {}", path.display(), recorded.time(after.after_us));
        show(args, &of, &path.display().to_string(), &after.inventory);
        return Ok(());
    };
    let before = recorded.at(since)?;
    if before.after_us >= after.after_us {
        let [before, after] = [before, after].map(|taken| recorded.time(taken.after_us));
        let message =
            format!("no time lies between the two: --since has the inventory of {before}, --at that of {after}");
        return Err(Failure::message(Exit::Usage, message).hint("name a --since that is earlier, or a later --at"));
    }
    let of =
        format!("{}, from {} to {}", path.display(), recorded.time(before.after_us), recorded.time(after.after_us));
    changed(args, &of, &before.inventory, &after.inventory)
}

fn show(args: &Args, of: &str, server: &str, inventory: &Inventory) {
    let account = ledger::account(inventory);
    match args.looked.output {
        Format::Json => terminal::json(&account),
        Format::Text => terminal::data(text(of, &account, args.all).trim_end()),
        Format::Openmetrics => terminal::data(openmetrics::text(server, &account, inventory)),
    }
}

fn changed(args: &Args, of: &str, before: &Inventory, after: &Inventory) -> Outcome {
    let process = |inventory: &Inventory| inventory.processes.first().map(|it| (it.pid, it.started_ticks));
    let is_another = process(before) != process(after);
    let [before, after] = [before, after].map(ledger::account);
    let change = ledger::difference(&before, &after);
    match args.looked.output {
        Format::Json => terminal::json(&change),
        Format::Text => {
            let note = if is_another { "\nthe server was started anew between the two times" } else { "" };
            let text = format!("{of}{note}\n{}", change::text(&before, &after, &change, args.all));
            terminal::data(text.trim_end());
        }
        Format::Openmetrics => {
            let message = "a difference has no metrics: the collector computes it from two accounts";
            return Err(Failure::message(Exit::Usage, message).hint("leave out --since"));
        }
    }
    Ok(())
}

fn text(of: &str, account: &Account, all: bool) -> String {
    let mut text = format!("{of}\n{}\n\n{}", head(account), tree::text(account, all));
    processes(&mut text, account);
    beside(&mut text, account);
    probes(&mut text, &account.probes);
    interval(&mut text, account.interval.as_ref());
    super::missing(&mut text, &account.missing);
    text
}

pub(super) fn head(account: &Account) -> String {
    let page_tables: u64 = account.processes.iter().map(|process| process.page_tables_bytes).sum();
    let count = counted(account.processes.len() as u64, "process");
    let within = within(account.uncertainty_bytes);
    let explained =
        account.explained_share.map_or_else(String::new, |share| format!("; {:.1} % of it explained", share * 100.0));
    let total = Bytes(account.kernel_total_bytes);
    format!("{total} of RAM in {count}, {} of it page tables{within}{explained}", Bytes(page_tables))
}

/// The largest processes, where there are several.
fn processes(text: &mut String, account: &Account) {
    if account.processes.len() < 2 {
        return;
    }
    let mut largest: Vec<_> = account.processes.iter().collect();
    largest.sort_by_key(|process| std::cmp::Reverse(process.pss_bytes));
    let _ = writeln!(text, "\nthe largest processes by their share of the memory (Pss)");
    for process in largest.iter().take(5) {
        let how = how(process);
        let (pss, tables) = (Bytes(process.pss_bytes).to_string(), Bytes(process.page_tables_bytes).to_string());
        let _ = writeln!(text, "  {:>8} {:<30} {pss:>11}, page tables {tables}{how}", process.pid, process.role);
        if let Some(parts) = parts(process) {
            let _ = writeln!(text, "  {:>8} {parts}", "");
        }
    }
}

/// The largest parts of a process's share.
fn parts(process: &ProcessAccount) -> Option<String> {
    let unexplained =
        process.unexplained_bytes.and_then(|bytes| u64::try_from(bytes).ok()).map(|bytes| ("unexplained", bytes));
    let leaves = process.leaves.iter().map(|leaf| (leaf.path.as_str(), leaf.resident_bytes));
    let mut parts: Vec<(&str, u64)> = leaves.chain(unexplained).filter(|(_, bytes)| *bytes > 0).collect();
    parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let named: Vec<String> =
        parts.iter().take(PARTS).map(|(path, bytes)| format!("{} {}", tree::words(path), Bytes(*bytes))).collect();
    (!named.is_empty()).then(|| named.join(", "))
}

fn how(process: &ProcessAccount) -> String {
    match process.estimated_from_us_before {
        Some(us) => format!(" (estimated from its size {} before)", recorded::span(us)),
        None if process.is_estimated => " (estimated from others)".to_owned(),
        None => String::new(),
    }
}

fn beside(text: &mut String, account: &Account) {
    if account.beside.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nbeside the sum");
    for beside in &account.beside {
        let bytes = Bytes(beside.bytes).to_string();
        let _ = writeln!(text, "  {:<40} {bytes:>11}  {}", tree::words(&beside.name), beside.source);
    }
}

fn probes(text: &mut String, probes: &[Probe]) {
    let of = |is_it: &dyn Fn(&Probe) -> bool| probes.iter().filter(|probe| is_it(probe)).collect::<Vec<_>>();
    let (holds, answers) = (of(&Probe::is_hold), of(&|probe| probe.tier == Probe::SQL));
    let sum = |of: &[&Probe]| Span(Duration::from_micros(of.iter().map(|probe| probe.held_us).sum()));
    let longest = holds.iter().map(|probe| probe.held_us_max).max().unwrap_or(0);
    let longest = Span(Duration::from_micros(longest));
    let held = sum(&holds);
    let _ = writeln!(text, "\nreading held the server's address space for {held} in all, {longest} at a stretch");
    if !answers.is_empty() {
        let _ = writeln!(text, "the server answered questions for {}", sum(&answers));
    }
}

/// Why a recording or a watch reads the server less often than asked.
fn interval(text: &mut String, interval: Option<&Interval>) {
    let Some(Interval { asked_us, got_us, why: Some(why) }) = interval else { return };
    let [asked, got] = [asked_us, got_us].map(|us| Span(Duration::from_micros(*us)));
    let _ = writeln!(text, "it was read every {got}, and not every {asked} as asked: {why}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_interval_is_shown_with_its_reason() {
        let shown = |why: Option<&str>| {
            let mut text = String::new();
            let it = Interval { asked_us: 1_000_000, got_us: 4_000_000, why: why.map(str::to_owned) };
            interval(&mut text, Some(&it));
            text
        };
        assert_eq!(shown(Some("it is dear")), "it was read every 4 s, and not every 1 s as asked: it is dear\n");
        assert_eq!(shown(None), "");
    }

    #[test]
    fn only_questions_that_were_answered_count_as_the_servers_time() {
        let probe = |tier: &str, held_us| Probe { tier: tier.into(), held_us, held_us_max: held_us, count: 1 };
        let mut text = String::new();
        probes(&mut text, &[probe("smaps", 2000), probe("sql", 3000), probe("unanswered", 5_000_000)]);
        assert!(
            text.contains("for 2 ms in all, 2 ms at a stretch") && text.ends_with("questions for 3 ms\n"),
            "{text}"
        );
    }
}
