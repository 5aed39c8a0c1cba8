// SPDX-License-Identifier: Apache-2.0
//! `wringer heap show`: one profile.

use super::assertion::{Assertion, Verdict};
use super::file::{Profile, again, open, unreadable};
use super::grown;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use heap::massif::{Kind, Snapshot, TimeUnit};
use heap::{Damage, Growth, Held, Holdings, ms_print};
use serde::Serialize;
use std::path::PathBuf;
use units::{Bytes, Span};

/// One profile: the heap over time, who held it at the end, and which functions grew
///
/// FILE is the output of Valgrind's Massif (massif.out.PID), also compressed by gzip, also broken off. A function is charged with what it has
/// allocated itself, or had allocated by functions that only pass on: my_malloc, palloc, operator new and their like. What Massif sums up as
/// below its threshold may belong to anybody: it makes the bounds of each growth wider.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer heap show massif.out.4711\n  \
    wringer heap show massif.out.4711 --from 3 --to 48 -o json | jq '.growth[0]'\n  \
    wringer heap show massif.out.4711 -o ms_print --threshold 0.5 --x 100 --y 30\n\n\
    Exit codes: 1 if what --assert says does not hold; 3 if the file is no profile, or hides too much to\n  \
    tell whether it holds.")]
pub struct Args {
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The number of the snapshot from which growth counts [default: the first that has a tree]
    #[arg(long, value_name = "NUMBER")]
    from: Option<u64>,
    /// The number of the snapshot up to which growth counts [default: the last that has a tree]
    #[arg(long, value_name = "NUMBER")]
    to: Option<u64>,
    /// Functions to print; the JSON output has all
    #[arg(long, default_value_t = 20, value_name = "N")]
    top: usize,
    /// What must hold: growth<1M of each function, FUNCTION<4M at the end
    #[arg(long = "assert", value_name = "ASSERTION")]
    assertions: Vec<Assertion>,
    /// As of ms_print: nodes of less than so many percent of a snapshot are summed up
    #[arg(long, default_value = "1", value_name = "PERCENT", value_parser = percent)]
    threshold: f64,
    /// As of ms_print: columns of the graph
    #[arg(long, default_value_t = 72, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(4..=1000))]
    x: u16,
    /// As of ms_print: rows of the graph
    #[arg(long, default_value_t = 20, value_name = "ROWS", value_parser = clap::value_parser!(u16).range(4..=1000))]
    y: u16,
    /// How to print; ms_print: as Valgrind's program of this name; folded: for flame graphs, of the tree at --to
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    #[value(name = "ms_print")]
    MsPrint,
    Folded,
}

fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.trim_end_matches('%').parse().map_err(|_| "a number of percent".to_owned())?;
    if (0.0..=100.0).contains(&number) { Ok(number) } else { Err("0 to 100".to_owned()) }
}

/// What `-o json` has.
#[derive(Debug, Serialize)]
struct Shown {
    format: &'static str,
    command: String,
    time_unit: TimeUnit,
    snapshots: Vec<SnapshotShown>,
    from: Option<u64>,
    to: Option<u64>,
    growth: Vec<Growth>,
    functions: Vec<Held>,
    subsystems: Vec<PartShown>,
    hidden_bytes: u64,
    total_bytes: u64,
    assertions: Vec<Verdict>,
    damaged_at_byte: Option<u64>,
    damage: Option<Damage>,
}

#[derive(Debug, Serialize)]
struct SnapshotShown {
    number: u64,
    kind: Kind,
    time: u64,
    heap_bytes: u64,
    extra_bytes: u64,
    stacks_bytes: u64,
}

#[derive(Debug, Serialize)]
struct PartShown {
    /// `null`: of functions whose names tell none.
    subsystem: Option<&'static str>,
    bytes: u64,
}

pub(super) fn main(args: &Args) -> Outcome {
    match args.output {
        Format::MsPrint => return print_as_valgrind(args),
        Format::Folded => {
            let profile = Profile::open(&args.file)?;
            let place = args.to.map_or_else(|| profile.last(), |number| profile.place_of(number))?;
            let tree = profile.tree(place)?;
            return terminal::stream(|mut output| heap::folded::write(&tree, &mut output)).map_err(Failure::from);
        }
        Format::Text | Format::Json => {}
    }
    let profile = Profile::open(&args.file)?;
    let shown = shown(args, &profile)?;
    match args.output {
        Format::Json => terminal::json(&shown),
        _ => terminal::data(text(args, &profile, &shown).trim_end()),
    }
    verdict(&shown.assertions)
}

fn print_as_valgrind(args: &Args) -> Outcome {
    let options = ms_print::Options {
        threshold: args.threshold,
        columns: args.x.into(),
        rows: args.y.into(),
        arguments: format!(" {}", args.file.display()).into_bytes(),
    };
    let first = open(&args.file)?;
    let again = || again(&args.file);
    terminal::stream(|mut output| ms_print::print(first, again, &options, &mut output))
        .map_err(|error| unreadable(&args.file, error))
}

