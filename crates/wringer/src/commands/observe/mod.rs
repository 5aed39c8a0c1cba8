// SPDX-License-Identifier: Apache-2.0
//! `wringer observe`: look on at a server that runs, from its own host, while others load it. Nothing is changed.

mod watch;

use super::connection::Connection;
use super::run::{self, Output};
use crate::exit::{Exit, Failure, Outcome};
use crate::{signals, terminal};
use ::observe::Options;
use host::clock::unix_seconds;
use host::places::Places;
use std::path::PathBuf;
use std::time::Duration;
use units::Span;

/// Look on at a server that runs, from its own host, while others load it
///
/// Records host, server process and the server's counters until --time is over or until Ctrl-C, then writes the report. With a connection all
/// three, and the process is found by the server's Unix socket; with --pid alone host and process; with neither the host. Nothing is
/// changed: not on the host, not in the server.
#[derive(Debug, clap::Args)]
#[command(after_help = "Leaves recording.sqlite (raw), result.json and report.html in the folder it prints.\n\n\
    Examples:\n  \
      wringer observe --mysql-socket=/run/mysqld/mysqld.sock --mysql-user=me --time 5m --to out\n  \
      wringer observe --pgsql-host=/run/postgresql --pgsql-user=me --pgsql-db=shop --to out\n  \
      wringer observe --dsn mysql://me@127.0.0.1/ --pid \"$(pidof mariadbd)\" --interval 250ms --time 60\n  \
      wringer observe --pid \"$(head -1 /var/lib/postgresql/15/main/postmaster.pid)\" --time 60\n  \
      wringer observe --time 60 -o json | jq '.findings[0].statement'\n  \
      wringer report out -o text\n\n\
    Without --time until Ctrl-C; with --pid alone no account is needed, with neither the host alone is looked at.\n\
    No root is needed; what the kernel does not show to this user is told once and left out. As the server's own user, or as root, all is seen.\n\n\
    Exit codes: 0 done, also by Ctrl-C or SIGTERM; 2 usage; 3 no such process, no connection, or the folder is in the way; 4 the server's process \
    ended meanwhile, or the recording could not be written: what was seen until then is in it.")]
pub struct Args {
    /// The server's process [default: the one that listens at the socket, or the sandbox's]
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// From one reading to the next, 10ms at least. A reader that costs more than 1 % of it is read less often, or from a cheaper source
    #[arg(long, default_value = "1s", value_parser = seconds, value_name = "TIME")]
    interval: Duration,
    /// How long, in seconds or with a unit (500ms, 2m); 0: until Ctrl-C [default: 0]
    #[arg(long, value_parser = seconds, value_name = "TIME")]
    time: Option<Duration>,
    /// Folder for the results [default: a new one below Wringer's recordings]
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Write over the results of an earlier run in that folder
    #[arg(long)]
    force: bool,
    /// How to print the summary
    #[arg(short, long, value_enum, default_value_t = terminal::Output::Text)]
    output: terminal::Output,
    #[command(flatten)]
    connection: Connection,
}

pub fn main(args: &Args) -> Outcome {
    if args.interval < Options::LEAST_INTERVAL {
        let least = Span(Options::LEAST_INTERVAL);
        let message =
            format!("an interval of {}: at least {least}, a finer one would watch the watcher", Span(args.interval));
        return Err(Failure::message(Exit::Usage, message).hint("--interval=100ms shows most of what a server does"));
    }
    let places = Places::from_environment();
    let id = format!("observe-{}-{:x}", unix_seconds(), std::process::id());
    let output = Output::check(args.to.as_deref(), args.force, &places, &id)?;
    let attached = args.connection.attach(args.pid, &places)?;
    let stop = signals::install()?;
    let time = args.time.filter(|time| !time.is_zero());
    let watched = watch::record(attached, id, watch::Pace { interval: args.interval, time }, &output, &stop);
    let shown = run::show(&output, args.output.into());
    watched?;
    shown.map(drop)
}

fn seconds(text: &str) -> Result<Duration, units::ParseError> {
    Span::parse_seconds(text).map(|span| span.0)
}
