// SPDX-License-Identifier: Apache-2.0
//! `wringer observe`: look on at a server that runs, from its own host, while others load it. Nothing is changed.

mod watch;

use super::connection::{Connection, whose};
use super::run::{self, Output};
use crate::exit::{Exit, Failure, Outcome};
use crate::{signals, terminal};
use ::observe::Options;
use ::observe::stalls::Options as StallOptions;
use attach::Attached;
use host::clock::unix_seconds;
use host::places::Places;
use std::path::PathBuf;
use std::time::Duration;
use units::Span;
pub(super) use watch::{OfArm, Pace, conditions, told};

/// Watch a server that runs, from its own host, while other programs send it load
///
/// Records host, server process and the server's counters until --time is over or until Ctrl-C, then writes the report. With a connection it records all
/// three, and finds the process by the server's Unix socket; with --pid alone it records host and process; with neither only the host. It changes nothing,
/// neither on the host nor in the server.
#[derive(Debug, clap::Args)]
#[command(after_help = "Leaves recording.sqlite (raw), result.json and report.html in the folder it prints.\n\n\
    Examples:\n  \
      wringer observe --mysql-socket=/run/mysqld/mysqld.sock --mysql-user=me --time 5m --to out\n  \
      wringer observe --pgsql-host=/run/postgresql --pgsql-user=me --pgsql-db=shop --to out\n  \
      wringer observe --dsn mysql://me@127.0.0.1/ --pid \"$(pidof mariadbd)\" --interval 250ms --time 60\n  \
      wringer observe --pid \"$(head -1 /var/lib/postgresql/15/main/postmaster.pid)\" --time 60\n  \
      # record the parts of the server's memory, too, every 10 s\n  \
      wringer observe --sandbox shop --memory --time 10m --to out\n  \
      # record the stalls of the server's threads, too\n  \
      wringer observe --sandbox shop --stalls --time 10m --to out\n  \
      wringer observe --time 60 -o json | jq '.findings[0].statement'\n  \
      wringer report out -o text\n\n\
    Without --time it runs until Ctrl-C. With --pid and no connection it records the process and the host, and needs no account on the server; without both it records only \
    the host.\n\
    No root is needed: what this user may not read is named once, and left out. Root, and the user that the server runs as, can read everything.\n\n\
    Exit codes: 0 done, also by Ctrl-C or SIGTERM; 2 usage; 3 no such process, no connection, or the folder is in the way; 4 the server's process \
    ended meanwhile, or the recording could not be written: what was seen until then is in it.")]
pub struct Args {
    /// The server's process [default: the one that listens at the socket, or the sandbox's]
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Time from one reading to the next, 10ms at least. A source whose reading takes more than 1 % of this time is read less often, or is replaced by a cheaper source
    #[arg(long, default_value = "1s", value_parser = seconds, value_name = "TIME")]
    interval: Duration,
    /// Record what the server's memory is made of, too: one inventory every --memory-interval. `wringer memory account --from` computes from it
    #[arg(long)]
    memory: bool,
    /// From one inventory to the next, 100ms at least; it gets longer where reading would hold the server for more than 1 % of it. Implies --memory
    /// [default: 10s]
    #[arg(long, value_parser = seconds, value_name = "TIME")]
    memory_interval: Option<Duration>,
    /// Watch the server's threads for stalls, too, as `wringer stalls watch` does. `wringer stalls explain` lists them from the recording
    #[arg(long)]
    stalls: bool,
    /// The shortest stall that is reported, 5ms or more. Implies --stalls [default: 50ms; 20ms with --stalls-deep; 5ms for stalls that --stalls-probes sees]
    #[arg(long, value_parser = stalls_min, value_name = "TIME")]
    stalls_min: Option<Duration>,
    /// From one look at the threads to the next, 1ms to 1s. Implies --stalls [default: 10ms to 20ms]
    #[arg(long, value_parser = stalls_interval, value_name = "TIME")]
    stalls_interval: Option<Duration>,
    /// Look every 4 to 5 ms, and ask for more, as `wringer stalls watch --deep` does. Implies --stalls
    #[arg(long)]
    stalls_deep: bool,
    /// As root: probe the function in which InnoDB's queries wait for a free page, as `wringer stalls watch --probes` does. Implies --stalls
    #[arg(long)]
    stalls_probes: bool,
    #[command(flatten)]
    to: To,
    #[command(flatten)]
    connection: Connection,
}

