// SPDX-License-Identifier: Apache-2.0
//! `wringer status`: the changes that are in force on this host, and their runs. Changes nothing.

use super::hidden;
use super::lost;
use super::standing::{self, Output};
use crate::exit::Outcome;
use crate::terminal;
use host::places::Places;
use run::{FoundRun, Reading};
use serde_json::{Value, json};
use squeeze::Meminfo;
use units::Bytes;

#[derive(Debug, clap::Args)]
#[command(after_help = "Each run is shown with one word:\n  \
    live      its controller lives, or somebody undoes it now\n  \
    hot       its controller died and something may be left: `wringer undo` is due, and\n            \
    commands that change something refuse until it was done\n  \
    standing  its command has ended and left a server behind on purpose\n  \
    unknown   processes of it live, or may live, that cannot be seen from here: ask outside of this\n            \
    namespace or container, as the user who started it\n  \
    stale     of an earlier boot: its processes, mounts and kernel values went with that boot\n  \
    over      nothing of it is left but its journal; the next run or `wringer undo` clears it away\n  \
    lost      its journal is gone or cannot be read, and the host shows what it has changed:\n            \
    `wringer undo` puts that back\n  \
    foreign   a run of another user, whose `wringer undo` ends it, whoever its server runs as\n\n\
    The list also names mounts, devices, cgroups and processes that belong to runs of another WRINGER_HOME or of another user.\n\
    It also says which runs a watchdog has ended within the last day, and why.")]
pub struct Args {
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// A day: a user who finds a squeeze gone in the morning can read why.
const TOLD_FOR_S: u64 = 24 * 3600;

pub fn main(args: Args) -> Outcome {
    let places = Places::from_environment();
    let look = run::Look::take(&places)?;
    let lost = run::find_lost(&places, &look);
    let found = look.runs;
    let meminfo = Meminfo::now()?;
    let last_words = run::watchdog::last_words(&places, TOLD_FOR_S);
    if args.output == Output::Json {
        let runs: Vec<Value> = found.iter().map(standing::run_json).collect();
        let hot: Vec<_> = found.iter().filter(|run| run.hot).map(|run| &run.id).collect();
        let hidden = hidden::bytes(&hidden::hiding_ram(&found), &meminfo);
        terminal::json(&json!({
            "schema": 1,
            "journal": places.journal,
            "runs": runs,
            "hot": hot,
            "hidden_bytes": hidden,
            "hidden_by_others": hidden::by_others(&places, &lost, &meminfo),
            "memory": meminfo,
            "lost": lost.iter().map(lost::json).collect::<Vec<_>>(),
            "watchdog": last_words,
        }));
        return Ok(());
    }
    if found.is_empty() && lost.iter().all(run::Lost::is_of_others) {
        terminal::data(
            "nothing is changed on this host by this WRINGER_HOME: it runs nothing now, and has left nothing behind",
        );
    }
    found.iter().for_each(show);
    lost.iter().for_each(lost::show);
    for line in &last_words {
        terminal::data(format_args!("watchdog: {line}"));
    }
    terminal::say(format_args!(
        "RAM {}, available {}; journals in {}",
        Bytes(meminfo.total_bytes),
        Bytes(meminfo.available_bytes),
        places.journal.display()
    ));
    standing::hint_at_hot(found.iter().any(|run| run.hot) || lost.iter().any(run::Lost::is_due));
    Ok(())
}

fn show(run: &FoundRun) {
    terminal::data(standing::headline(run));
    match &run.reading {
        Reading::Whole(_) | Reading::TornTail(_) => {}
        Reading::Damaged(_, words) => terminal::data(format_args!("    its journal is damaged: {words}")),
        Reading::Unknown(_, words) => terminal::data(format_args!("    its journal is a later release's: {words}")),
        Reading::Unreadable(words) => terminal::data(format_args!("    its journal: {words}")),
    }
    if let Some(unsure) = run.unsure() {
        terminal::data(format_args!("    {}", unsure.cure));
    }
    if let Some(why) = &run.unknown {
        terminal::data(format_args!("    unknown: {why}"));
    }
    if run.left && standing::condition(run) == "standing" && run.processes.is_empty() {
        let names = run.resources.iter().filter_map(|resource| resource.strip_prefix("sandbox-"));
        let name = names.collect::<Vec<_>>().join(" ");
        terminal::data(format_args!(
            "    ended by itself: nobody stopped its server, which crashed or was killed; `wringer sandbox log {name}` may say why, \
             `wringer sandbox stop {name}` clears this away"
        ));
    }
    if let Some(reason) = &run.neutralised {
        terminal::data(format_args!("    ended by its watchdog: {reason}"));
    }
    for step in run.steps.iter().filter(|step| step.is_open()) {
        terminal::data(format_args!("    {}: {} ({})", step.id, step.change, standing::phase(&step.phase)));
    }
    let pids: Vec<String> = run.processes.iter().map(|process| process.pid.to_string()).collect();
    if !pids.is_empty() {
        terminal::data(format_args!("    processes: {}", pids.join(" ")));
    }
}
