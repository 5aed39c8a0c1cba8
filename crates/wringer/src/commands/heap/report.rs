// SPDX-License-Identifier: Apache-2.0
//! `wringer heap report`: profiles as one page.

use super::assertion::{self, Assertion, Verdict};
use super::grown::in_line;
use super::order;
use super::profile::{Names, Profile};
use super::shown::shown;
use super::source::{Source, is_read_once};
use super::text::judged;
use crate::exit::{Exit, Failure, Outcome};
use crate::{output_file, terminal};
use heap::{Holdings, flame};
use report::{HeapPage, HeapProfile, HeapTimes};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use units::Bytes;

/// Boxes of a flame graph with less than one part in this number of all bytes are left out: they would be too thin to see.
const SMALLEST: u64 = 1000;
/// The most snapshots in the layers of the chart; of more snapshots, evenly spaced ones are used.
const MOST_TREES: usize = 100;

/// One HTML page that opens offline: the heap over time in layers, a flame graph, which functions grew
///
/// FILEs are the same as for `wringer heap show`. Files of one moment each (gperftools, jemalloc) make one profile; each file of another format has its own
/// part of the page.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    # write massif.out.4711.html\n  \
    wringer heap report massif.out.4711\n  \
    wringer heap report heaptrack.mariadbd.4711.zst --to heap.html\n  \
    wringer heap report /tmp/profile.*.heap --to heap.html\n  \
    wringer heap report massif.out.4711 --assert 'growth<1M'\n\n\
    Exit codes: 0 done, and each assertion holds; 1 an assertion does not hold; 3 a file is not a profile, or it cannot be told whether an assertion \
    holds, as for `wringer heap show`. The page is written all the same.")]
pub struct Args {
    /// The profiles; files of one moment each (gperftools, jemalloc) make one profile
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Where to write; `-` is standard output [default: the name of the first FILE, followed by .html; a pipe has none]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// An assertion, as for `wringer heap show`: growth<1M for the growth of every function, FUNCTION<4M for the bytes of one function at the end. Each
    /// profile of the page must keep it
    #[arg(long = "assert", value_name = "ASSERTION")]
    assertions: Vec<Assertion>,
    #[command(flatten)]
    names: Names,
}

pub(super) fn main(args: &Args) -> Outcome {
    if args.to.is_none() && args.files.first().is_some_and(|it| is_read_once(it)) {
        return Err(Failure::message(
            Exit::Usage,
            "the name of the page is made of the profile's name, and a pipe has none",
        )
        .hint("give the page a name: --to heap.html"));
    }
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let mut page = HeapPage { version, profiles: Vec::new() };
    let (mut verdicts, mut told) = (Vec::new(), Vec::new());
    for profile in &mut profiles(args)? {
        let (mut part, of_profile) = (part(profile)?, verdicts_of(profile, &args.assertions)?);
        let is_sampled = profile.outline.sampled_every_bytes.is_some();
        let lines: Vec<String> = of_profile.iter().map(|it| judged(it, is_sampled).trim_start().to_owned()).collect();
        told.extend(lines.iter().map(|line| format!("{}: {line}", in_line(&part.name))));
        part.notes.extend(lines);
        verdicts.extend(of_profile);
        page.profiles.push(part);
    }
    write(&page, args)?;
    told.iter().for_each(terminal::say);
    assertion::outcome(&verdicts)
}

fn write(page: &HeapPage, args: &Args) -> Outcome {
    let target = args.to.clone().or_else(|| args.files.first().map(|it| with_html(it)));
    let Some(target) = target.filter(|it| it.as_os_str() != "-") else {
        return terminal::stream(|mut output| report::write_heap_html(page, &mut output)).map_err(Failure::from);
    };
    let mut html = Vec::new();
    report::write_heap_html(page, &mut html)?;
    output_file::write(&target, &html, &args.files)
}