fn stalls_min(text: &str) -> Result<Duration, String> {
    super::stalls::watch::least(text).map(|span| span.0)
}

fn stalls_interval(text: &str) -> Result<Duration, String> {
    super::stalls::watch::interval(text).map(|span| span.0)
}

impl Args {
    fn stalls(&self) -> Option<StallOptions> {
        let is_in_detail = self.stalls_min.is_some() || self.stalls_interval.is_some();
        let is_wanted = self.stalls || self.stalls_deep || self.stalls_probes || is_in_detail;
        is_wanted.then(|| StallOptions {
            interval: self.stalls_interval,
            slow_log: true,
            raw: true,
            ..StallOptions::of_tier(self.stalls_min, self.stalls_deep, self.stalls_probes)
        })
    }
}

pub fn main(args: &Args) -> Outcome {
    if args.interval < Options::LEAST_INTERVAL {
        let least = Span(Options::LEAST_INTERVAL);
        let message = format!(
            "an interval of {} is too short: the shortest is {least}, because each reading costs the server CPU time",
            Span(args.interval)
        );
        return Err(Failure::message(Exit::Usage, message).hint("--interval=100ms shows most of what a server does"));
    }
    let memory = args.memory_interval.or_else(|| args.memory.then_some(INVENTORIES));
    memory.map_or(Ok(()), check_inventories)?;
    let places = Places::from_environment();
    let attach = || args.connection.attach(args.pid, &places).map(|attached| (attached, Vec::new()));
    let pace = Pace { interval: args.interval, memory, stalls: args.stalls(), time: args.to.time() };
    record(attach, pace, &places, &args.to)
}

/// How long to record, and where the results go.
#[derive(Debug, clap::Args)]
pub(super) struct To {
    /// How long, in seconds or with a unit (500ms, 2m); 0: until Ctrl-C [default: 0]
    #[arg(long, visible_alias = "for", value_parser = seconds, value_name = "TIME")]
    time: Option<Duration>,
    /// Folder for the results [default: a new one below Wringer's recordings]
    #[arg(long = "to", value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Replace the results of an earlier run in that folder
    #[arg(long)]
    force: bool,
    /// How to print the summary
    #[arg(short, long, value_enum, default_value_t = terminal::Output::Text)]
    output: terminal::Output,
}

impl To {
    /// The time to watch. `None`: until the user stops the command.
    pub(super) fn time(&self) -> Option<Duration> {
        self.time.filter(|time| !time.is_zero())
    }
}

/// Watches, records, and shows the report. `attach` also returns, in words, what cannot be read.
pub(super) fn record(
    attach: impl FnOnce() -> Result<(Attached, Vec<String>), Failure>,
    pace: Pace,
    places: &Places,
    to: &To,
) -> Outcome {
    let id = format!("observe-{}-{:x}", unix_seconds(), std::process::id());
    let output = Output::check(to.folder.as_deref(), to.force, places, &id)?.private();
    let (attached, refused) = attach()?;
    let needs_process = [(pace.stalls.is_some(), "stalls"), (pace.memory.is_some(), "memory")];
    if let (None, Some((_, what))) = (attached.pid(), needs_process.iter().find(|(is_wanted, _)| *is_wanted)) {
        return Err(whose(what));
    }
    let stop = signals::install()?;
    let watched = watch::record(attached, id, refused, pace, &output, &stop);
    let shown = run::show(&output, to.output.into());
    watched?;
    shown.map(drop)
}

/// The default time from one inventory to the next.
pub(super) const INVENTORIES: Duration = Duration::from_secs(10);

/// # Errors
/// Usage: the interval is too short.
pub(super) fn check_inventories(interval: Duration) -> Outcome {
    const LEAST: Duration = Duration::from_millis(100);
    if interval >= LEAST {
        return Ok(());
    }
    let message = format!("an inventory every {}: at least {}", Span(interval), Span(LEAST));
    Err(Failure::message(Exit::Usage, message).hint("10s shows how memory grows, and costs little"))
}

/// Reads a time as sysbench's flags do: `60`, `500ms`, `2m`.
pub(super) fn seconds(text: &str) -> Result<Duration, units::ParseError> {
    Span::parse_seconds(text).map(|span| span.0)
}
