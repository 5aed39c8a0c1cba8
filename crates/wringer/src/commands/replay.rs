// SPDX-License-Identifier: Apache-2.0
//! `wringer replay`: the statements of a real server's log, once more.

mod show;

use super::connection::{Connection, server_failure};
use super::load::interruptible;
use super::{recorded_log, verdicts};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use crate::terminal::Output;
use assertion::Assertion;
use evidence::Verdict;
use load::Protocol;
use load::replay::{self, Options, Pace, Plan};
use logs::{Format, Recorded};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::time::Duration;
use units::Span;

/// Send the statements of a server's log to another server, and measure its answers
///
/// Wringer recognises the log by its content: the slow or general log of MySQL or MariaDB; PostgreSQL's log on stderr (log_line_prefix with time and process:
/// %m, %p), csvlog or jsonlog. For each connection of the log Wringer opens one connection, and statements begin at their recorded moments. Without --writes,
/// only statements that are provably reads are sent; the others are counted by reason.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    # print which statements would be sent, which not, and why\n  \
    wringer replay slow.log --dry-run\n  \
    wringer sandbox deploy --from /backup/mysql --name shop --start\n  \
    WRINGER_DSN=\"$(wringer sandbox export shop dsn)\" wringer replay slow.log --speed 2\n  \
    wringer replay slow.log --dsn mysql://me@db.example/shop --assert 'p99<20ms' --assert errors=0\n  \
    wringer replay postgresql.log --pgsql-host=/run/postgresql --pgsql-db=shop --speed max -o json\n\n\
    A log that has all statements: SET GLOBAL slow_query_log=1, long_query_time=0, which holds for connections that are opened after it; or general_log=1. PostgreSQL: log_min_duration_statement=0, \
    log_connections=on, log_line_prefix='%m [%p] '. A log that has only slow statements makes a replay of only these.")]
pub struct Args {
    /// The log; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How fast: 1 as recorded, 2 twice as fast, 0.5 half as fast; max: each statement as soon as the one before it on its
    /// connection is done
    #[arg(long, default_value = "1", value_name = "TIMES|max")]
    speed: Speed,
    /// Send everything, not only reads. It changes the server's data: use a sandbox or a copy
    #[arg(long)]
    writes: bool,
    /// Only say what would be sent; no server is asked
    #[arg(long)]
    dry_run: bool,
    /// Which percentiles to print; all of the distribution is recorded anyway
    #[arg(long, value_delimiter = ',', default_value = "50,95,99", value_name = "LIST")]
    percentile: Vec<f64>,
    /// Classes of statements to print, those with the most time first; the JSON output has all
    #[arg(long, default_value_t = 20, value_name = "N")]
    top: usize,
    /// What the result must be, else the exit code is 1: 'p99<20ms', 'service p99.9<=5ms', 'late<100', errors=0; or of one class of
    /// statements, as the result names it: 'select c from t where id = ? p99<5ms'. May be given several times
    #[arg(long = "assert", value_name = "ASSERTION")]
    assertions: Vec<Assertion>,
    /// Length of a slot of the timeline in the JSON output, 10ms to 1s
    #[arg(long, default_value = "100ms", value_parser = slot, value_name = "TIME")]
    timeline_interval: Duration,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Speed(Pace);

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self(Pace::Max));
        }
        let times = text.trim_end_matches(['x', 'X']).parse::<f64>().ok().filter(|times| times.is_finite());
        let times = times.filter(|times| (1e-3..=1e6).contains(times));
        times.map(|times| Self(Pace::Times(times))).ok_or_else(|| "a number from 0.001 to 1000000, or max".into())
    }
}

struct Log<'a> {
    path: &'a Path,
    format: Format,
    recorded: Recorded,
}

