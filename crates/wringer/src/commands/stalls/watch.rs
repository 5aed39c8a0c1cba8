// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls watch`: the stalls of a server that runs, one by one as they end, and what they cost.

pub(super) mod kept;
mod openmetrics;
mod show;

use crate::commands::connection::{Connection, whose};
use crate::exit::{Exit, Failure, Outcome};
use crate::signals;
use crate::terminal;
use ::stalls::Stall;
use ::stalls::watch::{LEAST_SAMPLES, Missing, Watched};
use attach::Attached;
use clap::ValueEnum;
use host::clock::RunClock;
use host::places::Places;
use kept::Kept;
use observe::stalls::{Finished, Options, Watcher};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use units::Span;

/// The stalls of a server that runs, as they happen: how long they were, which connections waited, for what, and what it cost
///
/// The server's threads are looked at every 10 to 20 ms, and the server is asked what its connections wait for: once a second, and up to ten times a second
/// while a connection waits. A stall is reported when it has ended; one that lasts longer than 5 s also before, every 5 s, marked `[not over]`. Nothing is changed: no variable is set, no instrument enabled, no thread stopped.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer stalls watch --sandbox shop --for 30s\n  \
    sudo wringer stalls watch --mysql-socket=/run/mysqld/mysqld.sock --mysql-user=me \\\n    --fail-on-stall 200ms\n  \
    # a sandbox that was deployed with sudo\n  \
    sudo wringer stalls watch --sandbox shop --for 30s --probes\n  \
    wringer stalls watch --sandbox shop -o json \\\n    | jq --unbuffered 'select(.kind == \"stall\" or .kind == \"not_over\") | [.cause, .length_us]'\n  \
    wringer stalls watch --sandbox shop --for 1m -o openmetrics > stalls.prom\n  \
    wringer stalls watch --sandbox shop --for 10m --to out && wringer stalls explain out\n  \
    wringer stalls watch --sandbox shop --for 1m --canary\n\n\
    Run it on the server's host, as root or as the user the server runs as. An account with PROCESS (MySQL, MariaDB) or pg_read_all_stats (PostgreSQL) \
    sees what all connections wait for. Things that the account may not see are named once, and watching goes on without them.\n\n\
    Exit codes: 0 at the end of --for, by Ctrl-C or SIGTERM; 1 with --fail-on-stall, if a statement waited that long, or the whole server did nothing for that long; 2 usage; 3 no such server or process, \
    or its threads cannot be seen; 4 the server ended: the stalls that were seen are printed, and with --to recorded.\n\n\
    The causes, how each is found, and which cannot be found: docs/stalls-watch.md, or `wringer doc stalls-watch`.")]
pub struct Args {
    /// The server's process; for PostgreSQL the first line of postmaster.pid [default: the one that listens at the socket, or the sandbox's]
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// How long to watch [default: until Ctrl-C, or the server's end]
    #[arg(long = "for", visible_alias = "time", value_name = "TIME")]
    lasting: Option<Span>,
    /// Time from one look at the threads to the next, 1ms to 1s [default: 10ms, up to 20ms where looking takes more than 1 % of a CPU]
    #[arg(long, value_name = "TIME", value_parser = interval)]
    interval: Option<Span>,
    /// The shortest stall that is reported, 5ms or more; it must last for at least four looks [default: 50ms; 20ms with --deep; 5ms for stalls that --probes
    /// sees]
    #[arg(long, value_name = "TIME", value_parser = least)]
    min: Option<Span>,
    /// Look every 4 to 5 ms, and ask for wait events (where they are on) and for the free pages of each instance of the buffer pool. It
    /// takes 2 % of a CPU beside few threads, and was measured at up to 5.4 % beside 16 to 64 connections: `cost` says what it took
    #[arg(long)]
    deep: bool,
    /// As root: probe the function in which InnoDB's queries wait for a free page; each call is seen from its begin to its return
    #[arg(long)]
    probes: bool,
    /// Exit code 1 if a statement waited this long in a stall, or the whole server did nothing for this long
    #[arg(long, value_name = "TIME")]
    fail_on_stall: Option<Span>,
    /// Show statements with their values; without it, they are shown as classes
    #[arg(long)]
    with_values: bool,
    /// How to print: text and json print a line for each stall, and the summary last (json: `kind` says what a line is: stall, not_over, summary); openmetrics prints at
    /// the end
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    output: Form,
    /// Send a query that needs no data and no lock (SELECT 1) once in this time, 10ms to 10s, on a connection of its own: a stall in which this query waits,
    /// too, is a
    /// stall of the whole server or its host; when no other stall of that time was seen, its own wait is one. Without a value, once in 100ms
    #[arg(long, value_name = "TIME", value_parser = pace, num_args = 0..=1, require_equals = true, default_missing_value = "100ms")]
    canary: Option<Span>,
    #[command(flatten)]
    to: kept::To,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Text,
    Json,
    Openmetrics,
}

