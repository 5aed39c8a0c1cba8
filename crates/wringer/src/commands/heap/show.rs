// SPDX-License-Identifier: Apache-2.0
//! `wringer heap show`: one profile.

use super::assertion::{self, Assertion};
use super::grown::in_line;
use super::profile::{Names, Profile};
use super::shown::shown;
use super::source::{Source, unreadable};
use super::text;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use heap::ms_print;
use std::path::PathBuf;

/// One profile: the heap over time, the functions that held it at the end, and the functions that grew
///
/// FILE is a profile of Valgrind's Massif or DHAT, of heaptrack, gperftools or jemalloc; its content tells which. It may be compressed by gzip, zstd, xz
/// or bzip2, and may break off; it may be a pipe, and `-` is standard input. Several files are one profile where each is one moment (gperftools, jemalloc); they are put in the order of the numbers in their names. A
/// function is charged with the memory that it has allocated itself, or through functions that only pass an allocation on, such as my_malloc, palloc and
/// operator new. Memory that the profiler sums up as below its threshold may belong to any function: it makes the bounds of each growth wider.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer heap show massif.out.4711\n  \
    wringer heap show massif.out.4711 --from 3 --to 48 -o json | jq '.growth[0]'\n  \
    wringer heap show heaptrack.mariadbd.4711.zst --top 5\n  \
    wringer heap show /tmp/profile.*.heap --binaries /copies/of/the/server\n  \
    wringer heap show massif.out.4711 -o ms_print --threshold 0.5 --x 100 --y 30\n\n\
    Exit codes: 0 done, and each assertion holds; 1 an assertion does not hold; 3 the file is not a profile, or it cannot be told whether an assertion \
    holds: the profile hides too much or is a sample; or it has one moment, and so no growth; or it is damaged, so that its end is not known; or the \
    function holds nothing itself, and only calls functions that do.")]
pub struct Args {
    /// The profile; several files of one moment each (gperftools, jemalloc) make one profile
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The number of the snapshot from which growth counts [default: the first that has a tree]
    #[arg(long, value_name = "NUMBER")]
    from: Option<u64>,
    /// The number of the snapshot up to which growth counts [default: the last that has a tree]
    #[arg(long, value_name = "NUMBER")]
    to: Option<u64>,
    /// Functions to print; the JSON output has all
    #[arg(long, default_value_t = 20, value_name = "N")]
    top: usize,
    /// An assertion: growth<1M for the growth of every function, FUNCTION<4M for the bytes of one function at the end. A
    /// function that holds nothing itself, and only calls functions that do, cannot be judged: name one that `heap show` prints
    #[arg(long = "assert", value_name = "ASSERTION")]
    assertions: Vec<Assertion>,
    #[command(flatten)]
    names: Names,
    /// With -o ms_print: nodes with less than this percentage of a snapshot are summed into one line
    #[arg(long, default_value = "1", value_name = "PERCENT", value_parser = percent)]
    threshold: f64,
    /// With -o ms_print: columns of the graph
    #[arg(long, default_value_t = 72, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(4..=1000))]
    x: u16,
    /// With -o ms_print: rows of the graph
    #[arg(long, default_value_t = 20, value_name = "ROWS", value_parser = clap::value_parser!(u16).range(4..=1000))]
    y: u16,
    /// How to print; ms_print: the text of Valgrind's program of this name; folded: the tree at --to, for flame graph tools
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

pub(super) fn main(args: &Args) -> Outcome {
    let sources = Source::all(&args.files)?;
    let is_printed = match args.output {
        Format::MsPrint => print_as_valgrind(args, &sources).map(|()| true)?,
        Format::Folded => print_folded(args, &sources).map(|()| true)?,
        Format::Text | Format::Json => false,
    };
    if is_printed && args.assertions.is_empty() {
        return Ok(());
    }
    let mut profile = Profile::open_all(&sources, &args.names)?;
    let shown = shown(&mut profile, args.from, args.to, &args.assertions)?;
    match args.output {
        Format::Json => terminal::document(&shown),
        Format::Text => terminal::data(text::text(args.top, &profile, &shown).trim_end()),
        Format::MsPrint | Format::Folded => {}
    }
    assertion::outcome(&shown.assertions)
}

fn print_folded(args: &Args, sources: &[Source]) -> Outcome {
    let mut profile = Profile::open_all(sources, &args.names)?;
    if let Some(damage) = profile.damage() {
        terminal::say(format_args!("note: {}", in_line(&damage)));
    }
    let place = args.to.map_or_else(|| profile.last(), |number| profile.place_of(number))?;
    let tree = profile.tree(place)?;
    terminal::stream(|mut output| heap::folded::write(&tree, &mut output)).map_err(Failure::from)
}

fn print_as_valgrind(args: &Args, sources: &[Source]) -> Outcome {
    let [source] = sources else {
        return Err(Failure::message(Exit::Usage, "-o ms_print prints one file, as ms_print does")
            .hint("name one FILE, or leave out `-o ms_print`"));
    };
    let format = heap::Format::read(source.open()?);
    if let Some(other) = format.filter(|it| *it != heap::Format::Massif) {
        let what = format!("{}: ms_print prints files of Massif; this one is of {}", source.name(), other.name());
        return Err(Failure::message(Exit::Missing, what).hint("leave out `-o ms_print`, or use `-o folded`"));
    }
    let options = ms_print::Options {
        threshold: args.threshold,
        columns: args.x.into(),
        rows: args.y.into(),
        arguments: format!(" {}", source.path().display()).into_bytes(),
    };
    let first = source.open()?;
    let printed = terminal::stream(|mut output| ms_print::print(first, || source.again(), &options, &mut output));
    match printed {
        // up to there it is a profile, and was printed
        Err(heap::Error::Damage(damage)) if Profile::open_all(std::slice::from_ref(source), &args.names).is_ok() => {
            terminal::say(format_args!(
                "note: {}: read up to the damage: {}",
                source.name(),
                in_line(&damage.to_string())
            ));
            Ok(())
        }
        other => other.map_err(|error| unreadable(source, error)),
    }
}
