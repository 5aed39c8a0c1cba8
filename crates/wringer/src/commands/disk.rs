// SPDX-License-Identifier: Apache-2.0
//! `wringer disk`: make the storage below a directory slower, for everybody and for a stated time.

use super::standing::{self, Format, Output, Standing};
use crate::exit::{Exit, Failure, Outcome};
use crate::internal::Squeeze;
use crate::terminal;
use clap::{Subcommand, ValueEnum};
use evidence::{Delay, DelayMode, Measured};
use host::places::Places;
use run::FoundRun;
use serde_json::{Value, json};
use slowfs::control::Client;
use squeeze::databases;
use squeeze::directory::{FILE_SYSTEM, SOCKET, check, set_and_measure};
use std::path::{Path, PathBuf};
use std::time::Duration;
use units::Span;

#[derive(Debug, clap::Args)]
#[command(after_help = "A copy of a data directory on a disk with 10 ms:\n  \
    sudo wringer disk delay /srv/copy --read 10ms\n  \
    sudo wringer disk delay /srv/copy --read 2ms --sync 5ms     (again: changes it at once)\n  \
    wringer disk status\n  \
    sudo wringer disk release /srv/copy\n\n\
    A layer is mounted over the directory: whoever opens a file below it from now on is delayed. Nobody may have files open below it, \
    nothing may be mounted below it, and no running database may live in it. Written data goes through to the disk as before.\n\
    For a throw-away server, an experiment's `squeeze.disk` needs no root and touches nobody else.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Delay each operation below a directory; for a directory that is slow already, change the delay at once
    #[command(alias = "set")]
    Delay(Delayed),
    /// Which directories are slow, and how slow
    Status(Format),
    /// Give a directory's speed back; without one, that of all
    Release(Release),
}

#[derive(Debug, clap::Args)]
struct Delayed {
    /// The directory
    path: PathBuf,
    /// Added to each read that is not served from the page cache
    #[arg(long, value_name = "SPAN", default_value = "0")]
    read: Span,
    /// Added to each write
    #[arg(long, value_name = "SPAN", default_value = "0")]
    write: Span,
    /// Added to each fsync and fdatasync
    #[arg(long, value_name = "SPAN", default_value = "0")]
    sync: Span,
    /// add: asked plus the disk's own time, as device-mapper delays; total: the reply leaves at the asked time
    #[arg(long, value_enum, default_value_t = Mode::Add)]
    mode: Mode,
    #[command(flatten)]
    standing: Standing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    Add,
    Total,
}

#[derive(Debug, clap::Args)]
struct Release {
    path: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
}

/// A probe of a long delay takes 50 reads, and there are three at most.
const PROBES: u32 = 160;

pub fn main(args: Args) -> Outcome {
    let places = Places::from_environment();
    match args.command {
        Command::Delay(args) => delay(&places, &args),
        Command::Status(format) => status(&places, format.output),
        Command::Release(args) => release(&places, &args),
    }
}

fn delay(places: &Places, args: &Delayed) -> Outcome {
    let mode = if args.mode == Mode::Total { DelayMode::Total } else { DelayMode::Add };
    let [read_us, write_us, sync_us] = [args.read, args.write, args.sync].map(Span::as_us);
    let delay = Delay { read_us, write_us, sync_us, mode, varies: false };
    let found = run::find_runs(places)?;
    let canonical = args.path.canonicalize().unwrap_or_else(|_| args.path.clone());
    if let Some((run, directory)) = standing::slowing(&found).into_iter().find(|(_, directory)| *directory == canonical)
    {
        return change(places, run, directory, delay, args);
    }
    if !args.standing.dry_run {
        standing::refuse_hot(&found)?;
    }
    let directory = check(&args.path, &databases::unknown(places)?)?;
    if args.standing.dry_run {
        return dry_run(&directory, delay, args.standing.output);
    }
    let spinner = terminal::spinner("mounting the slow layer, probing it");
    let takes = Duration::from_micros(read_us) * PROBES;
    let result = standing::start(places, args.standing.lasts, Squeeze::Disk { directory, delay }, takes);
    spinner.finish_and_clear();
    show(&result?, args.standing.output);
    Ok(())
}

/// The layer serves already: one switch, which reaches files that are open. The time it lasts stays what it was.
fn change(places: &Places, run: &FoundRun, directory: &Path, delay: Delay, args: &Delayed) -> Outcome {
    if args.standing.dry_run {
        terminal::data(format_args!("{}: the delay changes to {}", directory.display(), words(&delay)));
        return Ok(());
    }
    let measured = set_and_measure(&socket(places, run), directory, delay)?;
    let value = json!({ "schema": 1, "run": run.id, "directory": directory, "delay": delay, "measured": measured });
    show(&value, args.standing.output);
    Ok(())
}

