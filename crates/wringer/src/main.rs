// SPDX-License-Identifier: Apache-2.0
//! Wringer, the program: one module per command, and the only crate that prints.

#![allow(unreachable_pub)] // a binary has no public interface

mod commands;
#[cfg(test)]
mod documented;
mod exit;
mod foreign;
mod hints;
mod input;
mod internal;
mod output_file;
mod signals;
mod terminal;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use exit::Exit;
use host::places::Places;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// A pressure lab for database servers: make the host smaller and slower, load a real server, see where the memory and the
/// latency went, and get the host back exactly as it was.
#[derive(Debug, Parser)]
#[command(name = "wringer", version, max_term_width = 120, disable_help_subcommand = true)]
#[command(
    after_help = "Start with `wringer doctor`, then `wringer examples quick | wringer run -`; `wringer doc` is the manual.\n\
    Whatever happened, `wringer undo` puts the host back.\n\n\
    Variables: WRINGER_HOME, the folder for sandboxes, recordings and journals (without it: /var/lib/wringer for root, else \
    ~/.local/share/wringer and ~/.local/state/wringer); WRINGER_CACHE, for fetched servers and kept data; WRINGER_DSN, the server that \
    commands connect to.\n\n\
    Exit codes: 0 done; 1 ran, and an assertion failed; 2 usage; 3 something required is missing or in the way, nothing was \
    changed; 4 failed, everything undone, or the result could not be written; 5 failed, and the host is not restored; 130 interrupted, everything undone."
)]
struct Cli {
    /// Print only data and errors: no progress, no notes, no hints
    #[arg(long, global = true, display_order = 1000)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an experiment file from its server to its report
    Run(commands::run::Args),
    /// Print the ordered steps of an experiment file, each host change with its undo; change nothing
    Plan(commands::plan::Args),
    /// Run many settings of one experiment, each many times, in shuffled blocks; go on after any kill
    Matrix(Box<commands::matrix::Args>),
    /// Run the same load under several mallocs, and say which one to take
    Allocators(Box<commands::allocators::Args>),
    /// Compute the findings of a recording again
    Explain(commands::explain::Args),
    /// Say whether two sides of runs differ, figure by figure, and how large a difference would have been seen
    Compare(Box<commands::compare::Args>),
    /// Write the report of a recording
    Report(commands::report::Args),
    /// Say what this machine can do, and what is missing for the rest
    Doctor(commands::doctor::Args),
    /// Throw-away servers: deploy, list, use, start, stop, delete
    Sandbox(Box<commands::sandbox::Args>),
    /// Hide RAM from this host, or give it back
    Ram(commands::ram::Args),
    /// Slow a directory or a block device down, or give its speed back
    Disk(commands::disk::Args),
    /// Run any program with less RAM, fewer CPUs, a slower disk, and give everything back when it ends
    Squeeze(Box<commands::squeeze::Args>),
    /// Measure how fast a disk is, and how much of a file is cached; changes no file of yours, needs no root
    Probe(commands::probe::Args),
    /// Show what is changed on this host now, and by which run
    Status(commands::status::Args),
    /// Put everything back, also after a crash
    Undo(commands::undo::Args),
    /// Free the space of the filled data in the cache
    Purge(commands::purge::Args),
    /// Make tables of a given size and shape
    #[command(alias = "prepare")]
    Fill(Box<commands::fill::Args>),
    /// Drive a server with an OLTP load
    Load(Box<commands::load::Args>),
    /// Send the statements of a server's log to another server, and measure its answers
    Replay(Box<commands::replay::Args>),
    /// Watch a server that runs, from its own host, while other programs send it load; changes nothing
    Observe(Box<commands::observe::Args>),
    /// Where a server's memory is, and which process the kernel would kill when there is none left
    Memory(Box<commands::memory::Args>),
    /// How many connections each account has and may have; limits that keep one account from taking the connections of all others
    Connections(Box<commands::connections::Args>),
    /// Huge pages for a server: how many it needs, whether it has them, and how to get them
    Hugepages(Box<commands::hugepages::Args>),
    /// Stalls: what statements waited for, what it cost, and which stalls to expect
    Stalls(Box<commands::stalls::Args>),
    /// Read heap profiles: which functions held the heap, and which of them grew
    Heap(commands::heap::Args),
    /// Find the humps in a latency histogram
    Modes(commands::modes::Args),
    /// The manual
    #[command(visible_alias = "docs")]
    Doc(commands::doc::Args),
    /// Ready experiments and workloads to start from
    Examples(commands::examples::Args),
    /// Processes that Wringer starts for itself
    #[command(hide = true)]
    Internal(internal::Args),
}

