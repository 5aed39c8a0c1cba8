// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls explain`: stalls and their cost, from a log, or from the counter alone.

mod recording;
mod show;

use super::algorithm::Named;
use crate::commands::report::is_recording_file;
use crate::exit::{Exit, Failure, Outcome};
use crate::input;
use crate::terminal::{self, Output};
use capability::Flavour;
use sandbox::Request;
use stalls::counter::Counted;
use stalls::{Asked, Explained, MOST_STATEMENT_BYTES, Server};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use units::Span;

/// The stalls of a log or of a recording: what statements waited for, and what it cost
///
/// The command recognises the log by its content: the slow log of MySQL (also with log_slow_extra), MariaDB or Percona Server; PostgreSQL's log
/// with durations (log_min_duration_statement) or waits (log_lock_waits; log_line_prefix with time and process: '%m [%p] '), its csvlog or jsonlog; or lines
/// `01:35:41.656535Z: 0.401592` of the end and the query time of statements. A log with all statements (long_query_time=0) shows more than a log with slow
/// statements only. For a recording, the command lists the stalls of each arm whose load kept its slow statements (load.slow_statements = "20ms"). Without a
/// log, the counter Innodb_buffer_pool_wait_free of a Percona Server under `backoff` says how long its stalls were.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer stalls explain slow.log\n  \
    wringer stalls explain slow.log --server percona@8.0.29 --algorithm backoff --wait-free 479 \\\n    -o json | jq .account\n  \
    wringer stalls explain --server percona@8.0.29 --algorithm backoff --wait-free 479 --victims 5\n  \
    # a recording of an experiment with load.slow_statements or observe.stalls\n  \
    wringer stalls explain out -o json | jq '.arms[].account'\n  \
    zcat slow.log.1.gz | wringer stalls explain - --at-least 100ms\n\n\
    Exit codes: 0 done; 1 with --fail-on-stall, if a stall is that long; 2 usage; 3 if the file is not such a log, or a \
    recording without slow statements; with --fail-on-stall also if nothing could be judged; or if the counter is no clock on that server.\n\n\
    What a log can show and what it cannot: docs/stalls-explain.md, or `wringer doc stalls-explain`.")]
pub struct Args {
    /// The log, `-` is standard input; or a recording, or the folder that holds it
    #[arg(value_name = "FILE", required_unless_present = "wait_free")]
    file: Option<PathBuf>,
    /// The server that wrote the log, with its version: percona@8.0.29, mysql@9.1, xtradb [default: for each entry, what the head before it says]
    #[arg(long, value_name = "SERVER@VERSION")]
    server: Option<Request>,
    /// innodb_empty_free_list_algorithm at that time
    #[arg(long, value_enum)]
    algorithm: Option<Named>,
    /// By how much Innodb_buffer_pool_wait_free rose while the log was written
    #[arg(long, value_name = "N")]
    wait_free: Option<u64>,
    /// With the counter alone: how many queries stalled
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "file")]
    victims: Option<u64>,
    /// With the counter alone: by how much one sleep is longer than the server asked for [default: 60us, and a band from 50us to 200us]
    #[arg(long, value_name = "TIME", conflicts_with = "file")]
    sleep_overhead: Option<Span>,
    /// The shortest stall that is looked for, 1ms or more [default: 20ms, or the time of --fail-on-stall where that is shorter]
    #[arg(long, value_name = "TIME", value_parser = least)]
    at_least: Option<Span>,
    /// Exit code 1 if a stall takes this time or longer, 3 if the log does not tell how long statements took
    #[arg(long, value_name = "TIME", value_parser = least)]
    fail_on_stall: Option<Span>,
    /// Show statements with their values; without it, they are shown as classes
    #[arg(long)]
    with_values: bool,
    /// Stalls and classes to print, beginning with those that cost the most time; the JSON output has all
    #[arg(long, default_value_t = 20, value_name = "N")]
    top: usize,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

fn least(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: units::ParseError| error.to_string())?;
    if span.as_ns() < 1_000_000 {
        return Err("1ms or more: a log does not distinguish shorter waits from work".to_owned());
    }
    Ok(span)
}