/// As `wringer heap show` judges the profile alone. Nothing is read where nothing is asserted.
fn verdicts_of(profile: &mut Profile, assertions: &[Assertion]) -> Result<Vec<Verdict>, Failure> {
    if assertions.is_empty() {
        return Ok(Vec::new());
    }
    Ok(shown(profile, None, None, assertions)?.assertions)
}

fn with_html(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".html");
    name.into()
}

/// The files of one moment as one profile, and each other file as a profile of its own.
fn profiles(args: &Args) -> Result<Vec<Profile>, Failure> {
    let mut files = Source::all(&args.files)?;
    files.sort_by_cached_key(|source| order::by_numbers(source.path()));
    let (mut profiles, mut moments) = (Vec::new(), Vec::new());
    for file in files {
        let profile = Profile::open(&file, &args.names)?;
        if profile.outline.format.is_one_moment() {
            moments.push(file);
        } else {
            profiles.push(profile);
        }
    }
    if !moments.is_empty() {
        profiles.push(Profile::open_all(&moments, &args.names)?);
    }
    Ok(profiles)
}

fn part(profile: &mut Profile) -> Result<HeapProfile, Failure> {
    let outline = profile.outline.clone();
    let with_trees: Vec<usize> = outline.with_trees().collect();
    // the last snapshot, and snapshots before it at equal distances; always the first one, from which growth counts, and the largest heap, which tells most
    let every = with_trees.len().div_ceil(MOST_TREES).max(1);
    let bytes = |place: &usize| outline.snapshots.get(*place).map_or(0, |it| it.heap_bytes);
    let largest = with_trees.iter().copied().max_by_key(bytes);
    let spread = with_trees.iter().rev().step_by(every).copied();
    let places: BTreeSet<usize> = spread.chain(with_trees.first().copied()).chain(largest).collect();
    let places: Vec<usize> = places.into_iter().collect();
    let at = |it: &heap::Snapshot| if outline.time_unit.is_some() { it.time } else { it.number };
    let (mut held, mut flames, mut flames_of) = (Vec::new(), Vec::new(), 0);
    profile.each_tree(&places, &mut |place, tree| {
        let holdings = Holdings::of(&tree);
        if Some(place) == largest {
            flames = flame::flames(&tree, holdings.total_bytes / SMALLEST);
            flames_of = at(&tree.snapshot);
        }
        held.push(HeapTimes { at: at(&tree.snapshot), holdings });
    })?;
    let growth = match (held.first(), held.last()) {
        (Some(first), Some(last)) if held.len() > 1 => heap::growth(&first.holdings, &last.holdings),
        (Some(only), _) => heap::growth(&Holdings::default(), &only.holdings),
        _ => Vec::new(),
    };
    let total = |it: &heap::Snapshot| it.total_bytes().unwrap_or(u64::MAX);
    Ok(HeapProfile {
        name: profile.name(),
        format: outline.format.name(),
        command: profile.command(),
        time_unit: outline.time_unit,
        totals: outline.snapshots.iter().map(|it| (at(it), total(it))).collect(),
        held,
        growth,
        flames,
        flames_of: HeapProfile::time_of(outline.time_unit, flames_of),
        notes: notes(profile),
    })
}

fn notes(profile: &Profile) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(profile.damage());
    if let Some(every) = profile.outline.sampled_every_bytes {
        notes.push(format!(
            "The profiler looked at one allocation for {} on the average: each size is an estimate.",
            Bytes(every)
        ));
    }
    if profile.outline.format == heap::Format::Dhat {
        let what = "DHAT tells two moments: when the heap was largest, and the end. How it came there is not known: the lines between are drawn straight.";
        notes.push(what.to_owned());
    }
    let (named, unnamed) = profile.symbols.counts();
    if unnamed > 0 {
        let missing = profile.symbols.missing();
        let most = missing.first().map_or_else(String::new, |it| format!(" Most are in {}: {}.", it.path, it.why));
        notes.push(format!("{unnamed} of {} addresses have no name.{most}", named + unnamed));
    }
    notes
}