fn dry_run(directory: &Path, delay: Delay, output: Output) -> Outcome {
    let change = format!("a slow layer ({FILE_SYSTEM}) is mounted over {}: {}", directory.display(), words(&delay));
    let undo = "the delay goes to 0 at once; it is unmounted when nobody uses it, and the layer ends";
    if output == Output::Json {
        let changes = json!([{ "change": change, "undo": undo }]);
        terminal::data(format_args!("{:#}", json!({ "schema": 1, "dry_run": true, "changes": changes })));
    } else {
        terminal::data(format_args!("{change}\n    undo: {undo}"));
    }
    Ok(())
}

fn socket(places: &Places, run: &FoundRun) -> PathBuf {
    places.journal.join(run.id.as_str()).join(SOCKET)
}

fn words(delay: &Delay) -> String {
    let [read, write, sync] = [delay.read_us, delay.write_us, delay.sync_us].map(Span::micros);
    let mode = if delay.mode == DelayMode::Total { "in total" } else { "added" };
    format!("read {read}, write {write}, sync {sync} {mode}")
}

fn show(value: &Value, output: Output) {
    if output == Output::Json {
        return terminal::data(format_args!("{value:#}"));
    }
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    let delay: Option<Delay> = serde_json::from_value(value["delay"].clone()).ok();
    let delay = delay.as_ref().map(words).unwrap_or_default();
    terminal::data(format_args!("{}: {delay} (run {})", text("directory"), text("run")));
    let measured: Vec<Measured> = serde_json::from_value(value["measured"].clone()).unwrap_or_default();
    measured.iter().for_each(show_measured);
    if let Some(until) = value["until"].as_str() {
        terminal::say(format_args!("until {until}; `wringer disk release {}` ends it", text("directory")));
    }
}

fn show_measured(measured: &Measured) {
    let us =
        |quantity: &Option<evidence::Quantity>| quantity.map_or_else(|| "-".into(), |it| format!("{:.0} us", it.value));
    let verdict = match measured.within_tolerance {
        Some(true) => "within tolerance",
        Some(false) => "OUT of tolerance",
        None => "no promise",
    };
    terminal::data(format_args!(
        "{}: asked {}, predicted {}, got {}: {verdict} ({})",
        measured.what,
        us(&measured.asked),
        us(&measured.predicted),
        us(&measured.got),
        measured.witness
    ));
}

fn status(places: &Places, output: Output) -> Outcome {
    let found = run::find_runs(places)?;
    let slow = standing::slowing(&found);
    let in_force = |run: &FoundRun| Client::connect(socket(places, run)).and_then(|mut client| client.stats()).ok();
    if output == Output::Json {
        let row = |(run, directory): &(&FoundRun, &Path)| {
            let mut value = standing::run_json(run);
            let stats = in_force(run);
            value["directory"] = json!(directory);
            value["delay"] = json!(stats.as_ref().map(|stats| stats.delay));
            value["stats"] = json!(stats);
            value
        };
        let rows: Vec<Value> = slow.iter().map(row).collect();
        terminal::data(format_args!("{:#}", json!({ "schema": 1, "directories": rows })));
        return Ok(());
    }
    if slow.is_empty() {
        terminal::data("no directory is slowed down");
    }
    for (run, directory) in slow {
        let delay = in_force(run).map_or_else(
            || "the layer does not answer".into(),
            |stats| {
                format!(
                    "{}; {} reads, {} writes, {} syncs so far",
                    words(&stats.delay),
                    stats.reads,
                    stats.writes,
                    stats.syncs
                )
            },
        );
        terminal::data(format_args!("{}: {delay}\n    {}", directory.display(), standing::headline(run)));
    }
    Ok(())
}

fn release(places: &Places, args: &Release) -> Outcome {
    let found = run::find_runs(places)?;
    let slow = standing::slowing(&found);
    let wanted = args.path.as_ref().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
    let chosen: Vec<&FoundRun> = slow
        .iter()
        .filter(|(_, directory)| wanted.as_ref().is_none_or(|wanted| wanted == directory))
        .map(|(run, _)| *run)
        .collect();
    if chosen.is_empty() {
        standing::refuse_hot(&found)?;
        if let Some(path) = &args.path {
            let message = format!("{} is not slowed down", path.display());
            return Err(Failure::message(Exit::Missing, message).hint("`wringer disk status` lists what is"));
        }
        terminal::say("no directory is slowed down");
    }
    standing::release(places, &chosen, args.format.output)
}
