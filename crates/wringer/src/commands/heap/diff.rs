// SPDX-License-Identifier: Apache-2.0
//! `wringer heap diff`: two profiles.

use super::assertion::{self, Assertion, Known, Verdict};
use super::grown;
use super::profile::{Names, Profile};
use super::shown::at_end;
use super::source::Source;
use super::text::judged;
use crate::exit::{Failure, Outcome};
use crate::terminal::{self, Output};
use heap::{AskedBelow, Damage, Format, Growth, Holdings};
use serde::Serialize;
use std::path::PathBuf;

/// Compare the bytes that functions held in one profile and in another; functions are found by their names, so that addresses may differ
///
/// In each file, the last snapshot that has a tree is used, or the snapshot that is named. Where a file is damaged, its last snapshot is not its end: the growth
/// has no bounds then.
/// Where a profiler saw a sample, the sizes are estimates, and the bounds of each growth are as wide as their errors.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer heap diff before/massif.out.1 after/massif.out.1\n  \
    wringer heap diff massif.out.1 massif.out.1 --from 3 --to 48\n  \
    wringer heap diff before/dhat.out.1 after/dhat.out.1 --assert 'growth<1M'\n\n\
    Exit codes: 0 done, and each assertion holds; 1 an assertion does not hold; 3 a file is not a profile, or it cannot be told whether an assertion \
    holds, as for `wringer heap show`.")]
pub struct Args {
    /// The profile from before; `-` is standard input
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The profile from after; the same file with --from and --to compares two of its snapshots
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// The number of the snapshot of BEFORE
    #[arg(long, value_name = "NUMBER")]
    from: Option<u64>,
    /// The number of the snapshot of AFTER
    #[arg(long, value_name = "NUMBER")]
    to: Option<u64>,
    /// Functions to print; the JSON output has all
    #[arg(long, default_value_t = 20, value_name = "N")]
    top: usize,
    /// An assertion: growth<1M for the growth of every function from BEFORE to AFTER, FUNCTION<4M for the bytes that one function holds in AFTER
    #[arg(long = "assert", value_name = "ASSERTION")]
    assertions: Vec<Assertion>,
    #[command(flatten)]
    names: Names,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Serialize)]
struct Difference<'a> {
    before_format: &'static str,
    after_format: &'static str,
    before_total_bytes: u64,
    after_total_bytes: u64,
    before_hidden_bytes: u64,
    after_hidden_bytes: u64,
    /// `None`: the profiler looked at each allocation.
    before_sampled_every_bytes: Option<u64>,
    after_sampled_every_bytes: Option<u64>,
    growth: Vec<Grown<'a>>,
    assertions: &'a [Verdict],
    /// In which way the two profiles count differently.
    notes: Vec<String>,
    before_damaged_at_byte: Option<u64>,
    after_damaged_at_byte: Option<u64>,
    before_damage: Option<&'a Damage>,
    after_damage: Option<&'a Damage>,
}

/// [`Growth`], without bounds where a part of a profile is lost.
#[derive(Debug, Serialize)]
struct Grown<'a> {
    function: &'a str,
    path: &'a [String],
    subsystem: Option<&'static str>,
    growth_bytes: Option<i128>,
    low_bytes: Option<i128>,
    high_bytes: Option<i128>,
    before_bytes: Option<u64>,
    after_bytes: Option<u64>,
}

impl<'a> Grown<'a> {
    fn of(it: &'a Growth, is_lost: bool) -> Self {
        Self {
            function: &it.function,
            path: &it.path,
            subsystem: it.subsystem,
            growth_bytes: it.growth_bytes,
            low_bytes: (!is_lost).then_some(it.low_bytes),
            high_bytes: (!is_lost).then_some(it.high_bytes),
            before_bytes: it.before_bytes,
            after_bytes: it.after_bytes,
        }
    }
}

/// What one of the two profiles held.
struct Side {
    format: Format,
    holdings: Holdings,
    /// For each assertion, what the functions below the one that it names hold.
    asked_below: Vec<Option<AskedBelow>>,
    damage: Option<Damage>,
    /// The sentence about the damage.
    told: Option<String>,
    /// The end was asked for, or a moment of which a part is lost.
    is_lost: bool,
}

impl Side {
    /// `number`: of the snapshot, if one is asked for.
    fn of(source: &Source, number: Option<u64>, names: &Names, assertions: &[Assertion]) -> Result<Self, Failure> {
        let mut profile = Profile::open(source, names)?;
        let place = number.map_or_else(|| profile.last(), |number| profile.place_of(number))?;
        let (holdings, asked_below) = at_end(&mut profile, Some(place), assertions)?;
        Ok(Self {
            format: profile.outline.format,
            holdings,
            asked_below,
            damage: profile.outline.damage.clone(),
            told: profile.damage(),
            is_lost: profile.is_partial(place) || (number.is_none() && profile.is_end_lost()),
        })
    }
}

