// SPDX-License-Identifier: Apache-2.0
//! `wringer hugepages check`: nothing is changed.

use super::advise::missing;
use super::named::Named;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::{self, Output};
use ledger::huge_pages::{self, HugeCheck};
use std::fmt::Write as _;
use units::Bytes;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A setting says what the server was asked to do. Its mappings show what it got: huge pages are marked `ht` in /proc/PID/smaps.\n\n\
    Examples:\n  \
      wringer hugepages check --sandbox shop\n  \
      sudo wringer hugepages check --mysql-socket=/run/mysqld/mysqld.sock --mysql-user=me\n  \
      # by its process alone: say that the server should have huge pages\n  \
      sudo wringer hugepages check --pid \"$(pidof mariadbd)\" --wanted; [ $? = 1 ] && echo no huge pages\n\n\
    Exit codes: 0 huge pages are in use, or are not wanted; 1 huge pages are wanted (huge_pages = on or try, large_pages = ON, --wanted) and not in use, or a \
    cgroup's limit will kill the server with SIGBUS; 3 there is no such server; 4 the server ended meanwhile."
)]
pub(super) struct Args {
    #[command(flatten)]
    named: Named,
    /// Huge pages are wanted, whatever the server's settings say; with --pid alone the settings are not known
    #[arg(long)]
    wanted: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub(super) fn main(args: &Args) -> Outcome {
    let read = args.named.read()?;
    if read.seen.inventory.processes.is_empty() {
        return Err(Failure::message(Exit::Missing, format!("{}: huge pages are seen only while it runs", read.of))
            .hint("start it, and check again; `wringer hugepages advise` needs no running server"));
    }
    let check = huge_pages::check(&read.seen, args.wanted.then_some(true));
    match args.output {
        Output::Json => terminal::document(&check),
        Output::Text => terminal::data(text(&read.of, &check).trim_end()),
    }
    if check.is_good { Ok(()) } else { Err(Failure::message(Exit::Finding, why_not(&check))) }
}

fn why_not(check: &HugeCheck) -> &'static str {
    match (check.ends_in_sigbus, check.huge_pages_in_use) {
        (true, _) => {
            "a cgroup admits fewer huge pages than the server has mapped: SIGBUS kills the server when it touches more"
        }
        (_, Some(_)) => "huge pages are wanted, and not in use",
        (_, None) => "huge pages are wanted, and it is not known whether they are in use",
    }
}

fn text(of: &str, check: &HugeCheck) -> String {
    let in_use = match (check.huge_pages_in_use, check.mapped_bytes) {
        (Some(true), _) => "yes",
        (Some(false), 0) => "no",
        (Some(false), _) => "in part",
        (None, _) => "cannot be told",
    };
    let setting = check.setting.as_deref().unwrap_or("not told");
    let mut text = format!("{of}\n\nhuge pages in use: {in_use} (setting: {setting})\n");
    if check.mapped_bytes > 0 {
        let (mapped, touched) = (Bytes(check.mapped_bytes), Bytes(check.touched_bytes));
        let _ = writeln!(
            text,
            "  {mapped} mapped in huge pages, {touched} of it touched so far by the server's first process; the rest is reserved"
        );
    }
    if check.outside_bytes > 0 {
        let _ = writeln!(text, "  {} could lie in huge pages, and does not", Bytes(check.outside_bytes));
    }
    for part in &check.parts {
        let times = if part.count > 1 { format!("{} times ", part.count) } else { String::new() };
        let pages = part.page_bytes.map_or_else(String::new, |bytes| format!("pages of {}", Bytes(bytes)));
        let _ = writeln!(text, "  {:<16} {:<22} {pages}", part.what, format!("{times}{}", Bytes(part.bytes)));
    }
    for pool in check.pools.iter().filter(|pool| pool.nodes.len() > 1) {
        let nodes = pool.nodes.iter().map(|it| format!("node {}: {}, {} of them free", it.node, it.total, it.free));
        let _ = writeln!(text, "the pool of {}: {}", Bytes(pool.page_bytes), nodes.collect::<Vec<_>>().join("; "));
    }
    for limit in &check.limits {
        let Some((most, file)) = limit.decisive() else { continue };
        let most = Bytes(most);
        let end = if limit.ends_in_sigbus { ": too small, it ends in SIGBUS" } else { "" };
        let _ = writeln!(text, "limit of cgroup {}: {most} ({file}){end}", limit.limit.path);
    }
    missing(&mut text, &check.missing);
    text
}