fn shown(args: &Args, profile: &Profile) -> Result<Shown, Failure> {
    let outline = &profile.outline;
    // a profile without any tree still has its sizes over time
    let has_trees = outline.with_trees().next().is_some() || !args.assertions.is_empty();
    let place = |number: Option<u64>, default: Option<usize>| match number {
        Some(number) => profile.place_of(number).map(Some),
        None => Ok(default),
    };
    let from = place(args.from, outline.with_trees().next())?;
    let to = place(args.to, if has_trees { Some(profile.last()?) } else { None })?;
    let holdings = |place: Option<usize>| place.map_or_else(|| Ok(Holdings::default()), |it| profile.holdings(it));
    let (before, after) = (holdings(from)?, holdings(to)?);
    let growth = heap::growth(&before, &after);
    let assertions = args.assertions.iter().map(|it| it.judge(&growth, after.hidden_bytes)).collect();
    let number = |place: Option<usize>| place.and_then(|it| Some(outline.snapshots.get(it)?.number));
    Ok(Shown {
        format: "massif",
        command: profile.command(),
        time_unit: outline.header.time_unit,
        snapshots: outline.snapshots.iter().map(snapshot_shown).collect(),
        from: number(from),
        to: number(to),
        growth,
        subsystems: after.subsystems().into_iter().map(|(subsystem, bytes)| PartShown { subsystem, bytes }).collect(),
        hidden_bytes: after.hidden_bytes,
        total_bytes: after.total_bytes,
        functions: after.functions,
        assertions,
        damaged_at_byte: outline.damage.as_ref().map(|it| it.at_byte),
        damage: outline.damage.clone(),
    })
}

fn snapshot_shown(snapshot: &Snapshot) -> SnapshotShown {
    let Snapshot { number, time, heap_bytes, extra_bytes, stacks_bytes, kind } = *snapshot;
    SnapshotShown { number, kind, time, heap_bytes, extra_bytes, stacks_bytes }
}

fn text(args: &Args, profile: &Profile, shown: &Shown) -> String {
    let mut text = format!("{}: {}\n", profile.name(), shown.command);
    text += &over_time(&profile.outline.snapshots, shown.time_unit);
    if let (Some(from), Some(to)) = (shown.from, shown.to) {
        text += &format!("\nWho held the {} at snapshot {to}\n", Bytes(shown.total_bytes));
        let after = Holdings {
            functions: shown.functions.clone(),
            hidden_bytes: shown.hidden_bytes,
            total_bytes: shown.total_bytes,
        };
        text += &grown::parts(&after);
        text += &format!("\nFunctions from snapshot {from} to {to}, the one that grew most first\n");
        text += &grown::table(&shown.growth, args.top);
        if let Some(most) = shown.growth.first().filter(|it| it.growth_bytes > 0) {
            text += &format!(
                "\n{} is called by\n  {}\n",
                most.function,
                most.path.iter().skip(1).take(8).cloned().collect::<Vec<_>>().join("\n  ")
            );
        }
    } else {
        text += "\nno snapshot says who held the heap: Massif gives every tenth one a tree, --detailed-freq=1 all of them\n";
    }
    for verdict in &shown.assertions {
        let holds = match verdict.holds {
            Some(true) => "holds",
            Some(false) => "does not hold",
            None => "cannot be told",
        };
        let (bytes, most) = (grown::signed(verdict.bytes), grown::signed(verdict.at_most_bytes));
        text += &format!("\n{}: {holds} ({bytes}; with all that the profiler hides {most})", verdict.assertion);
    }
    if let Some(damage) = &shown.damage {
        text += &format!("\nread up to the damage: {damage}");
    }
    text
}

/// Peak, end, and a line of bars.
fn over_time(snapshots: &[Snapshot], unit: TimeUnit) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let total = |it: &Snapshot| it.total_bytes().unwrap_or(u64::MAX);
    let Some(peak) = snapshots.iter().max_by_key(|it| total(it)) else { return String::new() };
    let end = snapshots.last().map_or(0, |it| it.time);
    let bar = |it: &Snapshot| {
        let eighths = u128::from(total(it)) * 7 / u128::from(total(peak).max(1));
        usize::try_from(eighths).ok().and_then(|at| BARS.get(at)).copied().unwrap_or(' ')
    };
    let bars: String = snapshots.iter().map(bar).collect();
    format!(
        "{} snapshots over {}; the heap was largest at {}: {}\n|{bars}|\n",
        snapshots.len(),
        time(end, unit),
        time(peak.time, unit),
        Bytes(total(peak))
    )
}

fn time(time: u64, unit: TimeUnit) -> String {
    match unit {
        TimeUnit::Milliseconds => Span::millis(time).to_string(),
        TimeUnit::Instructions => format!("{time} instructions"),
        TimeUnit::Bytes => format!("{} allocated and freed", Bytes(time)),
    }
}

fn verdict(verdicts: &[Verdict]) -> Outcome {
    let of = |holds: Option<bool>| verdicts.iter().find(|it| it.holds == holds).map(|it| &it.assertion);
    if let Some(broken) = of(Some(false)) {
        return Err(Failure::message(Exit::Finding, format!("{broken} does not hold")));
    }
    match of(None) {
        None => Ok(()),
        Some(unknown) => Err(Failure::message(Exit::Missing, format!("whether {unknown} holds cannot be told"))
            .hint("profile with a lower --threshold of Massif, so that it hides less")),
    }
}
