// SPDX-License-Identifier: Apache-2.0
//! `wringer squeeze`: one program with less RAM, fewer CPUs, a slower disk, for as long as it runs.

mod disk_argument;
mod host_ram;
mod prepare;
mod session;
mod summary;

use super::limits::Limits;
use super::ram::Wanted;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::{self, Output};
use disk_argument::DiskArgument;
pub use disk_argument::parse_disk;
use evidence::DiskMechanism;
use host::places::Places;
use prepare::{OfPrograms, Prepared};
use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::path::{Path, PathBuf};
use summary::Summary;
use units::Bytes;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    # does this report still finish on the small machine?\n  \
    sudo wringer squeeze --ram 4G --cpus 2 --swap off -- ./nightly-report.sh\n  \
    sudo wringer squeeze --ram 1G --disk /srv/copy=gp3 -- mariadbd --user=mysql --datadir=/srv/copy\n  \
    sysbench fileio --file-total-size=1G prepare\n  \
    wringer squeeze --disk .=read=10ms,sync=5ms -- sysbench fileio --file-total-size=1G \\\n    --file-test-mode=rndrd --file-extra-flags=direct run\n  \
    wringer squeeze --cpuset 0 -- make\n  \
    # leave the whole host 8 GiB of RAM while the command runs\n  \
    sudo wringer squeeze --leave-ram 8G -- ./benchmark.sh\n\n\
    The command runs as the same user, with your terminal, environment and working directory. Signals go to it. Its exit code is returned; \
    if signal N killed it, 128+N.\n\n\
    When the command ends, the processes that it has left running are ended, too, also daemons and other users' processes (--leave: they live \
    on, without the squeeze). Then everything is given back. This also happens when Wringer itself is killed. At the end, standard error says what was \
    asked, what was got, and what the kernel and the slow layer have counted.\n\n  \
    --ram     a memory cgroup. The page cache counts, too. When the memory is used up, the kernel kills one of the command's processes\n  \
    --cpus    a quota, as docker has it: 0.5 is half of the time of one CPU, on whichever CPU the command runs\n  \
    --cpuset  a cgroup where you may make one; else the command's CPU affinity, which needs no root\n  \
    --hide-ram, --leave-ram  less RAM for everybody on the host, as `wringer ram hide` (docs/ram.md)\n  \
    --disk    a slow layer that only this command sees (docs/disk.md). It needs root, or a host where users may use /dev/fuse and \
    namespaces; there the command cannot change its user. Where there is no /dev/fuse, as in a container, a library is \
    preloaded into the command and into what it starts (docs/preload.md): the programs must be dynamic, and what they read by mmap, \
    libaio, io_uring or C streams is not slowed\n\n\
    Exit codes of Wringer's own failures: 2 usage; 3 something is missing or in the way, nothing was changed; 4 failed, everything undone; \
    5 failed, and the host is not restored; 130 interrupted before the command ran. More: docs/squeeze.md, or `wringer doc squeeze`")]
