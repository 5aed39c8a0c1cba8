// SPDX-License-Identifier: Apache-2.0
//! `wringer disk`: make the storage below a directory slower, for everybody and for a stated time.

mod profiles;
pub mod words;

use self::words::DiskWords;
use super::standing::{self, Format, Output, Standing};
use crate::exit::{Exit, Failure, Outcome};
use crate::internal::Squeeze;
use crate::terminal;
use clap::Subcommand;
use diskmodel::Model;
use evidence::{Measured, Quantity, Unit};
use host::places::Places;
use run::FoundRun;
use serde_json::{Value, json};
use slowfs::control::Client;
use squeeze::databases;
use squeeze::directory::{FILE_SYSTEM, SOCKET, check, check_reach, set_and_measure};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = "A copy of a data directory on a disk with 10 ms:\n  \
    sudo wringer disk delay /srv/copy --read 10ms\n  \
    sudo wringer disk delay /srv/copy --read 2ms --sync 5ms     (again: changes it at once)\n  \
    sudo wringer disk delay /srv/copy --profile gp3\n  \
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
    Delay(Box<Delayed>),
    /// Which disks are known by name, and where their figures are from
    Profiles(profiles::Args),
    /// Which directories are slow, and how slow
    Status(Format),
    /// Give a directory's speed back; without one, that of all
    Release(Release),
}

#[derive(Debug, clap::Args)]
#[command(after_help = format!("{}\n\nExamples:\n  \
    sudo wringer disk delay /srv/copy --profile gp2:100G,credits=0      a volume whose burst is over\n  \
    sudo wringer disk delay /srv/copy --profile hdd-7200 --iops 60      a disk that others use too\n  \
    sudo wringer disk delay /srv/copy --read tail:0.2ms,1/1000:80ms --mode total\n\n\
    What was asked, what the model predicts for this host, and what a probe got stand side by side. docs/disk.md", words::WORDS_HELP))]
struct Delayed {
    /// The directory
    path: PathBuf,
    #[command(flatten)]
    disk: DiskWords,
    #[command(flatten)]
    standing: Standing,
}

#[derive(Debug, clap::Args)]
struct Release {
    path: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
}

/// A probe of a long delay takes 50 reads at depth 1 and as long again deeper, and there are three at most.
const PROBES: f64 = 320.0;

pub fn main(args: Args) -> Outcome {
    let places = Places::from_environment();
    match args.command {
        Command::Delay(args) => delay(&places, &args),
        Command::Profiles(args) => profiles::main(&args),
        Command::Status(format) => status(&places, format.output),
        Command::Release(args) => release(&places, &args),
    }
}

fn delay(places: &Places, args: &Delayed) -> Outcome {
    let model = args.disk.model()?;
    let found = run::find_runs(places)?;
    let canonical = args.path.canonicalize().unwrap_or_else(|_| args.path.clone());
    if let Some((run, directory)) = standing::slowing(&found).into_iter().find(|(_, directory)| *directory == canonical)
    {
        return change(places, run, directory, &model, args);
    }
    if !args.standing.dry_run {
        standing::refuse_hot(&found)?;
    }
    let directory = check(&args.path, &databases::unknown(places)?)?;
    if args.standing.dry_run {
        return dry_run(&directory, &model, args.standing.output);
    }
    check_reach(&directory, &model)?;
    let spinner = terminal::spinner("mounting the slow layer, probing it");
    let takes = Duration::from_secs_f64(model.read.takes.mean() / 1e6 * PROBES);
    let squeeze = Squeeze::Disk { directory, model: Box::new(model) };
    let result = standing::start(places, args.standing.lasts, squeeze, takes);
    spinner.finish_and_clear();
    show(&result?, args.standing.output);
    Ok(())
}

/// The layer serves already: one switch, which reaches files that are open. The time it lasts stays what it was.
fn change(places: &Places, run: &FoundRun, directory: &Path, model: &Model, args: &Delayed) -> Outcome {
    if args.standing.dry_run {
        terminal::data(format_args!("{}: the delay changes to {model}", directory.display()));
        return Ok(());
    }
    let measured = set_and_measure(&socket(places, run), directory, model)?;
    let delay = model.delay();
    let value = json!({
        "schema": 1, "run": run.id, "directory": directory, "delay": delay, "model": model, "measured": measured,
    });
    show(&value, args.standing.output);
    Ok(())
}

fn dry_run(directory: &Path, model: &Model, output: Output) -> Outcome {
    let change = format!("a slow layer ({FILE_SYSTEM}) is mounted over {}: {model}", directory.display());
    let undo = "the delay goes to 0 at once; it is unmounted when nobody uses it, and the layer ends";
    if output == Output::Json {
        let changes = json!([{ "change": change, "undo": undo }]);
        terminal::data(format_args!(
            "{:#}",
            json!({ "schema": 1, "dry_run": true, "changes": changes, "model": model })
        ));
    } else {
        terminal::data(format_args!("{change}\n    undo: {undo}"));
    }
    Ok(())
}

fn socket(places: &Places, run: &FoundRun) -> PathBuf {
    places.journal.join(run.id.as_str()).join(SOCKET)
}

fn show(value: &Value, output: Output) {
    if output == Output::Json {
        return terminal::data(format_args!("{value:#}"));
    }
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    let model: Option<Model> = serde_json::from_value(value["model"].clone()).ok();
    let model = model.map(|model| model.to_string()).unwrap_or_default();
    terminal::data(format_args!("{}: {model} (run {})", text("directory"), text("run")));
    let measured: Vec<Measured> = serde_json::from_value(value["measured"].clone()).unwrap_or_default();
    measured.iter().for_each(show_measured);
    if let Some(until) = value["until"].as_str() {
        terminal::say(format_args!("until {until}; `wringer disk release {}` ends it", text("directory")));
    }
}

fn show_measured(measured: &Measured) {
    let unit = |quantity: &Quantity| if quantity.unit == Unit::PerSecond { "/s" } else { " us" };
    let us =
        |quantity: &Option<Quantity>| quantity.map_or_else(|| "-".into(), |it| format!("{:.0}{}", it.value, unit(&it)));
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
    let in_force = |run: &FoundRun| {
        let ask = |mut client: Client| Ok((client.model()?, client.stats()?));
        Client::connect(socket(places, run)).and_then(ask).ok()
    };
    if output == Output::Json {
        let row = |(run, directory): &(&FoundRun, &Path)| {
            let mut value = standing::run_json(run);
            let (model, stats) = in_force(run).unzip();
            value["directory"] = json!(directory);
            value["delay"] = json!(stats.as_ref().map(|stats| stats.delay));
            value["model"] = json!(model);
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
            |(model, stats)| {
                format!("{model}; {} reads, {} writes, {} syncs so far", stats.reads, stats.writes, stats.syncs)
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