/// The command line of Wringer's own processes. Each run starts several, and to build the command line for people takes longer than all else of their start.
#[derive(Parser)]
#[command(name = "wringer")]
struct Own {
    #[command(subcommand)]
    command: OwnCommand,
}

#[derive(Subcommand)]
enum OwnCommand {
    Internal(internal::Args),
}

fn parse() -> Result<Cli, clap::Error> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == "internal") {
        let OwnCommand::Internal(args) = Own::try_parse_from(&arguments)?.command;
        return Ok(Cli { quiet: false, command: Command::Internal(args) });
    }
    Cli::try_parse_from(&arguments).or_else(|error| told_of_the_value(&arguments, error))
}

/// `--read -5ms` would be taken for a flag `-5`. The mistake is the value, which is reported here, or where a number's range is checked.
fn told_of_the_value(arguments: &[OsString], error: clap::Error) -> Result<Cli, clap::Error> {
    let is_negative =
        |text: &str| text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|it: char| it.is_ascii_digit()));
    let mut joined: Vec<OsString> = Vec::new();
    for argument in arguments {
        match (joined.last_mut(), argument.to_str()) {
            (Some(flag), Some(value)) if is_negative(value) && flag.to_str().is_some_and(|it| it.starts_with("--")) => {
                flag.push("=");
                flag.push(value);
            }
            _ => joined.push(argument.clone()),
        }
    }
    match Cli::try_parse_from(joined) {
        Ok(cli) => Ok(cli),
        Err(of_value) if of_value.kind() == ErrorKind::ValueValidation => Err(of_value),
        Err(_) => Err(error),
    }
}

fn main() -> ExitCode {
    match parse() {
        Ok(cli) => {
            if cli.quiet {
                terminal::be_quiet();
            }
            guarded(move || terminal::end(require_text(&Places::from_environment()).and_then(|()| run(cli.command))))
        }
        Err(error) => terminal::answer(&error),
    }
}

/// A panic ends with an exit code of the list, too, and not with Rust's 101. Changes were undone during the unwinding; the journals show whether all
/// of them were.
fn guarded(command: impl FnOnce() -> ExitCode) -> ExitCode {
    catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|_| {
        let find = || ::run::find_runs(&Places::from_environment()).is_ok_and(|found| found.iter().all(|run| !run.hot));
        let is_clean = catch_unwind(find).unwrap_or(false);
        let exit = if is_clean { Exit::Failed } else { Exit::NotRestored };
        let failure = exit::Failure::message(exit, "this is a bug in Wringer; the lines above say where");
        terminal::end(Err(if is_clean {
            failure
        } else {
            failure.hint("`wringer status` shows what is changed, `wringer undo` puts it back")
        }))
    })
}

fn run(command: Command) -> exit::Outcome {
    match command {
        Command::Run(args) => commands::run::main(args),
        Command::Plan(args) => commands::plan::main(args),
        Command::Matrix(args) => commands::matrix::main(*args),
        Command::Allocators(args) => commands::allocators::main(*args),
        Command::Explain(args) => commands::explain::main(args),
        Command::Compare(args) => commands::compare::main(*args),
        Command::Report(args) => commands::report::main(args),
        Command::Doctor(args) => commands::doctor::main(args),
        Command::Sandbox(args) => commands::sandbox::main(*args),
        Command::Ram(args) => commands::ram::main(args),
        Command::Disk(args) => commands::disk::main(args),
        Command::Squeeze(args) => commands::squeeze::main(&args),
        Command::Probe(args) => commands::probe::main(args),
        Command::Status(args) => commands::status::main(args),
        Command::Undo(args) => commands::undo::main(args),
        Command::Purge(args) => commands::purge::main(&args),
        Command::Fill(args) => commands::fill::main(*args),
        Command::Load(args) => commands::load::main(*args),
        Command::Replay(args) => commands::replay::main(*args),
        Command::Observe(args) => commands::observe::main(&args),
        Command::Memory(args) => commands::memory::main(*args),
        Command::Connections(args) => commands::connections::main(*args),
        Command::Hugepages(args) => commands::hugepages::main(*args),
        Command::Stalls(args) => commands::stalls::main(*args),
        Command::Heap(args) => commands::heap::main(&args),
        Command::Modes(args) => commands::modes::main(args),
        Command::Doc(args) => commands::doc::main(&args),
        Command::Examples(args) => commands::examples::main(&args),
        Command::Internal(args) => internal::main(args),
    }
}

/// The path of a journal is in results, and in the arguments of Wringer's processes.
fn require_text(places: &Places) -> exit::Outcome {
    if places.journal.to_str().is_some() {
        return Ok(());
    }
    let what = format!("the name of Wringer's own folder is not UTF-8: {}", places.journal.display());
    Err(exit::Failure::message(Exit::Usage, what).hint("set WRINGER_HOME to a folder whose name is"))
}
