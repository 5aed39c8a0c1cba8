// SPDX-License-Identifier: Apache-2.0
use super::{interrupted, refuse};
use crate::exit::{Exit, Failure, Outcome};
use crate::signals;
use crate::terminal::{self, Output};
use probe::residency::Source;
use probe::tree::{Cached, Entry, Totals, cached};
use serde_json::{Value, json};
use std::path::PathBuf;
use units::{Bytes, counted};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Links below a folder are not followed, other file systems not entered, a file with several names is counted once. The kernel \
    tells what is cached only to a file's owner, to whoever may write it, and to root; what it does not tell is counted as unreadable.\n\n\
    Examples:\n  \
      # list the 20 most cached files, and the sum of all\n  \
      wringer probe cache /srv/data\n  \
      wringer probe cache a.ibd b.ibd -o json\n  \
      # print the sum alone\n  \
      wringer probe cache --top 0 /"
)]
pub struct Args {
    /// Files and folders
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// How many files are listed; the totals are of all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub fn main(args: &Args) -> Outcome {
    signals::install()?;
    let spinner = terminal::spinner("looking");
    let mut looked = 0_u64;
    let result = cached(&args.paths, args.top, &mut |totals| {
        looked += 1;
        if looked.is_multiple_of(1024) {
            spinner.set_message(so_far(totals));
        }
    });
    spinner.finish_and_clear();
    let result = result.map_err(refuse)?;
    match args.output {
        Output::Json => terminal::json(&as_json(&result)),
        Output::Text => show(&result),
    }
    if result.interrupted {
        return Err(interrupted());
    }
    let totals = &result.totals;
    if totals.files == 0 && totals.skipped.unreadable > 0 {
        let why = totals.skipped.reasons.join("; ");
        return Err(Failure::message(Exit::Missing, why).hint("run it as the owner of the files, or as root"));
    }
    Ok(())
}

fn so_far(totals: &Totals) -> String {
    format!(
        "{} in {}: {} of {} cached",
        counted(totals.files, "file"),
        counted(totals.folders, "folder"),
        Bytes(totals.cached_bytes),
        Bytes(totals.size_bytes)
    )
}

fn as_json(cached: &Cached) -> Value {
    let entry = |entry: &Entry| {
        json!({
            "path": entry.path.to_string_lossy(),
            "size_bytes": entry.size_bytes,
            "cached_bytes": entry.residency.cached_bytes(),
            "cached_pages": entry.residency.cached_pages,
            "cached_share": entry.residency.share(),
            "dirty_bytes": entry.residency.dirty_pages.map(|pages| pages * entry.residency.page_bytes),
        })
    };
    json!({
        "schema": 1, "files": cached.entries.iter().map(entry).collect::<Vec<_>>(), "totals": cached.totals,
        "interrupted": cached.interrupted,
    })
}

fn show(cached: &Cached) {
    let totals = &cached.totals;
    if !cached.entries.is_empty() {
        terminal::data("    cached          size   share     dirty  file");
    }
    for entry in &cached.entries {
        let residency = &entry.residency;
        let dirty = residency.dirty_pages.map_or_else(|| "-".into(), |it| Bytes(it * residency.page_bytes).to_string());
        terminal::data(format_args!(
            "{:>10}  {:>12}  {:>5.1} %  {dirty:>8}  {}",
            Bytes(residency.cached_bytes()),
            Bytes(entry.size_bytes),
            residency.share() * 100.0,
            entry.path.display()
        ));
    }
    let listed = cached.entries.len() as u64;
    if totals.files > listed && listed > 0 {
        terminal::data(format_args!("{:>10}  {} more files are in the total", "...", totals.files - listed));
    }
    terminal::data(so_far(totals));
    show_skipped(totals);
}

fn show_skipped(totals: &Totals) {
    let skipped = &totals.skipped;
    let counts = [
        (skipped.links, "links"),
        (skipped.special, "devices, pipes and sockets"),
        (skipped.other_file_systems, "folders on other file systems"),
        (skipped.hard_links, "further names of files counted above"),
        (skipped.unreadable, "unreadable"),
    ];
    let parts: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if !parts.is_empty() {
        terminal::say(format_args!("not looked at: {}", parts.join(", ")));
    }
    skipped.reasons.iter().for_each(|reason| terminal::say(format_args!("  {reason}")));
    if totals.source == Some(Source::Mincore) {
        terminal::say("by mincore: this kernel has no cachestat, so nothing is known of dirty pages");
    }
}