pub(in crate::commands) fn interval(text: &str) -> Result<Span, String> {
    between(text, Duration::from_millis(1), Duration::from_secs(1), "1ms to 1s")
}

pub(in crate::commands) fn least(text: &str) -> Result<Span, String> {
    between(
        text,
        Duration::from_millis(5),
        Duration::from_secs(3600),
        "5ms or more: shorter waits are not told apart from work",
    )
}

fn pace(text: &str) -> Result<Span, String> {
    between(text, Duration::from_millis(10), Duration::from_secs(10), "10ms to 10s")
}

fn between(text: &str, low: Duration, high: Duration, words: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: units::ParseError| error.to_string())?;
    if (low..=high).contains(&span.0) { Ok(span) } else { Err(words.to_owned()) }
}

pub fn main(args: &Args) -> Outcome {
    let places = Places::from_environment();
    refuse_unseen(args)?;
    let output = args.to.check(&places)?;
    let (mut attached, unasked) = args.connection.attach_or_process(args.pid, &places)?;
    let clock = RunClock::start();
    let options = Options {
        interval: args.interval.map(|it| it.0),
        with_values: args.with_values,
        canary: args.canary.map(|every| every.0),
        slow_log: true,
        raw: output.is_some(),
        clock: Some(clock),
        ..Options::of_tier(args.min.map(|it| it.0), args.deep, args.probes)
    };
    let least = least_seen(&options);
    let label = args.connection.label(args.pid)?;
    let watcher = attached.stalls(&options).map_err(refused)?.ok_or_else(|| whose("stalls"))?;
    let stop = signals::install()?;
    let mut kept = output.map(|output| Kept::start(output, &mut attached, clock)).transpose()?;
    terminal::say(format_args!("watching {}: stalls of {} and more", attached.describe(), Span(least)));
    let End { watched, longest, has_ended } = watch(args, &attached, watcher, unasked, &stop, &mut kept);
    summary(args.output, &label, &watched);
    kept.map_or(Ok(()), |kept| kept.end(&watched, &mut attached, has_ended))?;
    if has_ended {
        let message = format!("{} ended while it was watched", attached.describe());
        return Err(Failure::message(Exit::Failed, message));
    }
    match args.fail_on_stall {
        Some(limit) if longest.us >= limit.as_ns() / 1000 => {
            let more = if longest.goes_on { " and more" } else { "" };
            let message = format!("a stall of {:.1} ms{more}: --fail-on-stall {limit}", longest.us as f64 / 1000.0);
            Err(Failure::message(Exit::Finding, message))
        }
        Some(limit) => {
            unseen(limit, &watched).iter().for_each(|note| terminal::say(format_args!("note: {note}")));
            Ok(())
        }
        None => Ok(()),
    }
}

/// Which stalls of the time of --fail-on-stall this watch could not see.
fn unseen(limit: Span, watched: &Watched) -> Vec<String> {
    let seen = Span::micros(watched.resolution_us);
    let short = (limit < seen).then(|| {
        format!("--fail-on-stall {limit}: only stalls of {seen} and more were seen; --deep, or --interval 10ms, sees shorter ones")
    });
    let of_locks = watched.source.server.is_none().then(|| {
        format!(
            "--fail-on-stall {limit}: the server was not asked, so waits for locks and for other threads were not seen"
        )
    });
    short.into_iter().chain(of_locks).collect()
}

/// # Errors
/// Exit code 2: stalls of the time of --fail-on-stall would not be seen.
fn refuse_unseen(args: &Args) -> Outcome {
    let options = Options::of_tier(args.min.map(|it| it.0), args.deep, args.probes);
    let options = Options { interval: args.interval.map(|it| it.0), ..options };
    // the probes see stalls of one cause alone, whatever the interval
    let least = options.probes.map_or(least_seen(&options), |probed| probed.min(least_seen(&options)));
    match args.fail_on_stall.filter(|limit| limit.0 < least) {
        None => Ok(()),
        Some(limit) => {
            let message = format!("--fail-on-stall {limit}: stalls shorter than {} are not reported", Span(least));
            Err(Failure::message(Exit::Usage, message)
                .hint("--min, --deep or a shorter --interval reports shorter ones"))
        }
    }
}

