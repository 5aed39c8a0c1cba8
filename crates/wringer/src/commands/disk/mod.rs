// SPDX-License-Identifier: Apache-2.0
//! `wringer disk`: make a directory or a block device slower, for everybody and for a stated time.

pub mod device;
pub mod flags;
pub mod loop_disk;
mod mechanism;
mod profiles;
mod status;

use self::flags::DiskFlags;
use super::doctor::check::State;
use super::doctor::{checks, mounting};
use super::standing::{self, Format, Output, Shown, Slowed, Standing};
use crate::exit::{Exit, Failure, Outcome};
use crate::{signals, terminal};
use clap::Subcommand;
use diskmodel::Model;
use evidence::{DiskMechanism, Measured, Quantity, Unit};
use host::places::Places;
use run::{FoundRun, RunId};
use serde_json::json;
use slowfs::stats::Stats;
use squeeze::directory::{FILE_SYSTEM, SOCKET, check, check_reach};
use squeeze::standing::{Asked, SlowedDirectory};
use squeeze::{access_lists, databases};
use std::path::{Path, PathBuf};
use std::time::Duration;
use units::counted;

#[derive(Debug, clap::Args)]
#[command(after_help = "A copy of a data directory on a disk with 10 ms:\n  \
    sudo wringer disk delay /srv/copy --read 10ms\n  \
    # given again: change the delay at once\n  \
    sudo wringer disk delay /srv/copy --read 2ms --sync 5ms\n  \
    sudo wringer disk delay /srv/copy --profile gp3\n  \
    wringer disk status\n  \
    sudo wringer disk release /srv/copy\n\n\
    A DIRECTORY gets the FUSE layer, mounted over it: whoever opens a file below it from now on is delayed. Nobody may have files open below it, \
    nothing may be mounted below it, and no running database may live in it. Written data goes through to the disk as before.\n\
    An IMAGE file or an unmounted block DEVICE becomes a slow disk: another device appears, whose path is printed, and everything that goes \
    through it is delayed:\n  \
    fallocate -l 8G /srv/image && mke2fs -t ext4 /srv/image\n  \
    # print the new device: /dev/loop0\n  \
    sudo wringer disk delay /srv/image --read 0.5ms --sync 1ms\n  \
    sudo mount /dev/loop0 /mnt\n  \
    # given again: change the delay at once, whether the device is mounted or not\n  \
    sudo wringer disk delay /srv/image --profile gp3\n  \
    sudo umount /mnt && sudo wringer disk release /srv/image\n\
    An image gets a loop device over a FUSE file, which knows all words; so does a device, unless the kernel's device-mapper can do it: \
    whole milliseconds, rounded up to the kernel's ticks, no distributions (/dev/mapper/wringer-...). Take a disk for a whole file system, or \
    where a server must not see FUSE. docs/disk.md\n\n\
    For a throw-away server, an experiment's `squeeze.disk` needs no root and touches nobody else.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Delay each operation below a directory, or on a block device that nobody uses; for one that is slow already, change the delay at once
    #[command(alias = "set")]
    Delay(Box<Delayed>),
    /// The disks that are known by name, and the sources of their figures
    Profiles(profiles::Args),
    /// Which directories and devices are slow, and how slow
    Status(Format),
    /// Give the speed of a directory or device back; without a name, that of all
    Release(Release),
}

#[derive(Debug, clap::Args)]
#[command(after_help = format!("{}\n\nExamples:\n  \
    # a volume that has used up its burst credits\n  \
    sudo wringer disk delay /srv/copy --profile gp2:100G,credits=0\n  \
    # a disk that others use, too\n  \
    sudo wringer disk delay /srv/copy --profile hdd-7200 --iops 60\n  \
    sudo wringer disk delay /srv/copy --read tail:0.2ms,1/1000:80ms --mode total\n\n\
    What was asked, what the model predicts for this host, and what a probe got stand side by side. docs/disk.md", flags::DISTRIBUTIONS_HELP))]
struct Delayed {
    /// A directory, an image file, or an unmounted block device
    path: PathBuf,
    /// The mechanism that delays [default: fuse for a directory, loop for an image; for a device device-mapper, where its module is loaded and the request
    /// is whole milliseconds, else loop]
    #[arg(long, value_enum)]
    mechanism: Option<mechanism::Standing>,
    #[command(flatten)]
    disk: DiskFlags,
    #[command(flatten)]
    standing: Standing,
}

