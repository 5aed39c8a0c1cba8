// SPDX-License-Identifier: Apache-2.0
//! The whole flow of an experiment file: sandbox, fill, squeeze, load and observe, recording, explain, report, release.

mod output;

use super::experiment_file::{Require, assertions, disks, of_text, own_data, programs, read_text, replays, workloads};
use super::load::DEFAULT_KEYS;
use super::ram::ask_consent;
use super::{command_line, disk, matrix, plan, verdicts};
use crate::exit::{Exit, Failure, Outcome};
use crate::{signals, terminal};
use evidence::{Arm, ArmOutcome};
use experiment::{Experiment, Load};
use host::files::NewFile;
use host::places::Places;
use lab::{Cell, Ended, Found, Hooks, KeptFills, Missed, refuse_limits, refuse_ram};
use output::RESULT;
pub use output::{Output, RECORDING, REPORT, lock_folder, make_folder, refuse_unwritable};
use recording::Recording;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[derive(Debug, clap::Args)]
#[command(after_help = "Leaves recording.sqlite (raw), result.json and report.html in the folder it prints.\n\n\
    Examples:\n  \
      wringer examples one-read-or-two > my.toml\n  \
      # print what it would do, and how each change is undone\n  \
      wringer plan my.toml\n  \
      wringer run my.toml --to out\n  \
      # add the result to the summary of a CI job\n  \
      wringer run my.toml -o markdown >> \"$GITHUB_STEP_SUMMARY\"\n  \
      wringer run my.toml -o json | jq '.findings[] | select(.id == \"latency.modes\")'\n\n\
    Assertions (`assert` in the file) are those of `wringer load --assert`, such as p99<20ms or errors=0; and, on what \
    the run records, NAME RELATION VALUE, such as memory.explained>=0.9, stalls.longest<60ms, probe.scan.warm>1G, \
    beside.shop.refused=0 or 'article VSZ over RSS>1'. `wringer doc experiment` has all names.\n\n\
    Exit codes: 0 done; 1 done, everything given back, and an assertion of the file failed; 2 the file is wrong; 3 something is missing or in \
    the way; 4 failed, everything given back; 5 failed, and the host is not as it was: `wringer undo`; 130 interrupted, everything given back.\n\n\
    Ctrl-C ends the load and gives everything back; pressed again, it cuts waits, never the undo.")]
pub struct Args {
    /// The experiment file; `-` reads standard input
    file: PathBuf,
    /// Folder for the results [default: a new one below Wringer's recordings]
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Replace the results of an earlier run in that folder
    #[arg(long)]
    force: bool,
    /// Keep the server's data as a sandbox, to start again with `wringer sandbox start`
    #[arg(long)]
    keep: bool,
    /// Squeeze the host's RAM even beside a running database that is no sandbox of this WRINGER_HOME
    #[arg(long)]
    yes: bool,
    /// Fill anew, even where the same data are kept, and keep the new data instead
    #[arg(long)]
    fresh_fill: bool,
    /// Fill anew, and keep nothing
    #[arg(long, conflicts_with_all = ["fresh_fill", "verify"])]
    no_kept_fill: bool,
    /// Read every file of the kept data and compare its checksum before they are used
    #[arg(long, conflicts_with = "fresh_fill")]
    verify: bool,
    /// A file with [matrix]: when another process measures on this host, wait until it ends
    #[arg(long)]
    in_turn: bool,
    #[command(flatten)]
    require: Require,
    /// How to print the summary
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

/// How the summary is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    Text,
    Json,
    /// For a merge request or the page of a CI job
    Markdown,
    /// JUnit XML: each assertion a test case
    Junit,
}

impl From<terminal::Output> for Format {
    fn from(output: terminal::Output) -> Self {
        match output {
            terminal::Output::Text => Self::Text,
            terminal::Output::Json => Self::Json,
        }
    }
}

pub fn main(args: Args) -> Outcome {
    let text = read_text(&args.file)?;
    if ::matrix::is_matrix(&text) {
        return matrix::run_as_run(matrix_of(args)?, text);
    }
    if args.in_turn {
        let message = format!("--in-turn is for a file with [matrix], and {} has none", args.file.display());
        return Err(Failure::message(Exit::Usage, message).hint("leave it out: one run does not wait for others"));
    }
    let mut experiment = of_text(&args.file, &text)?;
    args.require.of(&mut experiment)?;
    let kept_fills = match (args.no_kept_fill, args.fresh_fill, args.verify) {
        (true, ..) => KeptFills::Off,
        (false, true, _) => KeptFills::Fresh,
        (false, false, true) => KeptFills::Verify,
        (false, false, false) => KeptFills::Use,
    };
    let asked = RunArguments { to: args.to.as_deref(), force: args.force, keep: args.keep, yes: args.yes, kept_fills };
    let ready = Ready::look(&args.file, text, &experiment, &asked)?;
    if let Some(who) = ::run::measured_by(&ready.places) {
        terminal::say(format_args!(
            "note: {who} measures on this host: each of the two has the other's load in its results"
        ));
    }
    let walked = ready.walk();
    let shown = show(&ready.output, args.output);
    let missed = walked?;
    let arms = shown?;
    refuse_missed(&missed)?;
    let each = arms.iter().flat_map(|arm| {
        let place = format!(" in arm '{}'", arm.name);
        arm.verdicts.iter().map(move |verdict| (place.clone(), verdict))
    });
    verdicts::outcome(each)
}

