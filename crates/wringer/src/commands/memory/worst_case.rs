// SPDX-License-Identifier: Apache-2.0
//! `wringer memory worst-case`: how much memory the server has now, how much it will probably have at its next peak, and how much its settings allow.

use super::{Looked, Wanted, missing};
use crate::exit::Outcome;
use crate::terminal;
use ledger::{AccountClaim, Assumed, Line, StatementMark, Unbounded, WorstCase};
use std::fmt::Write as _;
use units::{Bytes, SignedBytes, counted};

/// The most entries of each list that the text shows; JSON has all.
const SHOWN: usize = 10;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Now: the kernel's total, the same as in `memory account`. Realistic peak: the total now, and the amounts by which the high-water marks of process and \
    sessions exceed it. Bound: each cache is full, and each buffer counts as often as the server can hold it at once, in all connections that it admits. Memory \
    that no setting limits is named, together with the way in which the bound counts it. The bound is no forecast: it shows how far each setting lets the \
    server grow.\n\n\
    Examples:\n  \
      wringer memory worst-case --sandbox shop\n  \
      # the realistic peak with 500 connections\n  \
      wringer memory worst-case --sandbox shop --connections 500\n  \
      # the bound, when no statement has more than four sorts, joins and temporary tables\n  \
      wringer memory worst-case --sandbox shop --operations 4 -o json | jq .bound_bytes\n  \
      # the same answer from a bundle of another machine\n  \
      wringer memory worst-case --from shop.tar.gz\n\n\
    More: docs/memory.md, or `wringer doc memory`."
)]
pub(super) struct Args {
    #[command(flatten)]
    looked: Looked,
    /// Connections at once at the realistic peak; where the server admits fewer, the answer says how many
    /// [default: Max_used_connections; for PostgreSQL, as many as now]
    #[arg(long, value_name = "N")]
    connections: Option<u64>,
    /// Sorts, joins and temporary tables of one statement at once, for the bound [default: 61, the most tables of a SELECT; for PostgreSQL 2 x
    /// join_collapse_limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    operations: Option<u64>,
}

pub(super) fn main(args: &Args) -> Outcome {
    let read = args.looked.read(Wanted { limits: true, ..Wanted::default() })?;
    let assumed = Assumed { connections: args.connections, operations: args.operations };
    let worst = ledger::worst_case(&read.inventory, &assumed);
    match args.looked.output {
        terminal::Output::Json => terminal::json(&worst),
        terminal::Output::Text => terminal::data(text(&read.of, &worst).trim_end()),
    }
    Ok(())
}

fn text(of: &str, worst: &WorstCase) -> String {
    let mut text = format!("{of}\n\n");
    head(&mut text, worst);
    lines(&mut text, "realistic peak", &worst.realistic);
    lines(&mut text, "bound", &worst.bound);
    if let Some(each) = worst.per_connection_bytes {
        let _ = writeln!(text, "  of it, one connection: {} at most", Bytes(each));
    }
    unbounded(&mut text, &worst.unbounded);
    accounts(&mut text, &worst.accounts);
    statements(&mut text, &worst.statements);
    missing(&mut text, &worst.missing);
    text
}

fn head(text: &mut String, worst: &WorstCase) {
    let at_once = &worst.concurrency;
    let mut size = |name: &str, bytes: Option<u64>, connections: Option<u64>, source: &str| {
        let bytes = bytes.map_or_else(|| "unknown".to_owned(), |bytes| Bytes(bytes).to_string());
        let connections = connections.map(|count| counted(count, "connection"));
        let rest = [connections.unwrap_or_default(), source.to_owned()].join(" ");
        let _ = writeln!(text, "{name:<14} {bytes:>11}  {}", rest.trim());
    };
    size("now", Some(worst.now_bytes), Some(at_once.connections_now), "");
    let of_peak = format!("({})", at_once.connections_peak_source);
    size("realistic peak", Some(worst.realistic_bytes), Some(at_once.connections_peak), &of_peak);
    size("bound", worst.bound_bytes, at_once.connections_max, &format!("({})", at_once.connections_max_source));
    for line in &worst.comparison {
        size("for comparison", Some(line.size_bytes), None, &line.name);
    }
}

fn lines(text: &mut String, title: &str, lines: &[Line]) {
    if lines.is_empty() {
        return;
    }
    let mut sorted: Vec<&Line> = lines.iter().filter(|line| line.bytes != 0).collect();
    sorted.sort_by_key(|line| (!line.counts, std::cmp::Reverse(line.bytes)));
    let _ = writeln!(text, "\n{title}");
    for line in sorted {
        let _ = writeln!(text, "{}", row(line));
    }
}

fn row(line: &Line) -> String {
    let size = SignedBytes(line.bytes.into());
    let product = match line.count {
        1 => String::new(),
        count => format!("{count} x {}", Bytes(line.size_bytes)),
    };
    let name = if line.counts { line.name.clone() } else { format!("({}: not added)", line.name) };
    format!("  {name:<60} {product:>18} {size:>11}  {}", line.source)
}

fn unbounded(text: &mut String, unbounded: &[Unbounded]) {
    if unbounded.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nwithout a bound");
    for one in unbounded {
        let _ = writeln!(text, "  {}: {}", one.name, one.why);
        let remedy = one.remedy.as_ref().map_or_else(String::new, |remedy| format!("; would help: {remedy}"));
        let _ = writeln!(text, "    counted: {}{remedy}", one.counted);
    }
}

fn accounts(text: &mut String, accounts: &[AccountClaim]) {
    if accounts.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\n  {:<30} {:>11} {:>11} {:>15} {:>11} {:>11}",
        "account", "connections", "now", "largest session", "all at that", "bound"
    );
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "not told".to_owned(), |bytes| Bytes(bytes).to_string());
    for one in accounts.iter().take(SHOWN) {
        let _ = writeln!(
            text,
            "  {:<30} {:>11} {:>11} {:>15} {:>11} {:>11}",
            one.account,
            one.connections,
            size(one.now_bytes),
            size(one.session_max_bytes),
            size(one.at_marks_bytes),
            size(one.bound_bytes)
        );
    }
    more(text, accounts.len());
}

fn statements(text: &mut String, statements: &[StatementMark]) {
    if statements.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nstatements that held the most");
    for one in statements.iter().take(SHOWN) {
        let shown: String = one.text.chars().take(100).collect();
        let size = Bytes(one.bytes_max).to_string();
        let _ = writeln!(text, "  {size:>11}  {} times  {shown}", one.count);
    }
    more(text, statements.len());
}

fn more(text: &mut String, count: usize) {
    let more = count.saturating_sub(SHOWN);
    if more > 0 {
        let _ = writeln!(text, "  and {more} more (-o json)");
    }
}