impl Args {
    fn least_us(&self) -> u64 {
        const DEFAULT_US: u64 = 20_000;
        let us = |span: Span| span.as_ns() / 1000;
        let shorter = self.fail_on_stall.map_or(DEFAULT_US, |limit| us(limit).min(DEFAULT_US));
        self.at_least.map_or(shorter, us)
    }
}

pub fn main(args: &Args) -> Outcome {
    if let Some((least, limit)) = args.at_least.zip(args.fail_on_stall).filter(|(least, limit)| least.0 > limit.0) {
        let message = format!("--at-least {least} hides stalls of --fail-on-stall {limit}");
        return Err(Failure::message(Exit::Usage, message).hint("leave --at-least out, or make it the shorter one"));
    }
    let server = args.server.as_ref().map(server).transpose()?;
    match &args.file {
        Some(file) if file.is_dir() || is_recording_file(file) => {
            let found = recording::explain(args, file, server)?;
            match args.output {
                Output::Json => terminal::json(&found),
                Output::Text => found.arms.iter().for_each(|of_arm| {
                    let text = show::text(&of_arm.explained, args.top);
                    terminal::data(format!("{}: {}\n", of_arm.arm, text.trim_end()));
                }),
            }
            verdict(args, found.arms.iter().filter_map(|of_arm| of_arm.explained.account.longest_us()).max())
        }
        file => {
            let explained = match file {
                Some(file) => of_log(args, file, server)?,
                None => of_counter(args, server)?,
            };
            match args.output {
                Output::Json => terminal::json(&explained),
                Output::Text => terminal::data(show::text(&explained, args.top).trim_end()),
            }
            verdict(args, explained.account.longest_us())?;
            if args.fail_on_stall.is_some() && explained.is_unread() {
                let message = "--fail-on-stall: no entry of this log tells how long a statement took";
                let hint =
                    "MySQL, MariaDB: the slow log with long_query_time=0; PostgreSQL: log_min_duration_statement=0";
                return Err(Failure::message(Exit::Missing, message).hint(hint));
            }
            Ok(())
        }
    }
}

fn verdict(args: &Args, longest_us: Option<u64>) -> Outcome {
    match (args.fail_on_stall, longest_us) {
        (Some(limit), Some(longest)) if longest >= limit.as_ns() / 1000 => {
            let message = format!("a stall of {:.1} ms: --fail-on-stall {limit}", longest as f64 / 1000.0);
            Err(Failure::message(Exit::Finding, message))
        }
        _ => Ok(()),
    }
}

fn server(asked: &Request) -> Result<Server, Failure> {
    let Request { flavour, version } = asked.clone();
    let version = version.ok_or_else(|| {
        let message = format!("--server {flavour} lacks the version");
        Failure::message(Exit::Usage, message)
            .hint("the behaviour of a server depends on its version: --server percona@8.0.29")
    })?;
    Ok(Server { flavour, version })
}

fn of_log(args: &Args, path: &Path, server: Option<Server>) -> Result<Explained, Failure> {
    if args.wait_free.is_some() && server.as_ref().is_some_and(|it| it.flavour == Flavour::Postgresql) {
        return Err(no_counter());
    }
    if path == Path::new("-") {
        return of_input(args, path, server, std::io::stdin().lock());
    }
    let input = input::open_input(path).map_err(|error| unreadable(path, error))?;
    of_input(args, path, server, BufReader::with_capacity(1 << 20, input))
}

fn of_input(args: &Args, path: &Path, server: Option<Server>, mut input: impl BufRead) -> Result<Explained, Failure> {
    let failed = |error| unreadable(path, error);
    require_text(input.fill_buf().map_err(failed)?, path)?;
    let Some(mut log) = logs::open_timed(input, MOST_STATEMENT_BYTES).map_err(failed)? else {
        return Err(not_known(path));
    };
    if log.format() == logs::Format::MysqlGeneral {
        let message = format!("{} is a general log: it does not say how long statements took", path.display());
        return Err(
            Failure::message(Exit::Missing, message).hint("the slow log does: slow_query_log=1, long_query_time=0")
        );
    }
    let algorithm = args.algorithm.map(capability::Algorithm::from);
    let least_us = args.least_us();
    let (wait_free, with_values) = (args.wait_free, args.with_values);
    stalls::explain(&mut log, &Asked { least_us, server, algorithm, wait_free, with_values }).map_err(failed)
}