pub struct Args {
    #[command(flatten)]
    limits: Limits,
    /// Make the directory PATH as slow as this disk: PATH=gp3, PATH=hdd-7200,iops=60, PATH=read=10ms,write=1ms,sync=2ms (may be given several times)
    #[arg(long, value_name = "PATH=DISK", value_parser = disk_argument::parse)]
    disk: Vec<DiskArgument>,
    /// What makes the directory slow: fuse, a slow file system over it; preload, a library in the programs [default: fuse where it works,
    /// else preload]
    #[arg(long, value_enum, requires = "disk", value_name = "MECHANISM")]
    disk_mechanism: Option<OfPrograms>,
    /// The RAM to hide from the whole host: everybody on it has so much less, until the command ends
    #[arg(long, value_name = "SIZE", group = "host_ram")]
    hide_ram: Option<Bytes>,
    /// Hide RAM from the whole host until MemAvailable is this size
    #[arg(long, value_name = "SIZE", group = "host_ram")]
    leave_ram: Option<Bytes>,
    /// What takes the RAM from the host; `wringer ram hide` has the same choice
    #[arg(long, value_enum, default_value_t = Wanted::AUTO, requires = "host_ram")]
    ram_mechanism: Wanted,
    /// Hide RAM although this host has swap
    #[arg(long, requires = "host_ram")]
    with_swap: bool,
    /// Hide RAM although a database runs here that this WRINGER_HOME did not start
    #[arg(short, long, requires = "host_ram")]
    yes: bool,
    /// When the command ends, let the processes that it has left running live on, in your own cgroups and on your own CPUs
    #[arg(long, conflicts_with = "disk")]
    leave: bool,
    /// Start at once: do not measure first whether reads take as long as asked
    #[arg(long)]
    no_probe: bool,
    /// Do not start the command when what was measured is out of tolerance. Without --strict, the summary says so, and only less than half
    /// of what was asked is a failure (of hidden RAM, more than twice, too)
    #[arg(long, conflicts_with = "no_probe")]
    strict: bool,
    /// Print every change with its undo; change nothing, run nothing
    #[arg(long)]
    dry_run: bool,
    /// Write the summary to this file, too, as JSON
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// Print no summary and no notes on standard error
    #[arg(short, long)]
    quiet: bool,
    /// How the summary, or the plan of a dry run, is printed
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Does not return when the command has ended: the exit code is the command's.
pub fn main(args: &Args) -> Outcome {
    let places = Places::from_environment();
    let prepared = Prepared::of(args, &places)?;
    if args.dry_run {
        prepared.show_dry_run(args.output);
        return Ok(());
    }
    if !args.quiet {
        prepared.notes().iter().for_each(|note| terminal::say(format_args!("note: {note}")));
    }
    let file = args.summary.as_deref().map(|path| open(path).map(|file| (path, file))).transpose()?;
    let summary = session::run(&prepared, args, places)?;
    let write = |(path, file): (&Path, File)| {
        replace(&file, &summary).err().map(|error| unwritten(&summary, path.display(), error))
    };
    let of_file = file.and_then(write);
    let shown = if args.quiet { Ok(()) } else { summary.show(args.output) };
    let of_stderr = shown.err().map(|error| unwritten(&summary, "the summary on standard error", error));
    end(&summary, of_file.or(of_stderr))
}

/// The exit code is never the command's when its summary was not written: by the summary, scripts tell whose code it is.
fn unwritten(summary: &Summary, what: impl Display, error: anyhow::Error) -> Failure {
    let what = format!("{what} was not written; the command ended with exit code {}", summary.exit_code());
    Failure::new(Exit::Failed, error.context(what))
}

/// Processes that were not ended come first: that changes the exit code to 5.
fn end(summary: &Summary, unwritten: Option<Failure>) -> Outcome {
    match (summary.refuse_not_ended(), unwritten) {
        (Err(left), Some(unwritten)) => Err(left.hint(format!("{:#}", unwritten.error))),
        (Err(failure), None) | (Ok(()), Some(failure)) => Err(failure),
        (Ok(()), None) => std::process::exit(summary.exit_code()),
    }
}

/// Opened before anything runs: an error after an hour would be too late. An earlier summary stays until there is a new one.
fn open(path: &Path) -> Result<File, Failure> {
    host::files::open_for_writing(path).map_err(|error| {
        let error = anyhow::Error::from(error).context(format!("make {}", path.display()));
        Failure::new(Exit::Missing, error)
    })
}

/// A pipe or a terminal has no earlier summary.
fn replace(file: &File, summary: &Summary) -> anyhow::Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    summary.write(file)
}

/// The mechanism by which a disk can be made slow here; if it is not a layer, also the reason.
///
/// # Errors
/// Exit code 3: no mechanism works.
pub fn disk_mechanism(places: &Places) -> Result<(DiskMechanism, Option<String>), Failure> {
    prepare::mechanism(None, places)
}

/// Prints a line of the summary.
fn line(what: &str, text: impl std::fmt::Display) {
    terminal::say(format_args!("  {what:<7} {text}"));
}
