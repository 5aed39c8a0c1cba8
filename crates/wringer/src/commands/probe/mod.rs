// SPDX-License-Identifier: Apache-2.0
//! `wringer probe`: how fast a file is read, and how much of it is cached. Changes nothing but the page cache's contents.

mod cache;
mod read;
mod scan;

use crate::exit::{Exit, Failure, Outcome};
use clap::Subcommand;
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
#[command(after_help = "Is this file served from RAM?\n  \
    wringer probe cache /srv/data\n\
    Does it fit the RAM that is left?\n  \
    wringer probe scan /srv/data/big.ibd\n\
    How fast is the disk below it?\n  \
    wringer probe read /srv/data\n\n\
    None needs root, and none changes a file of yours: writes go to a nameless file that `read --create` makes. How to read the answers: docs/probe.md, or `wringer doc probe`.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read a whole file cold, then again: is it served from RAM the second time?
    Scan(scan::Args),
    /// Random reads, past the page cache or through it: histogram, percentiles, operations a second
    Read(read::Args),
    /// How much of files, or of everything below folders, is in the page cache
    Cache(cache::Args),
}

pub fn main(args: Args) -> Outcome {
    match args.command {
        Command::Scan(args) => scan::main(&args),
        Command::Read(args) => read::main(&args),
        Command::Cache(args) => cache::main(&args),
    }
}

/// A file cannot be opened or does not exist: the user named a wrong one, or may not read it.
pub fn refuse(error: probe::Error) -> Failure {
    match error {
        probe::Error::File { .. } | probe::Error::NotOwner { .. } | probe::Error::Host(_) => {
            Failure::new(Exit::Missing, error)
        }
        error => error.into(),
    }
}

fn interrupted() -> Failure {
    Failure::message(Exit::Interrupted, "interrupted; what was measured until then is above")
}

fn conditions(target: &probe::target::Target) -> Value {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    json!({ "kernel": release, "place": target.place(), "size_bytes": target.size_bytes, "unallocated_bytes": target.unallocated_bytes })
}

/// A larger share of holes makes the figures those of the file system, not of the disk.
const HOLES: f64 = 0.02;

fn warn_of_holes(target: &probe::target::Target) {
    let share = target.unallocated_bytes as f64 / target.size_bytes.max(1) as f64;
    if share > HOLES {
        crate::terminal::say(format_args!(
            "warning: {:.0} % of {} has no blocks on the disk (holes, or compression): reading it there asks no disk",
            share * 100.0,
            target.path.display()
        ));
    }
}

/// `ext4 on /dev/sda1`.
fn place(target: &probe::target::Target) -> String {
    target.place().map_or_else(|| "unknown file system".into(), |it| format!("{} on {}", it.file_system, it.device))
}
