// SPDX-License-Identifier: Apache-2.0
//! `wringer allocators`: the same load under several mallocs.

mod cells;
mod cpus;
mod flags;
mod show;

use super::examples::text;
use super::experiment_file::{of_text, read};
use super::matrix::{Contents, failure, fetch_servers, id_of, open, programs_of, run_cells};
use super::ram::ask_consent;
use crate::exit::{Exit, Failure, Outcome};
use crate::signals;
use crate::terminal::{self, Output};
use ::allocators::{BURST, Cell, Comparison, Recommendation, SHORTEST_BURST, Study, comparisons, lines, recommend};
use capability::MALLOCS;
use experiment::{Experiment, Flavour};
use host::places::Places;
use matrix::Matrix;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use sweep::{Budget, Ended, Planned, Sweep, Wish};
use units::Span;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "FILE is an experiment: its server, fill and load are used, its arms are not. Each cell is one life of the server: all tables are read, \
    then oltp_read_only and oltp_point_select run with each number of threads, then a burst (large temporary tables over 24 connections, and a dump), then a rest.\n\n\
    Examples:\n  \
      # the server, tables and load of `wringer examples mallocs`\n  \
      wringer allocators --to out\n  \
      # an experiment of your own\n  \
      wringer allocators my.toml --to out\n  \
      # other mallocs, one of them a library of your own, with eight repeats\n  \
      wringer allocators my.toml --malloc glibc,jemalloc,mine=/opt/libmine.so --repeat 8 --to out\n  \
      # the recommendation alone\n  \
      wringer allocators my.toml --to out -o json | jq .recommendation\n\n\
    After Ctrl-C or a kill, the same command goes on from where it was. `wringer doc allocators` says what is measured, and the rule of the recommendation.\n\n\
    Exit codes: 0 every cell has a result; 2 the file or a flag is wrong; 3 something is missing or in the way; 4 a cell failed; 130 interrupted."
)]
pub struct Args {
    /// The experiment file [default: that of `wringer examples mallocs`]
    file: Option<PathBuf>,
    /// The mallocs; the first one is the one that the others are compared with
    #[arg(long, value_delimiter = ',', default_values = ALL)]
    malloc: Vec<sandbox::Malloc>,
    /// The numbers of connections; each load is run with each of them
    #[arg(long, value_delimiter = ',', default_value = "8,64", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Vec<u32>,
    /// CPUs of the server, whole cores first; the load gets the others [default: both share all]
    #[arg(long, value_delimiter = ',')]
    cpus: Vec<u32>,
    /// Transparent huge pages of the server. `always` and `madvise` are settings of the whole host: as root, Wringer sets them before each cell, and puts the old setting back after it
    #[arg(long, value_delimiter = ',', value_parser = ["always", "madvise", "never"])]
    thp: Vec<String>,
    /// How often each cell is run; below 3 there is no verdict, and 3 show only differences of twice and more
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// How long each load is measured
    #[arg(long, value_name = "TIME", default_value = "10s")]
    time: Span,
    /// How long the burst may take; on a slow host it needs more
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = burst)]
    burst: Span,
    /// The rest after the burst
    #[arg(long, value_name = "TIME", default_value = "15s")]
    idle: Span,
    /// How long to wait for a quiet host before each cell; 0s: not at all
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = super::matrix::wait)]
    wait: Span,
    /// When another process measures on this host, wait until it ends
    #[arg(long)]
    in_turn: bool,
    /// Change the host's transparent huge pages even beside a running database that is no sandbox of this WRINGER_HOME
    #[arg(long)]
    yes: bool,
    /// Folder for the results; where it has results of this command already, the command goes on from them
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// The names of all mallocs that have one.
const ALL: [&str; MALLOCS.len()] = {
    let (mut names, mut at) = ([""; MALLOCS.len()], 0);
    while at < names.len() {
        names[at] = MALLOCS[at].name;
        at += 1;
    }
    names
};
/// The file of the result, beside the file of the sweep's state.
const RESULT: &str = "result.json";
const REPORT: &str = "report.html";
/// The ready example that is used when no file is given.
const READY: &str = "mallocs";

