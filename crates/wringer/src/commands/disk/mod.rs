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
use super::standing::{self, Format, Output, Shown, Standing};
use crate::exit::{Exit, Failure, Outcome};
use crate::{signals, terminal};
use clap::Subcommand;
use diskmodel::Model;
use evidence::{Measured, Quantity, Unit};
use host::places::Places;
use run::{FoundRun, RunId};
use serde_json::json;
use slowfs::stats::Stats;
use squeeze::directory::{SOCKET, check_reach};
use squeeze::standing::{Report, SlowedDirectory};
use squeeze::{Plan, Slowed, access_lists};
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
    An image gets a loop device over a FUSE file: it can do every delay, distribution, limit and profile. A block device gets the kernel's \
    device-mapper where that is enough (whole milliseconds, rounded up to the kernel's ticks, no distributions; the new device is \
    /dev/mapper/wringer-...), else a loop device, too. Use an image or a device instead of a directory when a whole file system shall be slow, \
    or when the server must not see FUSE. docs/disk.md, or `wringer doc disk`\n\n\
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
    What was asked, what the model predicts for this host, and what a probe got stand side by side. docs/disk.md, or `wringer doc disk`", flags::DISTRIBUTIONS_HELP))]
struct Delayed {
    /// A directory, an image file, or an unmounted block device
    path: PathBuf,
    /// The mechanism that delays [default: fuse for a directory, loop for an image; for a device device-mapper, where its module is loaded and the request
    /// is whole milliseconds without a distribution, a limit or a profile, else loop]
    #[arg(long, value_enum)]
    mechanism: Option<mechanism::Standing>,
    #[command(flatten)]
    disk: DiskFlags,
    #[command(flatten)]
    standing: Standing,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudo wringer disk release /srv/copy\n  \
    # all that is slow\n  \
    sudo wringer disk release\n\n\
    Delays end at once. Where somebody still uses the directory or the device, it stays without a delay, and the release says by whom (exit code 5).")]
struct Release {
    /// The directory, image file or block device, as it was given to `disk delay`; or the slow device itself
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
    let mechanism = mechanism::choose(args.mechanism.map(|it| it.0), &args.path, &model)?;
    let plan = Plan::disk_of_all(&args.path, mechanism, &model, places)?;
    if let Plan::Directory { directory, .. } = &plan {
        look_before_mount(directory)?;
    }
    if args.standing.dry_run {
        return dry_run(&plan, &model, args.standing.output);
    }
    if let Plan::Directory { directory, .. } = &plan {
        check_reach(directory, &model, args.standing.strict)?;
    }
    let (what, takes) = (begun(&plan), takes(&plan, &model));
    let spinner = terminal::spinner(what);
    let result = standing::start(places, &args.standing, plan, takes);
    spinner.finish_and_clear();
    show(result?, args.standing.output)
}

/// # Errors
/// Exit code 3: the layer would not keep the access rights of these files, or it cannot be mounted here.
fn look_before_mount(directory: &Path) -> Outcome {
    if let Some(unknown) = access_lists::refuse(directory)? {
        terminal::say(format_args!("note: {unknown}"));
    }
    let fuse = Some(checks::fuse()).filter(|fuse| fuse.state == State::Missing);
    let Some(missing) = fuse.or_else(mounting::forbidden) else { return Ok(()) };
    let failure =
        Failure::message(Exit::Missing, format_args!("a directory cannot be slowed down here: {}", missing.found));
    let failure = missing.remedy.into_iter().fold(failure, Failure::hint);
    Err(failure.hint("`wringer squeeze --disk` slows one command down without a mount: `wringer doc preload`"))
}

fn begun(plan: &Plan) -> &'static str {
    match plan {
        Plan::Device { .. } => "making the slow device, probing it",
        Plan::Image { .. } => "attaching the slow loop device, probing it",
        _ => "mounting the slow layer, probing it",
    }
}

/// The longest time for a start.
fn takes(plan: &Plan, model: &Model) -> Duration {
    match plan {
        Plan::Device { delays, .. } => {
            Duration::from_secs(30) + Duration::from_millis(delays.read_ms.max(delays.sync_ms).into()) * 20
        }
        _ => PROBING + Duration::from_secs_f64((model.read.takes.mean() + model.sync.takes.mean()) / 1e6 * PROBES),
    }
}

/// Changes a target that is slow already. The time of its end stays the same.
fn change_of(places: &Places, run: &FoundRun, slowed: &Slowed, model: &Model, args: &Delayed) -> Outcome {
    mechanism::refuse_another(args.mechanism.map(|it| it.0), slowed)?;
    signals::install()?;
    args.standing.note_that_its_time_stays(&run.id);
    slowed.check(model)?;
    if args.standing.dry_run {
        dry_change(&run.id, slowed.path(), model, args.standing.output);
        return Ok(());
    }
    let report = slowed.change(places, model, args.standing.strict)?;
    show(Shown::changed(&run.id, report), args.standing.output)
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

fn dry_run(plan: &Plan, model: &Model, output: Output) -> Outcome {
    let (changes, notes) = (plan.changes(), plan.notes()?);
    if output != Output::Json {
        for change in changes {
            terminal::data(format_args!("{}\n    undo: {}", change.change, change.undo));
        }
        notes.iter().for_each(|note| terminal::say(format_args!("note: {note}")));
        return Ok(());
    }
    let mut value = json!({ "schema": 1, "dry_run": true, "changes": changes });
    match plan {
        Plan::Device { .. } => value["delay"] = json!(plan.delay()),
        _ => value["model"] = json!(model),
    }
    if !matches!(plan, Plan::Directory { .. }) {
        value["notes"] = json!(notes);
    }
    terminal::json(&value);
    Ok(())
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

fn show(shown: Shown<Report>, output: Output) -> Outcome {
    match shown.in_force {
        Report::Directory(_) => show_directory(&shown.only()?, output),
        Report::Device(_) => device::show(&shown.only()?, output),
        _ => loop_disk::show(&shown.only()?, output),
    }
    Ok(())
}

fn show_directory(shown: &Shown<SlowedDirectory>, output: Output) {
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