pub fn main(args: Args) -> Outcome {
    let log = read(&args.file)?;
    let protocol = Protocol::of(log.format.dialect());
    let target = if args.dry_run { None } else { Some(args.connection.target_for(protocol)?) };
    if let Some(target) = target.as_ref().filter(|target| target.protocol != protocol) {
        let message = format!(
            "{} is a {}, and the connection is to {}",
            log.path.display(),
            log.format.name(),
            target.protocol.name()
        );
        return Err(Failure::message(Exit::Usage, message)
            .hint("a MySQL server does not understand the statements of PostgreSQL, nor the other way round"));
    }
    let database = target.as_ref().and_then(|target| target.database.as_deref());
    let plan = replay::plan(&log.recorded, protocol, args.writes, database);
    check_assertions(&args, &plan)?;
    if args.output == Output::Text {
        terminal::data(show::plan(&log, &plan, args.dry_run));
    }
    let Some(target) = target else {
        if args.output == Output::Json {
            terminal::json(&show::json(&log, &plan, &args, None, &[]));
        }
        return Ok(());
    };
    if plan.statements() == 0 {
        let hint = if args.writes || plan.skipped.is_empty() {
            "the log must hold all statements: see `wringer replay --help`"
        } else {
            "--writes sends the others too; to a sandbox or a copy"
        };
        return Err(Failure::message(Exit::Missing, "the log has no statement that would be sent").hint(hint));
    }
    send(&args, &log, &plan, &target)
}

fn send(args: &Args, log: &Log<'_>, plan: &Plan, target: &load::Target) -> Outcome {
    let stop = interruptible()?;
    let options = Options { pace: args.speed.0, writes: args.writes, timeline: args.timeline_interval };
    let replayed = replay::run(plan, target, options, &stop).map_err(server_failure)?;
    let judge = |assertion: &Assertion| assertion.judge_phase(&replayed.measured, &replayed.connect);
    let verdicts: Vec<Verdict> = args.assertions.iter().map(judge).collect();
    match args.output {
        Output::Text => {
            terminal::data(show::result(plan, &replayed, args));
            if !verdicts.is_empty() {
                terminal::data(assertion::text(&verdicts));
            }
        }
        Output::Json => terminal::json(&show::json(log, plan, args, Some(&replayed), &verdicts)),
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::message(Exit::Interrupted, "interrupted; what was measured until then is above"));
    }
    verdicts::outcome(verdicts.iter().map(|verdict| ("", verdict)))
}

/// Refuses, before anything is sent, assertions on values that a replay does not measure.
fn check_assertions(args: &Args, plan: &Plan) -> Outcome {
    let usage = |why: String| Failure::message(Exit::Usage, why);
    for assertion in &args.assertions {
        assertion.check_class(plan.classes.iter().map(String::as_str)).map_err(usage)?;
        match (assertion.figure(), args.speed.0) {
            (Some("backlog"), _) => {
                let why = "a replay has no backlog: each session waits for its own statements";
                return Err(usage(format!("'{assertion}': {why}")).hint("late counts statements that started late"));
            }
            (Some("late"), Pace::Max) => {
                return Err(usage(format!("'{assertion}': with --speed max no statement has a moment to be late for")));
            }
            _ => {}
        }
    }
    Ok(())
}

fn slot(text: &str) -> Result<Duration, String> {
    let slot = Span::parse_seconds(text).map_err(|error| error.to_string())?.0;
    let fits = (Duration::from_millis(10)..=Duration::from_secs(1)).contains(&slot);
    if fits { Ok(slot) } else { Err("a timeline slot is 10 ms to 1 s long".into()) }
}

fn read(path: &Path) -> Result<Log<'_>, Failure> {
    let (format, recorded) = recorded_log::read(path)?;
    Ok(Log { path, format, recorded })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots() {
        assert_eq!((slot("10ms"), slot("0.5")), (Ok(Duration::from_millis(10)), Ok(Duration::from_millis(500))));
        for bad in ["9ms", "1001ms", "0", "soon"] {
            assert!(slot(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn speeds() {
        let of = |text: &str| text.parse::<Speed>().map(|speed| speed.0);
        assert_eq!((of("max"), of("2"), of("0.5x")), (Ok(Pace::Max), Ok(Pace::Times(2.0)), Ok(Pace::Times(0.5))));
        for bad in ["0", "-1", "fast", "inf", "NaN", ""] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