/// The shortest stall that is reported: it must last for several looks.
fn least_seen(options: &Options) -> Duration {
    options.interval.map_or(options.least, |interval| options.least.max(interval * LEAST_SAMPLES))
}

pub(super) fn refused(error: observe::Error) -> Failure {
    match error {
        observe::Error::Threads { .. } => {
            let hint = "run it as root, or as the user the server runs as; without that, `wringer stalls explain LOG` \
                        tells the stalls that the server's log has";
            Failure::new(Exit::Missing, error).hint(hint)
        }
        observe::Error::Server { .. } => Failure::new(Exit::Missing, error),
        error => error.into(),
    }
}

/// A stall that has lasted this long is told before its end, once in this time.
const TOLD_EVERY: Duration = Duration::from_secs(5);

/// The number of rounds after which the end of the server is looked for.
const LOOKED_EVERY: u64 = 5;

struct End {
    watched: Watched,
    longest: Longest,
    /// Whether the server ended during the watch.
    has_ended: bool,
}

/// The longest time that a client had to wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Longest {
    us: u64,
    /// Whether it waited on when that was told.
    goes_on: bool,
}

fn watch(
    args: &Args,
    attached: &Attached,
    mut watcher: Watcher,
    unasked: Option<ledger::Missing>,
    stop: &AtomicBool,
    kept: &mut Option<Kept>,
) -> End {
    let until = args.lasting.map(|lasting| Instant::now() + lasting.0);
    let is_alive = || attached.process().is_none_or(|process| process.is_alive());
    let (mut longest, mut is_read, mut rounds) = (Longest::default(), true, 0_u64);
    let mut lives = true;
    let mut told_at = Instant::now();
    let mut tell = |stall: &Stall, kept: &mut Option<Kept>| {
        longest = longest.max(Longest { us: longest_of(stall), goes_on: stall.goes_on });
        if let Some(kept) = kept {
            kept.stall(stall);
        }
        told(args.output, stall)
    };
    while is_read && lives && !stop.load(Ordering::SeqCst) && until.is_none_or(|until| Instant::now() < until) {
        for stall in watcher.round() {
            is_read &= tell(&stall, kept);
        }
        if let Some(kept) = kept {
            kept.spans(watcher.spans());
        }
        if told_at.elapsed() >= TOLD_EVERY {
            told_at = Instant::now();
            is_read &= watcher.going_on(TOLD_EVERY).iter().all(|stall| told(args.output, stall));
        }
        rounds += 1;
        if rounds.is_multiple_of(LOOKED_EVERY) {
            lives = is_alive();
        }
    }
    let Finished { last, mut watched, spans } = watcher.finish();
    if let Some(kept) = kept {
        kept.spans(spans);
    }
    lives &= is_alive();
    watched.missing.extend(unasked.map(|ledger::Missing { what, why, remedy }| Missing { what, why, remedy }));
    for stall in last {
        tell(&stall, kept);
    }
    End { watched, longest, has_ended: !lives }
}

/// The longest wait of one of the stall's victims: a client notices this time.
fn longest_of(stall: &Stall) -> u64 {
    stall.victims.iter().map(|victim| victim.length_us).max().unwrap_or(stall.length_us)
}

/// A line of the JSON output.
#[derive(Serialize)]
struct Line<'a, T> {
    kind: &'static str,
    #[serde(flatten)]
    of: &'a T,
}

/// `false`: nobody reads the output any more.
fn told(output: Form, stall: &Stall) -> bool {
    match output {
        Form::Text => terminal::line(show::line(stall)),
        Form::Json => json(if stall.goes_on { "not_over" } else { "stall" }, stall),
        Form::Openmetrics => true,
    }
}

fn json(kind: &'static str, of: &impl Serialize) -> bool {
    terminal::json_line(&Line { kind, of })
}

/// `server`: its name in OpenMetrics.
fn summary(output: Form, server: &str, watched: &Watched) {
    match output {
        Form::Text => terminal::data(show::summary(watched).trim_end()),
        Form::Json => {
            json("summary", watched);
        }
        Form::Openmetrics => terminal::data(openmetrics::text(server, watched)),
    }
}