/// The arguments for the matrix of a file that has one.
///
/// # Errors
/// Exit code 2: a flag that is for one run.
fn matrix_of(args: Args) -> Result<matrix::RunArgs, Failure> {
    let of_one_run = [
        ("--force", args.force),
        ("--keep", args.keep),
        ("--fresh-fill", args.fresh_fill),
        ("--no-kept-fill", args.no_kept_fill),
    ];
    let refused = of_one_run.iter().find(|(_, is_given)| *is_given).map(|(flag, _)| *flag);
    let output = match args.output {
        Format::Text => Ok(terminal::Output::Text),
        Format::Json => Ok(terminal::Output::Json),
        Format::Markdown => Err("-o markdown"),
        Format::Junit => Err("-o junit"),
    };
    match (refused, output) {
        (None, Ok(output)) => Ok(matrix::RunArgs {
            file: args.file,
            to: args.to,
            yes: args.yes,
            verify: args.verify,
            wait: matrix::LONGEST_WAIT,
            in_turn: args.in_turn,
            require: args.require,
            output,
        }),
        (Some(flag), _) | (None, Err(flag)) => {
            let message = format!("{flag} is for one run, and {} has [matrix]", args.file.display());
            Err(Failure::message(Exit::Usage, message).hint("`wringer matrix run --help` says what a matrix takes"))
        }
    }
}

/// The arguments of a run, besides its file.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunArguments<'a> {
    pub to: Option<&'a Path>,
    pub force: bool,
    pub keep: bool,
    pub yes: bool,
    pub kept_fills: KeptFills,
}

/// A run that has everything that it needs; nothing is changed yet.
pub struct Ready {
    pub cell: Cell,
    pub output: Output,
    places: Places,
    stop: Arc<AtomicBool>,
}

impl Ready {
    /// Looks for everything that the experiment needs, and asks for consent if it is needed. `file`: the experiment's file; other files are searched
    /// relative to its folder.
    ///
    /// # Errors
    /// Something is missing, wrong or in the way.
    pub fn look(file: &Path, text: String, experiment: &Experiment, asked: &RunArguments<'_>) -> Result<Self, Failure> {
        let workloads = workloads::read(file, experiment)?;
        assertions::check(file, &text, experiment, &workloads)?;
        disks::check(file, &text, experiment)?;
        let places = Places::from_environment();
        let logs = replays::read(file, experiment)?;
        let facts = plan::host_facts(experiment, &places).of_logs(replays::seconds(&logs));
        let mut plan = experiment::plan(experiment, &facts);
        plan::ask_options(experiment, &places, &mut plan);
        plan::refuse_blocked(file, &plan)?;
        refuse_ram(experiment)?;
        refuse_limits(experiment)?;
        let programs = programs::find(file, experiment)?;
        let filler = programs::filler(file, experiment)?;
        let origin = own_data::look(file, experiment)?;
        let name = format!("{}-{}", host::clock::unix_seconds(), experiment.name);
        let output = Output::check(asked.to, asked.force, &places, &name)?;
        for left_out in &plan.left_out {
            terminal::say(format_args!("note: left out: {}: {}; {}", left_out.what, left_out.why, left_out.instead));
        }
        if draws_by_default(experiment) {
            terminal::say(DEFAULT_KEYS);
        }
        let stop = signals::install()?;
        let disk = experiment::disk_mechanism(experiment, &facts);
        let found = Found { workloads, programs, filler, logs, origin, disk };
        let cell = Cell {
            left_out: plan.left_out,
            keep: asked.keep,
            kept_fills: asked.kept_fills,
            command: command_line(),
            text,
            ..Cell::of(experiment, found, &mut disk::flags::read_bins)?
        };
        if cell.changes_host() {
            ask_consent(&places, asked.yes)?;
        }
        Ok(Self { cell, output, places, stop })
    }

    /// Runs everything up to the release; the recording is closed in any case. Returns the arms that were not measured, because their
    /// squeeze missed what was asked.
    ///
    /// # Errors
    /// The run broke off, or the host could not be given back.
    pub fn walk(&self) -> Result<Vec<Missed>, Failure> {
        walk(&self.cell, &self.places, self.stop.clone(), &self.output)
    }
}

