// SPDX-License-Identifier: Apache-2.0
//! The result of `wringer heap show`: the shape of `-o json`.

use super::assertion::{Assertion, Known, Verdict};
use super::profile::Profile;
use crate::exit::{Exit, Failure};
use heap::{AskedBelow, Damage, Growth, Held, Holdings, Kind, PartHeld, Snapshot, TimeUnit};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Debug, Serialize)]
pub(super) struct Shown {
    pub(super) format: &'static str,
    pub(super) command: Option<String>,
    pub(super) time_unit: Option<TimeUnit>,
    pub(super) snapshots: Vec<SnapshotShown>,
    pub(super) from: Option<u64>,
    pub(super) to: Option<u64>,
    pub(super) growth: Vec<Growth>,
    pub(super) functions: Vec<Held>,
    pub(super) subsystems: Vec<PartHeld>,
    pub(super) hidden_bytes: u64,
    pub(super) total_bytes: u64,
    pub(super) sampled_every_bytes: Option<u64>,
    pub(super) symbols: Option<SymbolsShown>,
    /// The reasons why fields are `null`.
    pub(super) not_told: BTreeMap<&'static str, &'static str>,
    pub(super) assertions: Vec<Verdict>,
    pub(super) damaged_at_byte: Option<u64>,
    pub(super) damaged_file: Option<String>,
    pub(super) damage: Option<Damage>,
}

#[derive(Debug, Serialize)]
pub(super) struct SnapshotShown {
    number: u64,
    kind: Kind,
    time: Option<u64>,
    heap_bytes: u64,
    extra_bytes: Option<u64>,
    stacks_bytes: Option<u64>,
    /// The file of the snapshot, if the profile is a series of files.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

/// How many addresses have names, for formats that hold addresses.
#[derive(Debug, Serialize)]
pub(super) struct SymbolsShown {
    pub(super) named_addresses: u64,
    pub(super) unnamed_addresses: u64,
    pub(super) missing: Vec<MissingShown>,
}

#[derive(Debug, Serialize)]
pub(super) struct MissingShown {
    pub(super) file: String,
    pub(super) why: String,
    pub(super) addresses: u64,
}

/// `from`, `to`: the numbers of the snapshots that are asked for, if any are.
pub(super) fn shown(
    profile: &mut Profile,
    from: Option<u64>,
    to: Option<u64>,
    assertions: &[Assertion],
) -> Result<Shown, Failure> {
    // a profile without any tree still has its sizes over time
    let has_trees = profile.outline.with_trees().next().is_some() || !assertions.is_empty();
    let is_end_lost = to.is_none() && profile.is_end_lost();
    let place = |number: Option<u64>, default: Option<usize>| match number {
        Some(number) => profile.place_of(number).map(Some),
        None => Ok(default),
    };
    let first = place(from, profile.outline.with_trees().next())?;
    let last = place(to, if has_trees { Some(profile.last()?) } else { None })?;
    if let (Some(from), Some(to)) = (from, to)
        && first > last
    {
        let what = format!("growth counts from snapshot {from} to snapshot {to}, which is the earlier one");
        return Err(Failure::message(Exit::Usage, what).hint(format!("--from {to} --to {from}")));
    }
    let (from, to) = (first, last);
    let before = from.map_or_else(|| Ok(Holdings::default()), |it| profile.holdings(it))?;
    let (after, asked_below) = at_end(profile, to, assertions)?;
    let is_partial = |place: Option<usize>| place.is_some_and(|it| profile.is_partial(it));
    let known = Known {
        is_one_moment: from == to,
        is_start_lost: is_partial(from),
        is_end_lost: is_end_lost || is_partial(to),
    };
    let growth = heap::growth(&before, &after);
    let judge = |(it, below): (&Assertion, Option<AskedBelow>)| it.judge(&growth, below, &after, known);
    let judged: Vec<Verdict> = assertions.iter().zip(asked_below).map(judge).collect();
    let outline = &profile.outline;
    let lacks = |field: &str| outline.format.lacks().iter().any(|(lacking, _)| *lacking == field);
    let snapshot_shown = |(place, it): (usize, &Snapshot)| SnapshotShown {
        number: it.number,
        kind: it.kind,
        time: (!lacks("time")).then_some(it.time),
        heap_bytes: it.heap_bytes,
        extra_bytes: (!lacks("extra_bytes")).then_some(it.extra_bytes),
        stacks_bytes: (!lacks("stacks_bytes")).then_some(it.stacks_bytes),
        file: profile.file_of(place),
    };
    let number = |place: Option<usize>| place.and_then(|it| Some(outline.snapshots.get(it)?.number));
    let has_addresses = outline.format.is_one_moment();
    let mut not_told: BTreeMap<_, _> = outline.format.lacks().iter().copied().collect();
    if lacks("time") {
        not_told.insert("time_unit", "a file of this format does not say its time");
    }
    if outline.sampled_every_bytes.is_none() {
        not_told.insert("sampled_every_bytes", "the profiler looked at each allocation");
    }
    if !has_addresses {
        not_told.insert("symbols", "the profiler has written the names of functions itself");
    }
    Ok(Shown {
        format: outline.format.name(),
        command: profile.command(),
        time_unit: outline.time_unit,
        snapshots: outline.snapshots.iter().enumerate().map(snapshot_shown).collect(),
        from: number(from),
        to: number(to),
        assertions: judged,
        growth,
        subsystems: after.subsystems(),
        hidden_bytes: after.hidden_bytes,
        total_bytes: after.total_bytes,
        functions: after.functions,
        sampled_every_bytes: outline.sampled_every_bytes,
        symbols: has_addresses.then(|| symbols_shown(profile)),
        not_told,
        damaged_at_byte: outline.damage.as_ref().map(|it| it.at_byte),
        damaged_file: profile.damaged_file(),
        damage: outline.damage.clone(),
    })
}

/// What the functions hold; and for each assertion, what the functions below the one that it names hold.
pub(super) fn at_end(
    profile: &mut Profile,
    place: Option<usize>,
    assertions: &[Assertion],
) -> Result<(Holdings, Vec<Option<AskedBelow>>), Failure> {
    let Some(place) = place else { return Ok((Holdings::default(), Vec::new())) };
    let tree = profile.tree(place)?;
    Ok((Holdings::of(&tree), assertions.iter().map(|it| it.asked_below(&tree)).collect()))
}

fn symbols_shown(profile: &Profile) -> SymbolsShown {
    let (named_addresses, unnamed_addresses) = profile.symbols.counts();
    let missing = profile.symbols.missing().into_iter();
    let missing = missing.map(|it| MissingShown { file: it.path, why: it.why, addresses: it.addresses }).collect();
    SymbolsShown { named_addresses, unnamed_addresses, missing }
}