#[derive(Debug, clap::Args)]
struct Release {
    path: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
}

/// A probe takes ten seconds, or five slow reads; so does one at a larger depth, and one of syncs.
const PROBES: f64 = 20.0;
const PROBING: Duration = Duration::from_secs(45);

pub fn main(args: Args) -> Outcome {
    let places = Places::from_environment();
    match args.command {
        Command::Delay(args) => delay(&places, &args),
        Command::Profiles(args) => profiles::main(&args),
        Command::Status(format) => status::status(&places, format.output),
        Command::Release(args) => release(&places, &args),
    }
}

fn delay(places: &Places, args: &Delayed) -> Outcome {
    if args.disk.is_nothing() {
        return Err(Failure::message(Exit::Usage, "nothing says how slow the disk is to be")
            .hint("--read 10ms, for example, or --profile gp3; --read 0 measures the layer without a delay"));
    }
    let model = args.disk.model()?;
    let look = run::Look::take(places)?;
    let found = &look.runs;
    if let Some((run, slowed)) = standing::slowing(found).into_iter().find(|(_, slowed)| slowed.is_named(&args.path)) {
        return change_of(places, run, &slowed, &model, args);
    }
    if !args.standing.dry_run {
        standing::refuse_hot(places, &look)?;
    }
    let takes = PROBING + Duration::from_secs_f64((model.read.takes.mean() + model.sync.takes.mean()) / 1e6 * PROBES);
    match mechanism::choose(args.mechanism.map(|it| it.0), &args.path, &model)? {
        DiskMechanism::DeviceMapper => return device::delay(places, &args.path, &model, &args.standing),
        DiskMechanism::Loop => return loop_disk::delay(places, &args.path, &model, &args.standing, takes),
        _ => {}
    }
    let directory = check(&args.path, &databases::unknown(places)?)?;
    if let Some(unknown) = access_lists::refuse(&directory)? {
        terminal::say(format_args!("note: {unknown}"));
    }
    let fuse = Some(checks::fuse()).filter(|fuse| fuse.state == State::Missing);
    if let Some(missing) = fuse.or_else(mounting::forbidden) {
        let failure =
            Failure::message(Exit::Missing, format_args!("a directory cannot be slowed down here: {}", missing.found));
        let failure = missing.remedy.into_iter().fold(failure, Failure::hint);
        return Err(failure.hint("`wringer squeeze --disk` slows one command down without a mount: docs/preload.md"));
    }
    if args.standing.dry_run {
        dry_run(&directory, &model, args.standing.output);
        return Ok(());
    }
    check_reach(&directory, &model, args.standing.strict)?;
    let spinner = terminal::spinner("mounting the slow layer, probing it");
    let squeeze = Asked::Directory { directory, model: Box::new(model) };
    let result = standing::start(places, &args.standing, squeeze, takes);
    spinner.finish_and_clear();
    show(&result?, args.standing.output);
    Ok(())
}

/// Changes a target that is slow already. The time of its end stays the same.
fn change_of(places: &Places, run: &FoundRun, slowed: &Slowed, model: &Model, args: &Delayed) -> Outcome {
    mechanism::refuse_another(args.mechanism.map(|it| it.0), slowed)?;
    signals::install()?;
    args.standing.note_that_its_time_stays(&run.id);
    let words = &args.standing;
    match slowed {
        Slowed::Directory(directory) => change(places, run, directory, model, words),
        Slowed::Device(slow) => device::change(places, slow, model, words),
        Slowed::Loop(slow) => loop_disk::change(places, slow, model, words),
    }
}

/// Changes a layer that runs already: one switch changes the delay, also for open files.
fn change(places: &Places, run: &FoundRun, directory: &Path, model: &Model, words: &Standing) -> Outcome {
    if words.dry_run {
        dry_change(&run.id, directory, model, words.output);
        return Ok(());
    }
    let in_force = SlowedDirectory::set(&socket(places, run), directory, model, words.strict)?;
    show(&Shown::changed(&run.id, in_force), words.output);
    Ok(())
}