/// Whether an arm has a load of sysbench's without a chosen key distribution.
fn draws_by_default(experiment: &Experiment) -> bool {
    let is_sysbenchs = |load: &Load| load.is_of_ours() && !Load::is_file(&load.workload) && !load.is_pgbench();
    experiment.arms.iter().any(|arm| is_sysbenchs(&arm.load) && !arm.load.distribution_written)
}

fn walk(cell: &Cell, places: &Places, stop: Arc<AtomicBool>, output: &Output) -> Result<Vec<Missed>, Failure> {
    let hooks = Hooks { progress: &terminal::Shown, samples: None, stop };
    let begun = lab::begin(cell, places, hooks)?;
    output.prepare()?;
    let Ended { outcome, kept, left_alone } = begun.walk(&output.path(RECORDING));
    if let Some(name) = kept {
        terminal::say(format_args!("kept: `wringer sandbox start {name}`"));
    }
    for path in left_alone {
        terminal::say(format_args!("note: not ours, left alone: {}", path.display()));
    }
    Ok(outcome.into_result()?)
}

/// The hint for a squeeze that missed what was asked.
const CANNOT_OR_BUSY: &str = "`wringer doctor` tells whether this host is busy: then try again when it is not. A quiet host cannot do \
    what was asked: ask for a slower disk, or for less RAM to be hidden";

/// The hint for a server that the kernel killed, or that did not start.
const SERVERS_END: &str = "the other arms were measured: result.json says of each what it came to (`arms[].outcome`), and the end of the \
    server's log stands in its events";

/// Fails if an arm was not measured. The other arms have been measured, and were shown.
pub fn refuse_missed(missed: &[Missed]) -> Outcome {
    if missed.is_empty() {
        return Ok(());
    }
    let each: Vec<String> = missed.iter().map(Missed::to_string).collect();
    let is_squeeze = |missed: &Missed| missed.outcome == ArmOutcome::Missed;
    let hint = if missed.iter().any(is_squeeze) { CANNOT_OR_BUSY } else { SERVERS_END };
    Err(Failure::message(Exit::Failed, each.join("; ")).hint(hint))
}

/// Explains the recording, also an unfinished one, and writes the report. Returns the recorded arms.
pub fn show(output: &Output, format: Format) -> Result<Vec<Arm>, Failure> {
    report_and_show(output, Some(format))
}

/// Explains the recording and writes the report, for a caller that prints its own result: only the paths of the files are printed.
///
/// # Errors
/// The recording cannot be read, or a file not be written.
pub fn show_report(output: &Output) -> Outcome {
    report_and_show(output, None).map(drop)
}

fn report_and_show(output: &Output, format: Option<Format>) -> Result<Vec<Arm>, Failure> {
    let path = output.path(RECORDING);
    // what is in a folder that was not prepared belongs to an earlier run
    if !output.is_prepared() || !path.exists() {
        return Ok(Vec::new());
    }
    let evidence = Recording::read_reduced(&path, report::needs, explain::with_figures_alone)?;
    let explained = explain::explain(&evidence);
    let context = report::Context::new(&evidence, &explained);
    let json = write_files(&output.folder, output.mode(), &context)?;
    match format {
        Some(Format::Json) => terminal::json(&json),
        Some(Format::Text) => terminal::data(report::text(&context.within(terminal::columns())).trim_end()),
        Some(Format::Markdown) => terminal::data(report::markdown(&context).trim_end()),
        Some(Format::Junit) => terminal::data(report::junit(&context).trim_end()),
        None => {}
    }
    terminal::say(format_args!("\nreport     {}", output.path(REPORT).display()));
    terminal::say(format_args!("result     {}", output.path(RESULT).display()));
    terminal::say(format_args!("recording  {}", path.display()));
    Ok(evidence.arms)
}

/// Writes `result.json`, whose content is returned, and `report.html`. `mode`: what the user's umask leaves of it.
///
/// # Errors
/// One of them cannot be written.
pub fn write_files(folder: &Path, mode: u32, context: &report::Context<'_>) -> Result<serde_json::Value, Failure> {
    let json = report::json(context);
    write(&folder.join(RESULT), mode, |file| report::write_pretty(file, &json).map_err(Into::into))?;
    write(&folder.join(REPORT), mode, |file| report::write_html(context, file).map_err(Into::into))?;
    Ok(json)
}

/// Makes a file of results, as a whole or not at all; `fill` writes its content.
fn write(path: &Path, mode: u32, fill: impl FnOnce(&mut BufWriter<NewFile>) -> anyhow::Result<()>) -> Outcome {
    let write = || {
        let mut file = BufWriter::new(NewFile::create(path, mode)?);
        fill(&mut file)?;
        Ok(file.into_inner().map_err(std::io::IntoInnerError::into_error)?.keep()?)
    };
    write()
        .map_err(|error: anyhow::Error| Failure::new(Exit::Failed, error.context(format!("write {}", path.display()))))
}
