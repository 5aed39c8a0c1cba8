// SPDX-License-Identifier: Apache-2.0
//! `wringer squeeze`: one program with less RAM, fewer CPUs, a slower disk, for as long as it runs.

mod disk_argument;
mod host_ram;
mod prepare;
mod session;
mod summary;

use super::limits::Limits;
use super::ram::Wanted;
use crate::exit::{Failure, Outcome};
use crate::terminal::{self, Output};
use disk_argument::DiskArgument;
pub use disk_argument::parse_disk;
use evidence::DiskMechanism;
use host::places::Places;
use prepare::{OfPrograms, Prepared};
use std::ffi::OsString;
use std::path::PathBuf;
use units::Bytes;

#[derive(Debug, clap::Args)]
#[command(after_help = "Does this report still finish on the small machine?\n  \
    sudo wringer squeeze --ram 4G --cpus 2 --swap off -- ./nightly-report.sh\n  \
    sudo wringer squeeze --ram 1G --disk /srv/copy=gp3 -- mariadbd --user=mysql --datadir=/srv/copy\n  \
    wringer squeeze --disk .=read=10ms,sync=5ms -- sysbench fileio --file-test-mode=rndrd run\n  \
    wringer squeeze --cpuset 0 -- make\n  \
    # leave the whole host 8 GiB of RAM while the command runs\n  \
    sudo wringer squeeze --leave-ram 8G -- ./benchmark.sh\n\n\
    The command runs as you, with your terminal, environment and working directory; signals go to it, and its exit code is \
    returned, 128+n when signal n killed it. When it ends, what it has left running is ended too, daemons and other users' \
    processes among it (--leave: it lives on, squeezed no more), and everything is given back; also when Wringer is killed. What was asked, what was got, and what the kernel and the slow layer have counted is said on \
    standard error.\n\n  \
    --ram     a memory cgroup: its page cache counts, too; where that leaves no room, the kernel ends one of its processes\n  \
    --cpus    a quota, as docker's: 0.5 is half of the time of one CPU, on whichever it runs\n  \
    --cpuset  which CPUs: a cgroup where there is the right to one, else the command's CPU affinity, without root\n  \
    --hide-ram, --leave-ram  RAM of the whole host, which everybody on it misses: as `wringer ram` (docs/ram.md)\n  \
    --disk    a slow layer that this command alone sees (docs/disk.md). With root, or where users may use /dev/fuse and \
    namespaces; then the command cannot change its user. Where there is no /dev/fuse, as in a container, a library is \
    preloaded into the command and what it starts (docs/preload.md): it must be dynamic, and what it reads by mmap, \
    libaio, io_uring or C streams is not slowed\n\n\
    Wringer's own failures: 2 usage; 3 something is missing or in the way, nothing was changed; 4 failed, everything undone; \
    5 failed, and the host is not restored; 130 interrupted before the command ran. docs/squeeze.md")]
pub struct Args {
    #[command(flatten)]
    limits: Limits,
    /// A directory on such a disk: PATH=gp3, PATH=hdd-7200,iops=60, PATH=read=10ms,write=1ms,sync=2ms (may be given several times)
    #[arg(long, value_name = "PATH=DISK", value_parser = disk_argument::parse)]
    disk: Vec<DiskArgument>,
    /// How --disk is done: fuse, a slow file system over the directory; preload, a library in the programs [default: fuse where it can be
    /// had, else preload]
    #[arg(long, value_enum, requires = "disk", value_name = "MECHANISM")]
    disk_mechanism: Option<OfPrograms>,
    /// Hide so much RAM from the whole host: everybody on it has less, until the command ends
    #[arg(long, value_name = "SIZE", group = "host_ram")]
    hide_ram: Option<Bytes>,
    /// Hide so much RAM from the whole host that this is left of MemAvailable
    #[arg(long, value_name = "SIZE", group = "host_ram")]
    leave_ram: Option<Bytes>,
    /// What takes the host's RAM away, as of `wringer ram hide`
    #[arg(long, value_enum, default_value_t = Wanted::AUTO, requires = "host_ram")]
    ram_mechanism: Wanted,
    /// Hide RAM although this host has swap
    #[arg(long, requires = "host_ram")]
    with_swap: bool,
    /// Hide RAM although a database that is not Wringer's runs here
    #[arg(short, long, requires = "host_ram")]
    yes: bool,
    /// Let live on what the command has left running when it ends, in the cgroups and on the CPUs that you have yourself
    #[arg(long, conflicts_with = "disk")]
    leave: bool,
    /// Start at once, without looking whether reads take as long as they should
    #[arg(long)]
    no_probe: bool,
    /// Do not start when what came on is out of its tolerance; else that is said in the summary, and only less than half or more than twice of
    /// what was asked is a failure
    #[arg(long, conflicts_with = "no_probe")]
    strict: bool,
    /// Print every change with its undo; change nothing, run nothing
    #[arg(long)]
    dry_run: bool,
    /// Write the summary to this file, too, as JSON
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// No summary and no notes on standard error
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
    let file = args.summary.as_deref().map(|path| create(path).map(|file| (path, file))).transpose()?;
    let summary = session::run(&prepared, args, places)?;
    if let Some((path, file)) = file {
        summary.write(file).map_err(|error| Failure::from(error.context(format!("write {}", path.display()))))?;
    }
    if !args.quiet {
        summary.show(args.output);
    }
    summary.refuse_not_ended()?;
    std::process::exit(summary.exit_code())
}

/// Opened before anything runs: an error after an hour would be too late.
fn create(path: &std::path::Path) -> Result<std::fs::File, Failure> {
    host::files::create(path).map_err(|error| {
        let error = anyhow::Error::from(error).context(format!("make {}", path.display()));
        Failure::new(crate::exit::Exit::Missing, error)
    })
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