/// The `--dry-run` output for a path that is slow already.
fn dry_change(run: &RunId, path: &Path, model: &Model, output: Output) {
    let change = format!("{}: the delay changes to {model}", path.display());
    let undo = format!("none of its own: it goes with run {run}");
    if output == Output::Json {
        let changes = json!([{ "change": change, "undo": undo }]);
        let value = json!({ "schema": 1, "dry_run": true, "run": run, "changes": changes, "model": model });
        return terminal::json(&value);
    }
    terminal::data(format_args!("{change}\n    undo: {undo}"));
}

fn dry_run(directory: &Path, model: &Model, output: Output) {
    let change = format!("a slow layer ({FILE_SYSTEM}) is mounted over {}: {model}", directory.display());
    let undo = "the delay goes to 0 at once; it is unmounted when nobody uses it, and the layer ends";
    if output == Output::Json {
        let changes = json!([{ "change": change, "undo": undo }]);
        terminal::json(&json!({ "schema": 1, "dry_run": true, "changes": changes, "model": model }));
    } else {
        terminal::data(format_args!("{change}\n    undo: {undo}"));
    }
}

fn socket(places: &Places, run: &FoundRun) -> PathBuf {
    places.journal.join(run.id.as_str()).join(SOCKET)
}

/// The model in force, and the counts since then.
fn counted_in_words(model: &Model, stats: &Stats) -> String {
    let failed = match stats.errors {
        0 => String::new(),
        errors => format!("; {} FAILED: the disk below answered with an error", counted(errors, "request")),
    };
    let [reads, writes, syncs] = [(stats.reads, "read"), (stats.writes, "write"), (stats.syncs, "sync")]
        .map(|(count, what)| counted(count, what));
    format!("{model}; {reads}, {writes}, {syncs} so far{failed}")
}

fn show(shown: &Shown<SlowedDirectory>, output: Output) {
    if output == Output::Json {
        return terminal::json(shown);
    }
    let SlowedDirectory { directory, model, measured, .. } = &shown.in_force;
    let directory = directory.display();
    terminal::data(format_args!("{directory}: {model} (run {})", shown.run));
    measured.iter().for_each(show_measured);
    if let Some(until) = &shown.until {
        terminal::say(format_args!("until {until}; `wringer disk release {directory}` ends it"));
    }
}

fn show_measured(measured: &Measured) {
    if measured.what == squeeze::WAY {
        if measured.got.is_none() {
            terminal::say(format_args!("note: {}", measured.witness));
        }
        return;
    }
    let unit = |quantity: &Quantity| if quantity.unit == Unit::PerSecond { "/s" } else { " us" };
    let us = |quantity: &Option<Quantity>| {
        quantity.map_or_else(
            || "-".into(),
            |it| match it.unit {
                Unit::Ratio => format!("{:.0} %", it.value * 100.0),
                _ => format!("{:.0}{}", it.value, unit(&it)),
            },
        )
    };
    let verdict = match measured.within_tolerance {
        Some(true) => "within tolerance",
        Some(false) => "OUT of tolerance",
        None => "no promise",
    };
    let looks = measured.looks.filter(|looks| looks.number > 1).map_or_else(String::new, |looks| {
        let at = |value: f64| us(&measured.got.map(|got| Quantity { value, ..got }));
        format!("; the looks lay between {} and {}", at(looks.lowest), at(looks.highest))
    });
    terminal::data(format_args!(
        "{}: asked {}, predicted {}, got {}: {verdict} ({}{looks})",
        measured.what,
        us(&measured.asked),
        us(&measured.predicted),
        us(&measured.got),
        measured.witness
    ));
}

fn release(places: &Places, args: &Release) -> Outcome {
    let look = run::Look::take(places)?;
    let slow = standing::slowing_or_left(&look.runs);
    let chosen: Vec<&FoundRun> = slow
        .iter()
        .filter(|(_, slowed)| args.path.as_ref().is_none_or(|wanted| slowed.is_named(wanted)))
        .map(|(run, _)| *run)
        .collect();
    if chosen.is_empty() {
        standing::refuse_hot(places, &look)?;
        if let Some(path) = &args.path {
            let message = format!("{} is not slowed down", path.display());
            return Err(Failure::message(Exit::Missing, message).hint("`wringer disk status` lists what is"));
        }
        terminal::say("no directory or device is slowed down");
    }
    standing::release(places, &chosen, args.format.output)
}