pub fn main(args: Args) -> Outcome {
    let (file, text, experiment) = asked_of(args.file.as_deref())?;
    let study = study(&args)?;
    lab::refuse_connections(experiment.server.flavour, study.connections())?;
    let places = Places::from_environment();
    refuse_cache(experiment.server.flavour, &places)?;
    let made = study.matrix(&text, &experiment);
    let matrix =
        Matrix::parse(&made).map_err(|problems| flags::refused(Exit::Usage, &file, &problems, &BTreeMap::new()))?;
    let mut contents = Contents::new(&places);
    let (cells, disk_bytes) = cells::of(&file, &matrix, &places, &mut contents)?;
    if cells.iter().any(lab::Cell::changes_host) {
        ask_consent(&places, args.yes)?;
    }
    let stop = signals::install()?;
    fetch_servers(&cells, &places)?;
    let mut planned = Vec::new();
    for ((setting, cell), disk_bytes) in matrix.settings.iter().zip(&cells).zip(disk_bytes) {
        let named = contents.of(&file, &setting.experiment, &programs_of(cell))?;
        planned.push(Planned { id: id_of(setting, cell, named), values: setting.values.clone(), disk_bytes });
    }
    let plan = sweep::Plan {
        name: matrix.name.clone(),
        description: matrix.description.clone(),
        keys: matrix.keys.clone(),
        groups: matrix.groups.clone(),
        settings: planned,
        blocks: matrix.blocks,
        seed: matrix.seed,
        budget: Budget::default(),
    };
    if study.repeat < 3 {
        terminal::say("note: fewer than three repeats: there will be figures, and no verdict");
    }
    let mut sweep = open(&args.to, &plan, &places, args.in_turn.then_some(&*stop))?;
    let wish = Wish { longest_wait: args.wait.0, stop };
    let ended = run_cells(&mut sweep, (&plan, &cells), (&args.to, &places), &wish);
    match (show(&args, &study, &sweep), &ended) {
        (Ok(()), _) => {}
        // what ended the cells comes first
        (Err(failure), Err(_)) => terminal::say(format_args!("note: no result: {:#}", failure.error)),
        (Err(failure), Ok(_)) => return Err(failure),
    }
    match ended.map_err(failure)? {
        Ended::Whole => failed(&sweep),
        Ended::Budget(which) => Err(Failure::message(Exit::Failed, which)),
        Ended::Interrupted => {
            let failure = Failure::message(Exit::Interrupted, "interrupted; everything is undone");
            Err(failure.hint("the same command goes on from here"))
        }
    }
}

/// Prints what all cells together tell, and writes it into the folder.
fn show(args: &Args, study: &Study, sweep: &Sweep<'_>) -> Outcome {
    let found = Found::of(args, study, sweep);
    let told = found.json(sweep.state());
    match args.output {
        Output::Json => terminal::json(&told),
        Output::Text => terminal::data(show::text(&told).trim_end()),
    }
    let (result, report) = (args.to.join(RESULT), args.to.join(REPORT));
    host::files::write_atomic(&result, format!("{told:#}\n").as_bytes(), 0o644)?;
    host::files::write_atomic(&report, &found.page(sweep.state())?, 0o644)?;
    terminal::say(format_args!("\nresult     {}\nreport     {}", result.display(), report.display()));
    Ok(())
}

/// # Errors
/// Exit code 3: the library that asks a server's malloc is in the cache, and cannot be preloaded from there.
fn refuse_cache(flavour: Flavour, places: &Places) -> Outcome {
    match flavour {
        // nobody asks PostgreSQL's malloc: each of its processes has its own
        Flavour::Postgresql => Ok(()),
        _ => asked::check_folder(&places.cache).map_err(|error| Failure::new(Exit::Missing, error)),
    }
}

/// The named file, or the ready example: its path, by which problems are reported and the files that it names are found; its text; and the experiment
/// in it.
fn asked_of(file: Option<&Path>) -> Result<(PathBuf, String, Experiment), Failure> {
    if let Some(file) = file {
        let (text, experiment) = read(file)?;
        return Ok((file.to_owned(), text, experiment));
    }
    terminal::say(format_args!("note: no FILE, so server, tables and load are those of `wringer examples {READY}`"));
    let (file, text) = (PathBuf::from(READY), text(READY).unwrap_or_default().to_owned());
    let experiment = of_text(&file, &text)?;
    Ok((file, text, experiment))
}

