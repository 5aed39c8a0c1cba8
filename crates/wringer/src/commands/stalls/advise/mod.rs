// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls advise`: what a server's settings and counters tell about its free list, and what other settings would gain and cost. Nothing is
//! changed.

mod live;
mod show;

use crate::commands::connection::Connection;
use crate::exit::{Exit, Failure, Outcome};
use crate::input;
use crate::terminal::{self, Output};
use advice::{AdviceRequest, Advised, Reading};
use host::files::write_named;
use live::Read;
use std::path::{Path, PathBuf};
use units::Span;

/// Whether this server's queries can stall on InnoDB's empty free list, what its counters mean, and what other settings would gain and cost
///
/// It reads a server's settings, and its counters over some seconds, from a server that runs (best while it works) or from a file. A table with sources says
/// how each version behaves. A version whose source Wringer's authors have not read gets no advice. Statements are printed, and never run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer stalls advise --sandbox shop\n  \
    wringer stalls advise --mysql-socket=/run/mysqld/mysqld.sock --mysql-user=me \\\n    --time 30s --save shop.json\n  \
    wringer stalls advise --from shop.json -o json | jq '.advice[].statement'\n  \
    mysql --batch -e 'SHOW GLOBAL VARIABLES; SHOW GLOBAL STATUS; SELECT SLEEP(10);\n    SHOW GLOBAL STATUS' > reading.txt\n  \
    wringer stalls advise --from reading.txt\n\n\
    Each advice has its price, its source, and how well it is known: measured on a server of that version, simulated, or assumed, because Wringer's authors had no \
    server of that version.\n\n\
    Exit codes: 0 done, also where the advice is not applicable; 2 no server is named; 3 no connection, no such file, or the file is not a reading; 4 the server ended.\n\n\
    What the figures mean: docs/stalls-advise.md, or `wringer doc stalls-advise`.")]
pub struct Args {
    /// A saved reading, or the output of the mysql client for SHOW GLOBAL VARIABLES, SHOW GLOBAL STATUS, SELECT SLEEP(10), SHOW GLOBAL STATUS; `-` is the standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["save", "time"])]
    from: Option<PathBuf>,
    /// Write the reading to this file, for --from: only the settings and counters that are used
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// How long to watch the counters; a number without a unit is seconds
    #[arg(long, visible_alias = "for", value_name = "TIME", default_value = "10s", value_parser = time)]
    time: Span,
    /// Number of clients that send their next query as soon as they have an answer [default: estimated from Threads_running; the band then has loads of this kind and loads with a fixed rate]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    /// Time of a query that waits for no page [default: from the counters]
    #[arg(long, value_name = "TIME", value_parser = service)]
    service_time: Option<Span>,
    /// How many different starts are simulated for each band; 0: nothing is simulated
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(0..=1000))]
    starts: u32,
    #[command(flatten)]
    connection: Connection,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

fn time(text: &str) -> Result<Span, String> {
    let span = Span::parse_seconds(text).map_err(|error| error.to_string())?;
    match span.as_ns() {
        1_000_000_000..=3_600_000_000_000 => Ok(span),
        _ => Err("1s to 1h: counters of a shorter time say little".to_owned()),
    }
}

fn service(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: units::ParseError| error.to_string())?;
    if span.as_ns() < 1000 { Err("1us or more".to_owned()) } else { Ok(span) }
}

/// # Errors
/// 2: no server is named. 3: no connection, no file, or the file is not a reading. 4: the server ended meanwhile.
pub fn main(args: &Args) -> Outcome {
    let read = match &args.from {
        Some(file) => Read::Reading(of_file(file)?),
        None => live::read(&args.connection, args.time)?,
    };
    let advised = match read {
        Read::Reading(reading) => of_reading(args, &reading)?,
        Read::WithoutInnodb(server, version) => {
            if let Some(file) = &args.save {
                terminal::say(format_args!(
                    "{} was not written: there are no counters of InnoDB to save",
                    file.display()
                ));
            }
            advice::without_innodb(server, version)
        }
    };
    match args.output {
        Output::Json => terminal::document(&advised),
        Output::Text => terminal::data(show::text(&advised).trim_end()),
    }
    Ok(())
}

fn of_reading(args: &Args, reading: &Reading) -> Result<Advised, Failure> {
    if let Some(file) = &args.save {
        save(reading, file)?;
    }
    let service_us = args.service_time.map(|span| span.as_ns() as f64 / 1000.0);
    Ok(advice::advise(reading, &AdviceRequest { threads: args.threads, service_us, starts: args.starts }))
}

fn of_file(file: &Path) -> Result<Reading, Failure> {
    let bytes = match file.to_str() {
        Some("-") => input::read_stdin(),
        _ => input::read_bytes(file),
    };
    let bytes = bytes.map_err(|error| Failure::new(Exit::Missing, error))?;
    advice::read(&String::from_utf8_lossy(&bytes)).map_err(|problem| {
        Failure::message(Exit::Missing, format!("{}: {problem}", file.display())).hint(
            "`wringer stalls advise --save FILE` writes a reading; so does mysql --batch -e 'SHOW GLOBAL VARIABLES; SHOW GLOBAL STATUS; SELECT SLEEP(10); SHOW GLOBAL STATUS' > FILE",
        )
    })
}

/// Writes the reading so that only its owner can read it, like all files with data of a server.
fn save(reading: &Reading, file: &Path) -> Outcome {
    let text = serde_json::to_vec_pretty(reading).map_err(|error| Failure::new(Exit::Failed, error))?;
    write_named(file, &text, 0o600).map_err(|error| Failure::new(Exit::Missing, error))
}
