// SPDX-License-Identifier: Apache-2.0
//! `wringer status`: what is changed on this host now, and by whom. Changes nothing.

use super::standing::{self, Output};
use crate::exit::Outcome;
use crate::terminal;
use host::places::Places;
use run::FoundRun;
use serde_json::{Value, json};
use squeeze::Meminfo;
use units::Bytes;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A run is *live* while its controller lives, *standing* when it left a server behind on purpose, and *hot* when \
    its controller died before everything was given back: then `wringer undo` is due, and commands that change something \
    refuse until it was done."
)]
pub struct Args {
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub fn main(args: Args) -> Outcome {
    let places = Places::from_environment();
    let found = run::find_runs(&places)?;
    let meminfo = Meminfo::now()?;
    if args.output == Output::Json {
        let runs: Vec<Value> = found.iter().map(standing::run_json).collect();
        let hot: Vec<_> = found.iter().filter(|run| run.hot).map(|run| &run.id).collect();
        let reserved = meminfo.huge_reserved_pages * meminfo.huge_page_bytes;
        terminal::data(format_args!(
            "{:#}",
            json!({ "schema": 1, "journal": places.journal, "runs": runs, "hot": hot, "hidden_bytes": reserved, "memory": meminfo })
        ));
        return Ok(());
    }
    if found.is_empty() {
        terminal::data("nothing is changed: there is no run");
    }
    found.iter().for_each(show);
    terminal::say(format_args!(
        "RAM {}, available {}; journals in {}",
        Bytes(meminfo.total_bytes),
        Bytes(meminfo.available_bytes),
        places.journal.display()
    ));
    if found.iter().any(|run| run.hot) {
        terminal::hint("a run was cut off: `wringer undo` puts the host back");
    }
    Ok(())
}

fn show(run: &FoundRun) {
    terminal::data(standing::headline(run));
    if let Some(trouble) = &run.trouble {
        terminal::data(format_args!("    its journal: {trouble}"));
    }
    for step in run.steps.iter().filter(|step| step.is_open()) {
        terminal::data(format_args!("    {}: {} ({})", step.id, step.change, standing::phase(&step.phase)));
    }
    let pids: Vec<String> = run.processes.iter().map(|process| process.pid.to_string()).collect();
    if !pids.is_empty() {
        terminal::data(format_args!("    processes: {}", pids.join(" ")));
    }
}
