// SPDX-License-Identifier: Apache-2.0
//! `wringer matrix run`.

use super::bench::run_cells;
use super::ready::Ready;
use super::{RunArgs, failure, folder};
use super::{page, show};
use crate::commands::experiment_file::read_text;
use crate::commands::ram::ask_consent;
use crate::commands::run::{REPORT, make_folder, refuse_unwritable};
use crate::commands::sandbox::Watch;
use crate::exit::{Exit, Failure, Outcome};
use crate::signals;
use crate::terminal::{self, Output};
use evidence::ArmOutcome;
use host::places::Places;
use lab::{Cell, KeptFills};
use sandbox::Request;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use sweep::{CellState, Ended, Error, State, Sweep, Wish};

pub(super) fn main(args: RunArgs) -> Outcome {
    let text = read_text(&args.file)?;
    of_text(args, text)
}

pub(super) fn of_text(args: RunArgs, text: String) -> Outcome {
    let places = Places::from_environment();
    let kept_fills = if args.verify { KeptFills::Verify } else { KeptFills::Use };
    let look = || Ready::look(&args.file, &text, &args.require, kept_fills);
    let mut ready = look()?;
    let stop = signals::install()?;
    if fetch_servers(&ready.cells, &places)? {
        // the builds of the servers are known now, and their programs can be asked for their options
        ready = look()?;
    }
    if ready.cells.iter().any(lab::Cell::changes_host) {
        ask_consent(&places, args.yes)?;
    }
    for left_out in ready.left_out() {
        terminal::say(format_args!("note: left out: {}: {}; {}", left_out.what, left_out.why, left_out.instead));
    }
    for doubt in ready.doubts() {
        terminal::say(format_args!("note: line {}: {}", doubt.line, doubt.message));
    }
    for unseen in &ready.unseen {
        terminal::say(format_args!("note: {unseen}"));
    }
    if ready.matrix.blocks < 3 {
        terminal::say("note: fewer than three blocks: there will be figures, and no verdict between settings");
    }
    let folder = folder(args.to.as_deref(), &ready.plan.name, &places);
    let mut sweep = open(&folder, &ready.plan, &places, args.in_turn.then_some(&*stop))?;
    let wish = Wish { longest_wait: args.wait.0, stop };
    let ended = run_cells(&mut sweep, (&ready.plan, &ready.cells), (&folder, &places), &wish);
    let state = sweep.state();
    match args.output {
        Output::Json => terminal::json(state),
        Output::Text => terminal::data(show::text(state).trim_end()),
    }
    let page = folder.join(REPORT);
    match page::write_page(state, &page) {
        Ok(()) => terminal::say(format_args!("\nreport     {}", page.display())),
        // what ended the cells comes first
        Err(failure) if ended.is_err() => terminal::say(format_args!("\nnote: no report: {:#}", failure.error)),
        Err(failure) => return Err(failure),
    }
    terminal::say(format_args!("state      {}", sweep.path().display()));
    if let Some(changed) = ready.changed(&args.file) {
        terminal::say(format_args!("note: {changed}"));
    }
    end(ended.map_err(failure)?, state, &ready)
}

/// Fetches the servers that this machine lacks: which build of a server runs is a part of a setting. `false`: it has all.
///
/// # Errors
/// A server cannot be found or fetched: no cell would have it.
pub(in crate::commands) fn fetch_servers(cells: &[Cell], places: &Places) -> Result<bool, Failure> {
    let mut missing: Vec<&Request> = Vec::new();
    for request in cells.iter().map(|cell| &cell.server) {
        if !missing.contains(&request) && sandbox::present(request, places).is_none() {
            missing.push(request);
        }
    }
    for request in &missing {
        sandbox::locate(request, places, &mut Watch::default())?;
    }
    Ok(!missing.is_empty())
}