/// Refuses what is no text: nothing, or a packed file.
fn require_text(begin: &[u8], path: &Path) -> Outcome {
    let path = path.display();
    let (message, hint) = if begin.is_empty() {
        let hint =
            "is it the file that the server writes? Is long_query_time, or log_min_duration_statement, low enough?";
        (format!("{path} is empty: no statement was logged"), hint.to_owned())
    } else if let Some(program) = packed_by(begin) {
        (format!("{path} is compressed"), format!("{program} {path} | wringer stalls explain -"))
    } else {
        return Ok(());
    };
    Err(Failure::message(Exit::Missing, message).hint(hint))
}

fn not_known(path: &Path) -> Failure {
    let message = format!("{} is no log that is known here", input::name(path));
    Failure::message(Exit::Missing, message).hint(READ_TODAY)
}

/// The program that unpacks what begins with these bytes: gzip's, Zstandard's or xz's.
fn packed_by(begin: &[u8]) -> Option<&'static str> {
    const PACKED: [(&[u8], &str); 3] =
        [(&[0x1f, 0x8b], "zcat"), (&[0x28, 0xb5, 0x2f, 0xfd], "zstdcat"), (b"\xfd7zXZ\0", "xzcat")];
    PACKED.iter().find(|(magic, _)| begin.starts_with(magic)).map(|(_, program)| *program)
}

const READ_TODAY: &str = "known are the slow log of MySQL, MariaDB and Percona Server; PostgreSQL's log with time and process in \
    log_line_prefix ('%m [%p] '), its csvlog and its jsonlog; and lines 'TIME: SECONDS'";

fn unreadable(path: &Path, error: std::io::Error) -> Failure {
    Failure::new(Exit::Missing, input::named(error, path))
}

fn no_counter() -> Failure {
    let message = "--wait-free is a counter of InnoDB: PostgreSQL does not have it";
    Failure::message(Exit::Usage, message).hint("leave --wait-free out")
}

fn of_counter(args: &Args, server: Option<Server>) -> Result<Explained, Failure> {
    let usage = |message: &str| Failure::message(Exit::Usage, message).hint("see `wringer stalls explain --help`");
    let server =
        server.ok_or_else(|| usage("the counter alone needs --server: what it counts depends on the version"))?;
    let victims =
        args.victims.ok_or_else(|| usage("the counter alone needs --victims: it does not say how many stalled"))?;
    let wait_free = args.wait_free.ok_or_else(|| usage("without a log, --wait-free is needed"))?;
    if server.flavour == Flavour::Postgresql {
        return Err(no_counter());
    }
    if capability::free_list(server.flavour, &server.version).is_none() {
        let message = format!("nobody has looked at what {server} does about an empty free list");
        return Err(usage(&message));
    }
    let ladder = server.ladder().filter(|_| args.algorithm != Some(Named::Legacy));
    let Some(ladder) = ladder else {
        let way = if args.algorithm.is_some() { " with that algorithm" } else { "" };
        let message = format!(
            "in {server}{way} the counter says how often queries had to look further for a free page, not how long they waited"
        );
        return Err(
            Failure::message(Exit::Missing, message).hint("its slow log tells more: wringer stalls explain FILE")
        );
    };
    let is_in_force = args.algorithm == Some(Named::Backoff);
    let sleep_overhead_us = args.sleep_overhead.map(|span| span.as_ns() as f64 / 1000.0);
    let is_default = server.is_backoff_usual();
    let server = server.to_string();
    let counted = Counted { server, ladder, is_in_force, is_default, wait_free, victims, sleep_overhead_us };
    Ok(stalls::counter::explain(&counted))
}