fn failed(sweep: &Sweep<'_>) -> Outcome {
    let state = sweep.state();
    let failed = state.planned().filter(|cell| cell.state == sweep::CellState::Failed);
    let failed: Vec<String> = failed.map(|it| format!("{}: {}", it.label(&state.keys), it.told.join("; "))).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let failure = Failure::message(Exit::Failed, format!("cells could not be run\n  {}", failed.join("\n  ")));
    Err(failure.hint("the same command tries them again; the others are done"))
}

fn study(args: &Args) -> Result<Study, Failure> {
    let mallocs: Vec<String> = args.malloc.iter().map(written).collect();
    let twice = |values: &[String]| {
        let found = (1..values.len()).find(|at| values[..*at].contains(&values[*at]));
        found.map(|at| values[at].clone())
    };
    let threads: Vec<String> = args.threads.iter().map(ToString::to_string).collect();
    for (flag, values) in [("--malloc", &mallocs), ("--threads", &threads), ("--thp", &args.thp)] {
        if let Some(value) = twice(values) {
            let failure = Failure::message(Exit::Usage, format!("{flag} has {value} twice"));
            return Err(failure.hint("name each once; --repeat runs all of them again"));
        }
    }
    Ok(Study {
        mallocs,
        threads: args.threads.clone(),
        thp: args.thp.clone(),
        cpus: cpus::split(&args.cpus)?,
        repeat: args.repeat,
        time: args.time,
        burst: args.burst,
        idle: args.idle,
        seed: 1,
    })
}

fn burst(text: &str) -> Result<Span, String> {
    let asked: Span = text.parse().map_err(|error: units::ParseError| error.to_string())?;
    if asked < SHORTEST_BURST { Err(format!("{SHORTEST_BURST} is the least")) } else { Ok(asked) }
}

/// The malloc as an experiment names it: a library with its absolute path, because the server starts in another folder.
fn written(malloc: &sandbox::Malloc) -> String {
    match malloc {
        sandbox::Malloc::Setting(setting) => setting.name.to_owned(),
        sandbox::Malloc::File { name, path } => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let name = name.as_ref().map(|name| format!("{name}=")).unwrap_or_default();
            format!("{name}{}", path.display())
        }
    }
}

/// The results of all cells together.
struct Found {
    base: String,
    cells: Vec<Cell>,
    compared: Vec<Comparison>,
    recommendation: Recommendation,
    /// The lines that set the recommended malloc; none when nothing is to be changed.
    set_by: Vec<String>,
}

impl Found {
    fn of(args: &Args, study: &Study, sweep: &Sweep<'_>) -> Self {
        let cells = cells::seen(&args.to, sweep.state());
        let base = study.mallocs.first().cloned().unwrap_or_default();
        let compared = comparisons(&cells, &base);
        let cpus = args.cpus.iter().max().copied().unwrap_or_else(cpus::of_host);
        let recommendation = recommend(&cells, &compared, &base, cpus);
        let set_by = lines(&recommendation, &base, &cells);
        Self { base, cells, compared, recommendation, set_by }
    }

    fn json(&self, state: &sweep::State) -> serde_json::Value {
        json!({
            "schema": 1,
            "name": state.name,
            "base": self.base,
            "burst": BURST,
            "cells": self.cells,
            "comparisons": self.compared,
            "recommendation": self.recommendation,
            "set_by": self.set_by,
        })
    }

    fn page(&self, state: &sweep::State) -> Result<Vec<u8>, Failure> {
        let page = report::AllocatorsPage {
            version: env!("CARGO_PKG_VERSION"),
            name: &state.name,
            base: &self.base,
            cells: &self.cells,
            comparisons: &self.compared,
            recommendation: &self.recommendation,
            set_by: &self.set_by,
            planned: state.planned().count(),
        };
        let mut html = Vec::new();
        report::write_allocators_html(&page, &mut html)?;
        Ok(html)
    }
}