/// `in_turn`: when another process measures, wait until it ends, or until this flag is set.
pub(in crate::commands) fn open<'a>(
    folder: &Path,
    plan: &'a sweep::Plan,
    places: &'a Places,
    in_turn: Option<&AtomicBool>,
) -> Result<Sweep<'a>, Failure> {
    // an existing folder is looked at before it is touched
    if folder.exists() {
        refuse_unwritable(folder)?
    } else {
        make_folder(folder, 0o755)?
    }
    let mut is_told = false;
    loop {
        match (Sweep::open(folder, plan, places), in_turn) {
            (Err(Error::Run(error @ ::run::Error::Measured { .. })), Some(stop)) if !stop.load(Ordering::SeqCst) => {
                if !is_told {
                    terminal::say(format_args!("waiting: {error}"));
                }
                is_told = true;
                std::thread::sleep(Duration::from_millis(500));
            }
            (Err(Error::Run(::run::Error::Measured { .. })), Some(_)) => {
                return Err(Failure::message(Exit::Interrupted, "interrupted while it waited; nothing was changed"));
            }
            (opened, _) => return opened.map_err(failure),
        }
    }
}

/// The exit of the command: the worst that happened decides.
fn end(ended: Ended, state: &State, ready: &Ready) -> Outcome {
    let failed: Vec<String> = state
        .planned()
        .filter(|cell| cell.state == CellState::Failed)
        .map(|cell| format!("{}: {}", cell.label(&state.keys), cell.told.join("; ")))
        .collect();
    let others = match ended {
        Ended::Budget(_) => "with a larger budget the same command tries them again, and runs those that are left",
        _ => "the same command tries them again; the others are done",
    };
    match ended {
        Ended::Interrupted => {
            let failure = Failure::message(Exit::Interrupted, "interrupted; everything is undone");
            return Err(failure.hint("the same command goes on from here"));
        }
        Ended::Budget(which) => {
            terminal::say(format_args!("note: {which}. With a larger budget the same command goes on from here"))
        }
        Ended::Whole => {}
    }
    if !failed.is_empty() {
        let message =
            format!("{} could not be run\n  {}", units::counted(failed.len() as u64, "cell"), failed.join("\n  "));
        return Err(Failure::message(Exit::Failed, message).hint(others));
    }
    let asserted: Vec<String> = state
        .planned()
        .flat_map(|cell| {
            let not_judged = not_judged(cell, ready);
            let of_cell = |it: String| format!("{}, block {}: {it}", cell.label(&state.keys), cell.block);
            cell.failed_assertions.iter().cloned().chain(not_judged).map(of_cell).collect::<Vec<_>>()
        })
        .collect();
    if asserted.is_empty() {
        return Ok(());
    }
    let count = units::counted(asserted.len() as u64, "assertion");
    Err(Failure::message(Exit::Finding, format!("{count} failed\n  {}", asserted.join("\n  "))))
}

/// The assertions of arms that were not measured: their server was killed, or did not start, or their squeeze did not come on. Nothing was promised for
/// such an arm, so the promise is not kept.
fn not_judged(cell: &sweep::Cell, ready: &Ready) -> Vec<String> {
    let settings = ready.plan.settings.iter().zip(&ready.matrix.settings);
    let Some((_, setting)) = settings.into_iter().find(|(planned, _)| planned.id == cell.setting) else {
        return Vec::new();
    };
    if cell.state != CellState::Done {
        return Vec::new();
    }
    let outcome = |arm: &str| cell.outcomes.get(arm).or_else(|| cell.outcomes.get(sweep::ALL_ARMS));
    let of_arm = |arm: &experiment::Arm| {
        // the walk may have ended before this arm began
        let outcome = outcome(&arm.name).map_or("it did not begin", String::as_str);
        let why = (outcome != ArmOutcome::Measured.name()).then(|| outcome.to_owned());
        let name = arm.name.clone();
        let asserted = arm.assertions.iter().map(|asserted| asserted.assertion.to_string());
        why.map(|why| asserted.map(|it| format!("{it} in arm \"{name}\": not measured ({why})")).collect::<Vec<_>>())
    };
    setting.experiment.arms.iter().filter_map(of_arm).flatten().collect()
}
