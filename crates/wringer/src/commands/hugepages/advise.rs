// SPDX-License-Identifier: Apache-2.0
//! `wringer hugepages advise`: nothing is changed.

use super::named::Named;
use crate::exit::Outcome;
use crate::terminal::{self, Output};
use ledger::huge_pages::{self, HugeAdvice, Lines, PageTables, PagesBySize};
use std::fmt::Write as _;
use units::{Bytes, counted};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    # a sandbox may be stopped, too: then its program is asked\n  \
    wringer hugepages advise --sandbox shop\n  \
    sudo wringer hugepages advise --pid \"$(head -1 /var/lib/postgresql/15/main/postmaster.pid)\"\n  \
    sudo wringer hugepages advise --mysql-socket=/run/mysqld/mysqld.sock --mysql-user=me -o json \\\n    | jq .pages_needed\n\n\
    The number comes from the first of these that is known: the server's own figure (PostgreSQL 15 and later), the sum of its allocations, the size of its mappings. \
    PostgreSQL starts with this number of pages, and does not start with one less. The number by VmPeak is shown, too: it counts the whole address space, and \
    is too high.")]
pub(super) struct Args {
    #[command(flatten)]
    named: Named,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub(super) fn main(args: &Args) -> Outcome {
    let read = args.named.read()?;
    let advice = huge_pages::advise(&read.seen);
    match args.output {
        Output::Json => terminal::document(&advice),
        Output::Text => terminal::data(text(&read.of, &advice).trim_end()),
    }
    Ok(())
}

fn text(of: &str, advice: &HugeAdvice) -> String {
    let mut text = format!("{of}\n\n{}", head(advice));
    advice.page_tables.iter().for_each(|tables| page_tables(&mut text, tables, advice.page_bytes));
    pools(&mut text, &advice.sizes);
    limits(&mut text, advice);
    if !advice.lines.is_empty() {
        text.push_str("\nto have them\n");
    }
    advice.lines.iter().for_each(|lines| told(&mut text, lines));
    advice.notes.iter().for_each(|note| {
        let _ = writeln!(text, "note: {note}");
    });
    missing(&mut text, &advice.missing);
    text
}

fn head(advice: &HugeAdvice) -> String {
    let size = Bytes(advice.page_bytes);
    let (Some(pages), Some(need)) = (advice.pages_needed, &advice.need) else {
        return format!("how many huge pages of {size} it needs cannot be told\n");
    };
    let all = Bytes(pages.saturating_mul(advice.page_bytes));
    let mut text = format!("{} of {size} ({all}), by {}\n", counted(pages, "huge page"), need.source);
    for part in advice.parts.iter().filter(|_| advice.parts.len() > 1) {
        let times = if part.count > 1 { format!("{} times ", part.count) } else { String::new() };
        let _ = writeln!(text, "  {:<14} {times}{}", part.what, Bytes(part.bytes));
    }
    if let Some(peak) = advice.pages_by_vmpeak {
        let more = match peak.checked_sub(pages) {
            Some(more) => format!("{more} more than it can use"),
            None => "which is too few here".to_owned(),
        };
        let _ = writeln!(
            text,
            "VmPeak gives {peak}, {more}: it is the peak of the whole address space, program and reservations included"
        );
    }
    text
}

fn page_tables(text: &mut String, tables: &PageTables, page_bytes: u64) {
    let processes = counted(tables.processes, "process");
    text.push_str("\npage tables\n");
    if let Some(now) = tables.now_bytes {
        let _ = writeln!(text, "  now, in {processes}: {}", Bytes(now));
    }
    let who = match tables.permitted {
        1 => "its one process has".to_owned(),
        permitted => format!("each of {permitted} permitted connections has"),
    };
    let each = match tables.permitted {
        1 => String::new(),
        _ => format!("{} each, ", Bytes(tables.each_bytes)),
    };
    let all = Bytes(tables.all_touched_bytes);
    let _ = writeln!(text, "  when {who} touched all of it: {all}, {each}8 bytes for each page");
    let huge = Bytes(tables.all_touched_in_huge_pages_bytes);
    let _ = writeln!(text, "  the same in pages of {}: {huge}", Bytes(page_bytes));
}

fn pools(text: &mut String, sizes: &[PagesBySize]) {
    text.push_str("\nthe kernel's pools\n");
    if sizes.is_empty() {
        text.push_str("  none: this kernel has no huge pages\n");
    }
    for size in sizes {
        let needs = size.pages_needed.map_or_else(|| "not known".to_owned(), |pages| pages.to_string());
        let pool = &size.pool;
        let nodes: Vec<String> = pool.nodes.iter().map(|node| format!("node {}: {}", node.node, node.total)).collect();
        let nodes = if nodes.len() > 1 { format!("; {}", nodes.join(", ")) } else { String::new() };
        let _ = writeln!(
            text,
            "  {:>7}  needs {needs}; has {}, {} of them unclaimed{nodes}",
            Bytes(pool.page_bytes).to_string(),
            pool.total,
            size.unclaimed
        );
    }
}

fn limits(text: &mut String, advice: &HugeAdvice) {
    for limit in &advice.limits {
        let Some((most, file)) = limit.decisive() else { continue };
        let what = match (limit.ends_in_sigbus, limit.refuses) {
            (true, _) => "too small: the server would start, and die by SIGBUS when it touches more",
            (_, true) => "too small: the server would get none",
            _ => "large enough",
        };
        let _ = writeln!(text, "limit of cgroup {}: {} ({file}), {what}", limit.limit.path, Bytes(most));
    }
}

fn told(text: &mut String, lines: &Lines) {
    let _ = writeln!(text, "  {:<10} {}", lines.about, lines.place);
    for line in &lines.lines {
        let _ = writeln!(text, "               {line}");
    }
    if let Some(note) = &lines.note {
        let _ = writeln!(text, "             ({note})");
    }
}

pub(super) fn missing(text: &mut String, missing: &[ledger::Missing]) {
    for one in missing {
        let _ = writeln!(text, "not read: {}: {}", one.what, one.why);
        if let Some(remedy) = &one.remedy {
            let _ = writeln!(text, "  would help: {remedy}");
        }
    }
}
