// SPDX-License-Identifier: Apache-2.0
//! `wringer undo`: put everything back, also after a crash.

use super::lost;
use super::standing::{self, Output};
use crate::exit::{Exit, Failure, Outcome};
use crate::{signals, terminal};
use host::places::Places;
use run::{FoundRun, RunId, Scope, Unsure};
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Undo reads the journals of all runs, and takes back each change that they name. It can be called again at any time. It also asks \
    the host: a change that carries the mark of a run of yours is taken back even when its journal is gone.\n\n\
    What it does and what it leaves:\n  \
    - it ends all squeezes, and the servers that a run has started;\n  \
    - a standing server is ended only if the server or its disk was squeezed;\n  \
    - it never deletes data;\n  \
    - a value that somebody else has changed meanwhile stays, and the command that would put it back is printed.\n\n\
    A damaged journal: the steps that can be read are taken back. For the others, undo says where to look, and ends with exit code 5, each time, \
    until you have put the host in order and say so: `wringer undo RUN --settled`. A journal that a later release has written, or that cannot be \
    read, is not touched.\n\n\
    Examples:\n  \
    # what would be put back\n  \
    wringer undo --dry-run\n  \
    # runs of root, too\n  \
    sudo wringer undo\n\n\
    Exit codes: 0 everything is back, or there was nothing to do; 3 processes of a run may be alive where this command cannot see them, and the \
    run was left alone; 5 something could not be put back."
)]
pub struct Args {
    /// One run only [default: all]
    run: Option<String>,
    /// For a run whose journal is damaged or cannot be read: you say that the host is in order. Undo tries once more, sets the run's
    /// folder aside, and counts the run as ended
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
    let mut report = match &scope {
        Scope::One(id) if args.settled => run::settle(&places, id, progress)?,
        _ => run::undo(&places, scope, progress)?,
    };
    report.left.iter().filter_map(run::Lost::note).for_each(|note| terminal::say(format_args!("note: {note}")));
    if !args.settled {
        let cut_off: Vec<Unsure> = report.left.iter().filter_map(of_another_home).collect();
        report.unsure.extend(cut_off);
    }
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

/// The changes by a dead run of another home of this user are still in force: only an undo with that home ends them.
fn of_another_home(lost: &run::Lost) -> Option<Unsure> {
    let home = lost.home().filter(|_| lost.condition == run::Condition::HotElsewhere)?;
    Some(Unsure {
        run: lost.id.clone(),
        why: format!("of another WRINGER_HOME: {lost}"),
        looks: Vec::new(),
        cure: format!("WRINGER_HOME={} wringer undo", home.display()),
    })
}

fn dry_run(places: &Places, scope: &Scope, output: Output) -> Outcome {
    let look = run::Look::take(places)?;
    let mut lost = run::find_lost(places, &look);
    let mut found = look.runs;
    if let Scope::One(id) = scope {
        found.retain(|run| run.id == *id);
        lost.retain(|run| run.id == *id);
        if found.is_empty() && lost.is_empty() {
            return Err(run::Error::NoSuchRun { id: id.clone() }.into());
        }
    }
    let (due, others): (Vec<_>, Vec<_>) = lost.into_iter().partition(run::Lost::is_due);
    if output == Output::Json {
        let (kept, undone): (Vec<&FoundRun>, Vec<&FoundRun>) =
            found.iter().partition(|run| run::reason_to_leave(run, scope).is_some());
        let shown = |runs: Vec<&FoundRun>| runs.into_iter().map(standing::run_json).collect::<Vec<_>>();
        let lost: Vec<Value> = due.iter().map(lost::json).collect();
        let left: Vec<Value> = shown(kept).into_iter().chain(others.iter().map(lost::json)).collect();
        terminal::json(
            &json!({ "schema": 1, "dry_run": true, "runs": shown(undone), "lost": lost, "left_alone": left }),
        );
        return Ok(());
    }
    if due.is_empty() && found.iter().all(|run| run::reason_to_leave(run, scope).is_some()) {
        terminal::data("nothing to undo");
    }
    found.iter().rev().for_each(|run| show(run, run::reason_to_leave(run, scope)));
    due.iter().chain(&others).for_each(lost::show);
    Ok(())
}

/// The steps from the newest to the oldest, which is the order of the undo.
fn show(run: &FoundRun, left_alone: Option<String>) {
    if let Some(reason) = left_alone {
        terminal::data(format_args!("{}: left alone: {reason}", run.id));
        return;
    }
    terminal::data(standing::headline(run));
    for step in run.steps.iter().rev().filter(|step| step.is_open()) {
        terminal::data(format_args!("    undo {}", step.change));
    }
}
