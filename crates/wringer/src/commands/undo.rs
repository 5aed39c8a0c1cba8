// SPDX-License-Identifier: Apache-2.0
//! `wringer undo`: put everything back, also after a crash.

use super::standing::{self, Output};
use crate::exit::{Exit, Failure, Outcome};
use crate::{signals, terminal};
use host::places::Places;
use run::{FoundRun, RunId, Scope};
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Undo works from the journals, and may be repeated. It ends all squeezes and every run's servers; a standing server \
    is ended only when it or its disk was squeezed; data is never deleted. A value that somebody else changed meanwhile is left alone, and \
    the command that would put it back is printed.\n\n\
    Of a damaged journal the steps that can be read are undone; of the others it says where to look, with exit code 5, each time, until \
    `wringer undo RUN --settled` takes your word for them. A journal of a later release, or one that cannot be read, is not touched.\n\n\
    Exit codes: 0 everything is back, or there was nothing to do; 3 processes of a run may live that cannot be seen from here, and it was left alone; 5 something is not."
)]
pub struct Args {
    /// One run only [default: all]
    run: Option<String>,
    /// Take your word that the host is as it should be, of a run whose journal is damaged or cannot be read: after one more undo
    /// its folder is set aside, and the run is over
    #[arg(long, requires = "run", conflicts_with = "dry_run")]
    settled: bool,
    /// Print what would be put back, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub fn main(args: Args) -> Outcome {
    let places = Places::from_environment();
    let scope = match &args.run {
        None => Scope::All,
        Some(text) => {
            let parsed = text.parse::<RunId>().map_err(|error| Failure::new(Exit::Usage, error));
            Scope::One(parsed.map_err(|failure| failure.hint("`wringer status` lists the runs"))?)
        }
    };
    if args.dry_run {
        return dry_run(&places, &scope, args.output);
    }
    signals::install()?;
    let progress = &mut |what: &str| terminal::say(format_args!("undo {what}"));
    let report = match &scope {
        Scope::One(id) if args.settled => run::settle(&places, id, progress)?,
        _ => run::undo(&places, scope, progress)?,
    };
    if report.ended.is_empty()
        && report.untouched.is_empty()
        && report.unknown.is_empty()
        && report.is_whole()
        && args.output == Output::Text
    {
        terminal::data("nothing to undo");
    }
    standing::finish_undo(&report, args.output)
}

fn dry_run(places: &Places, scope: &Scope, output: Output) -> Outcome {
    let mut found = run::find_runs(places)?;
    if let Scope::One(id) = scope {
        found.retain(|run| run.id == *id);
        if found.is_empty() {
            return Err(run::Error::NoSuchRun { id: id.clone() }.into());
        }
    }
    if output == Output::Json {
        let runs: Vec<Value> = found.iter().map(standing::run_json).collect();
        terminal::data(format_args!("{:#}", json!({ "schema": 1, "dry_run": true, "runs": runs })));
        return Ok(());
    }
    if found.is_empty() {
        terminal::data("nothing to undo");
    }
    found.iter().rev().for_each(show);
    Ok(())
}

/// Newest first, as it would be undone.
fn show(run: &FoundRun) {
    terminal::data(standing::headline(run));
    for step in run.steps.iter().rev().filter(|step| step.is_open()) {
        terminal::data(format_args!("    undo {}", step.change));
    }
}
