// SPDX-License-Identifier: Apache-2.0
//! `wringer memory account`: leaves that sum, with what is unexplained, to what the kernel says.

use super::{Looked, printable, tree};
use crate::exit::Outcome;
use crate::terminal;
use ledger::{Account, Probe};
use std::fmt::Write as _;
use std::time::Duration;
use units::{Bytes, Span, counted};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    looked: Looked,
    /// Show small leaves, too
    #[arg(long)]
    all: bool,
}

pub(super) fn main(args: &Args) -> Outcome {
    let read = args.looked.read(false)?;
    let account = ledger::account(&read.inventory);
    match args.looked.output {
        terminal::Output::Json => terminal::json(&account),
        terminal::Output::Text => terminal::data(printable(&text(&read.of, &account, args.all))),
    }
    Ok(())
}

fn text(of: &str, account: &Account, all: bool) -> String {
    let mut text = format!("{of}\n{}\n\n{}", head(account), tree::text(account, all));
    processes(&mut text, account);
    beside(&mut text, account);
    probes(&mut text, &account.probes);
    super::missing(&mut text, &account.missing);
    text
}

fn head(account: &Account) -> String {
    let page_tables: u64 = account.processes.iter().map(|process| process.page_tables_bytes).sum();
    let count = counted(account.processes.len() as u64, "process");
    let within = match account.uncertainty_bytes {
        0 => String::new(),
        bytes => format!(", give or take {}", Bytes(bytes)),
    };
    let explained =
        account.explained_share.map_or_else(String::new, |share| format!("; {:.1} % of it explained", share * 100.0));
    let total = Bytes(account.kernel_total_bytes);
    format!("{total} of RAM in {count}, {} of it page tables{within}{explained}", Bytes(page_tables))
}

/// With more than one, the largest.
fn processes(text: &mut String, account: &Account) {
    if account.processes.len() < 2 {
        return;
    }
    let mut largest: Vec<_> = account.processes.iter().collect();
    largest.sort_by_key(|process| std::cmp::Reverse(process.pss_bytes));
    let _ = writeln!(text, "\nthe largest processes by their share of the memory (Pss)");
    for process in largest.iter().take(5) {
        let how = if process.is_estimated { " (estimated from others)" } else { "" };
        let (pss, tables) = (Bytes(process.pss_bytes).to_string(), Bytes(process.page_tables_bytes).to_string());
        let _ = writeln!(text, "  {:>8} {:<30} {pss:>11}, page tables {tables}{how}", process.pid, process.role);
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
    let held: u64 = probes.iter().map(|probe| probe.held_us).sum();
    let longest = probes.iter().map(|probe| probe.held_us_max).max().unwrap_or(0);
    let span = |us: u64| Span(Duration::from_micros(us));
    let _ = writeln!(
        text,
        "\nreading held the server's address space for {} in all, {} at a stretch",
        span(held),
        span(longest)
    );
}