pub(super) fn main(args: &Args) -> Outcome {
    let sources = Source::all(&[args.before.clone(), args.after.clone()])?;
    let [first, second] = sources.as_slice() else { return Ok(()) };
    let before = Side::of(first, args.from, &args.names, &[])?;
    let after = Side::of(second, args.to, &args.names, &args.assertions)?;
    let growth = heap::growth(&before.holdings, &after.holdings);
    let verdicts = verdicts(&args.assertions, &before, &after, &growth);
    match args.output {
        Output::Json => terminal::document(&difference(&before, &after, &growth, &verdicts)),
        Output::Text => terminal::data(text(&before, &after, &growth, &verdicts, args.top).trim_end()),
    }
    assertion::outcome(&verdicts)
}

fn verdicts(assertions: &[Assertion], before: &Side, after: &Side, growth: &[Growth]) -> Vec<Verdict> {
    let known = Known { is_one_moment: false, is_start_lost: before.is_lost, is_end_lost: after.is_lost };
    let judge =
        |(it, below): (&Assertion, &Option<AskedBelow>)| it.judge(growth, below.clone(), &after.holdings, known);
    assertions.iter().zip(&after.asked_below).map(judge).collect()
}

fn difference<'a>(
    before: &'a Side,
    after: &'a Side,
    growth: &'a [Growth],
    assertions: &'a [Verdict],
) -> Difference<'a> {
    let is_lost = before.is_lost || after.is_lost;
    let at_byte = |side: &Side| side.damage.as_ref().map(|it| it.at_byte);
    Difference {
        before_format: before.format.name(),
        after_format: after.format.name(),
        before_total_bytes: before.holdings.total_bytes,
        after_total_bytes: after.holdings.total_bytes,
        before_hidden_bytes: before.holdings.hidden_bytes,
        after_hidden_bytes: after.holdings.hidden_bytes,
        before_sampled_every_bytes: before.holdings.sampled_every_bytes,
        after_sampled_every_bytes: after.holdings.sampled_every_bytes,
        growth: growth.iter().map(|it| Grown::of(it, is_lost)).collect(),
        assertions,
        notes: notes(before, after),
        before_damaged_at_byte: at_byte(before),
        after_damaged_at_byte: at_byte(after),
        before_damage: before.damage.as_ref(),
        after_damage: after.damage.as_ref(),
    }
}

fn text(before: &Side, after: &Side, growth: &[Growth], verdicts: &[Verdict], top: usize) -> String {
    let is_lost = before.is_lost || after.is_lost;
    let mut text = if is_lost { grown::unbounded(growth, top) } else { grown::table(growth, top) };
    notes(before, after).iter().for_each(|note| text += &format!("\n{note}"));
    let mut told: Vec<&String> = [before, after].into_iter().filter_map(|side| side.told.as_ref()).collect();
    told.dedup();
    for damage in told {
        text += &format!("\n{}", grown::in_line(damage));
    }
    let is_sampled = [before, after].iter().any(|side| side.holdings.sampled_every_bytes.is_some());
    text += &verdicts.iter().map(|it| judged(it, is_sampled)).collect::<String>();
    text
}

/// What a reader must know of the two profiles together.
fn notes(before: &Side, after: &Side) -> Vec<String> {
    let every = [before, after].map(|it| it.holdings.sampled_every_bytes);
    let mut notes = match every {
        [None, None] => Vec::new(),
        [Some(one), Some(other)] if one == other => vec![grown::sampled(one)],
        _ => [("before", every[0]), ("after", every[1])]
            .into_iter()
            .filter_map(|(side, every)| Some(format!("{side}: {}", grown::sampled(every?))))
            .collect(),
    };
    notes.extend(counts_differently(before.format, after.format));
    notes
}

/// What is one size in the one format, and another in the other.
fn counts_differently(before: Format, after: Format) -> Option<String> {
    let of = |it: Format| (before == it) != (after == it);
    let other = |it: Format| if before == it { after.name() } else { before.name() };
    let rounded = of(Format::Jemalloc).then(|| {
        let other = other(Format::Jemalloc);
        format!("jemalloc counts what it handed out, and {other} what was asked for: 1000 bytes are 1024 for jemalloc")
    });
    let aligned = of(Format::Heaptrack).then(|| {
        let other = other(Format::Heaptrack);
        format!("heaptrack 1.4 does not count what was asked of memalign, and {other} does")
    });
    let all: Vec<String> = rounded.into_iter().chain(aligned).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_that_count_differently_are_told() {
        let told = |before, after| counts_differently(before, after).unwrap_or_default();
        assert_eq!(told(Format::Jemalloc, Format::Jemalloc), "");
        assert_eq!(told(Format::Massif, Format::Gperftools), "");
        assert!(told(Format::Gperftools, Format::Jemalloc).contains("and gperftools what was asked for"));
        let both = told(Format::Jemalloc, Format::Heaptrack);
        assert!(both.contains("and heaptrack what was asked for") && both.contains("and jemalloc does"), "{both}");
    }
}
