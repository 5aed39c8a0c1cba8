// SPDX-License-Identifier: Apache-2.0
//! The humps of any latency histogram, from any tool.

use super::chart::{chart, mark, time};
use crate::exit::{Exit, Failure, Outcome};
use crate::{input, terminal};
use clap::ValueEnum;
use evidence::DelayMode;
use explain::histograms::{self, Named};
use modes::{Modes, ReadDelay, find};
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use units::Span;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads sysbench --histogram output, fio json+, HdrHistogram logs, Wringer's own JSON, and lines of value \
    and count.\n\nWithout a delay it says how many humps there are; with --delay, the delay that was in force for each read, also how \
    many reads each hump stands for. It sees the histogram and the delay, nothing else, and says when it cannot tell.\n\n\
    Examples:\n  \
      sysbench oltp_point_select --histogram ... run | wringer modes -\n  \
      wringer modes run.txt --delay 10ms\n  \
      wringer modes run1.json run2.json run3.json -o csv > all.csv\n\n\
    How to read the answer: docs/modes.md, or `wringer doc modes`."
)]
pub struct Args {
    /// The file; `-` reads standard input. In several files, histograms of the same name are added up, as those of a load that was repeated
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// What the storage added to each read: 10ms, 500us
    #[arg(long, value_name = "TIME")]
    delay: Option<Span>,
    /// How the delay was applied: on top of the device's own latency, or in total
    #[arg(long, value_enum, default_value_t = Apply::Add, requires = "delay")]
    mode: Apply,
    /// What the values of an HdrHistogram log, or of a table without a heading, count; the other formats say it themselves
    /// [default: ns in a log, us in a table]
    #[arg(long, value_enum)]
    unit: Option<Unit>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
    /// One line for each bin, for a spreadsheet or a plot: its bounds, its count, the share of all values up to its upper bound, and its hump
    Csv,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Apply {
    Add,
    Total,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Unit {
    Ns,
    Us,
    Ms,
    S,
}

impl Unit {
    fn in_us(self) -> f64 {
        match self {
            Self::Ns => 1e-3,
            Self::Us => 1.0,
            Self::Ms => 1e3,
            Self::S => 1e6,
        }
    }
}

pub fn main(args: Args) -> Outcome {
    let files = args.files.iter().map(|file| read(file, args.unit)).collect::<Result<Vec<_>, _>>()?;
    let histograms = match files.len() {
        1 => files.into_iter().flatten().collect(),
        _ => histograms::merge(files).map_err(|error| Failure::new(Exit::Usage, error))?,
    };
    let found: Vec<(Named, Option<ReadDelay>, Modes)> =
        histograms.into_iter().map(|named| explained(named, &args)).collect();
    match args.output {
        Output::Json => terminal::json(&as_json(&found)),
        Output::Csv => terminal::data(as_csv(&found).trim_end()),
        Output::Text => {
            let texts: Vec<_> = found.iter().map(|(named, delay, modes)| text_of(named, *delay, modes)).collect();
            terminal::data(texts.join("\n").trim_end());
        }
    }
    Ok(())
}

fn read(file: &Path, unit: Option<Unit>) -> Result<Vec<Named>, Failure> {
    histograms::read_in(&content(file)?, unit.map(Unit::in_us)).map_err(|error| {
        let error = anyhow::Error::new(error).context(format!("read {}", file.display()));
        Failure::new(Exit::Usage, error).hint("wringer modes --help lists what is understood")
    })
}

fn content(file: &Path) -> Result<String, Failure> {
    let bytes = match file.to_str() {
        Some("-") => input::read_stdin(),
        _ => input::read_bytes(file),
    };
    // The text around a histogram may have any encoding.
    bytes
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .map_err(|error| Failure::new(input::exit_of(&error), error))
}

/// The delay of the command line, or without one, the delay of the document.
fn explained(named: Named, args: &Args) -> (Named, Option<ReadDelay>, Modes) {
    let mode = if args.mode == Apply::Add { DelayMode::Add } else { DelayMode::Total };
    let given = args.delay.map(|delay| delay.as_ns() as f64 / 1e3);
    let delay = given.or(named.delay_us).filter(|us| *us > 0.0).map(|us| ReadDelay::constant(us, mode));
    let modes = find(&named.bins, delay);
    (named, delay, modes)
}

fn as_json(found: &[(Named, Option<ReadDelay>, Modes)]) -> serde_json::Value {
    let one = |(named, delay, modes): &(Named, Option<ReadDelay>, Modes)| {
        json!({
            "name": named.name, "delay_us": delay.map(|delay| delay.us), "count": modes.count, "modes": modes.modes,
            "read_us": modes.read_us, "reads_per_query": modes.reads_per_query, "reason": modes.reason,
        })
    };
    json!({ "schema": 1, "histograms": found.iter().map(one).collect::<Vec<_>>() })
}

fn as_csv(found: &[(Named, Option<ReadDelay>, Modes)]) -> String {
    let mut out = "histogram,low_us,high_us,count,cumulative_share,hump\n".to_owned();
    for (named, _, modes) in found {
        let name = named.name.replace('"', "\"\"");
        let total: u64 = named.bins.iter().map(|bin| bin.count).sum();
        let mut below = 0;
        for bin in &named.bins {
            below += bin.count;
            let holds = |mode: &modes::Mode| (mode.low_us..=mode.high_us).contains(&bin.mid_us());
            let hump = modes.modes.iter().position(holds).map(|index| mark(index).to_string()).unwrap_or_default();
            let share = below as f64 / total as f64;
            let _ = writeln!(out, "\"{name}\",{},{},{},{share:.6},{hump}", bin.low_us, bin.high_us, bin.count);
        }
    }
    out
}

fn text_of(named: &Named, delay: Option<ReadDelay>, modes: &Modes) -> String {
    let with = delay.map_or_else(String::new, |delay| format!(", {} a read", time(delay.us)));
    let mut out = format!("{}: {} values{with}\n\n", named.name, modes.count);
    out += &chart(&named.bins, &modes.modes);
    out.push('\n');
    for (index, mode) in modes.modes.iter().enumerate() {
        let what = mode.reads.map_or_else(|| "reads unknown".to_owned(), reads);
        let _ = writeln!(
            out,
            "  {} {:>9}  {:>6.2} %  {:>9} to {:<9}  {what}",
            mark(index),
            time(mode.center_us),
            mode.share * 100.0,
            time(mode.low_us),
            time(mode.high_us),
        );
    }
    if let Some(per_query) = modes.reads_per_query {
        let _ = write!(out, "\n  {per_query:.4} reads a query");
        let each = modes.read_us.map_or_else(String::new, |us| format!("; one read takes {}", time(us)));
        let _ = writeln!(out, "{each}");
    }
    if let Some(reason) = &modes.reason {
        let _ = writeln!(out, "\n  {reason}");
    }
    out
}

fn reads(reads: f64) -> String {
    match reads {
        0.0 => "no read".into(),
        1.0 => "1 read".into(),
        whole if whole.fract() == 0.0 => format!("{whole:.0} reads"),
        mean => format!("{mean:.1} reads on average"),
    }
}
