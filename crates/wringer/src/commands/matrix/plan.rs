// SPDX-License-Identifier: Apache-2.0
//! `wringer matrix plan`.

use super::ready::Ready;
use super::show::{rows, time};
use super::{PlanArgs, failure, folder};
use crate::commands::experiment_file::read_text;
use crate::exit::Outcome;
use crate::terminal::{self, Output};
use host::places::Places;
use lab::KeptFills;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use sweep::CellState;
use units::{Bytes, counted};

/// The most settings that are listed; the others are only counted, and `-o json` has all.
const MOST_SHOWN: usize = 60;

/// The part of the plan that is done already.
struct Done {
    folder: String,
    /// Cells with a result.
    cells: BTreeSet<String>,
    /// Results of settings that the file no longer has.
    others: usize,
}

pub(super) fn main(args: PlanArgs) -> Outcome {
    let text = read_text(&args.file)?;
    let ready = Ready::look(&args.file, &text, &args.require, KeptFills::Use)?;
    let places = Places::from_environment();
    let done = done(&folder(args.to.as_deref(), &ready.plan.name, &places), &ready)?;
    match args.output {
        Output::Json => terminal::json(&document(&ready, &done)),
        Output::Text => terminal::data(as_text(&ready, &done).trim_end()),
    }
    Ok(())
}

fn done(folder: &Path, ready: &Ready) -> Result<Done, crate::exit::Failure> {
    let state = sweep::read_for(folder, &ready.plan.name).map_err(failure)?.unwrap_or_default();
    let planned: BTreeSet<String> = cells(ready).into_iter().flatten().collect();
    let done = state.cells.into_iter().filter(|cell| cell.state == CellState::Done).map(|cell| cell.id);
    let (cells, others): (BTreeSet<String>, BTreeSet<String>) = done.partition(|id| planned.contains(id));
    Ok(Done { folder: folder.display().to_string(), cells, others: others.len() })
}

/// The ids of the cells, block by block.
fn cells(ready: &Ready) -> Vec<Vec<String>> {
    let ids: Vec<&str> = ready.plan.settings.iter().map(|setting| setting.id.as_str()).collect();
    let blocks = ::matrix::order(&ids, ready.plan.blocks, ready.plan.seed);
    let of =
        |(number, block): (u32, Vec<usize>)| block.iter().map(|place| format!("{}-{number}", ids[*place])).collect();
    (1..).zip(blocks).map(of).collect()
}

/// The sum of the estimates of all cells. The time that clones save is not subtracted.
fn seconds(ready: &Ready) -> f64 {
    ready.plans.iter().map(|plan| plan.seconds).sum::<f64>() * f64::from(ready.plan.blocks)
}

/// The same for the cells that have no result yet.
fn seconds_left(ready: &Ready, done: &Done) -> f64 {
    let of = |(setting, plan): (&sweep::Planned, &experiment::Plan)| {
        let blocks = 1..=ready.plan.blocks;
        let left = blocks.filter(|number| !done.cells.contains(&format!("{}-{number}", setting.id))).count();
        plan.seconds * left as f64
    };
    ready.plan.settings.iter().zip(&ready.plans).map(of).sum()
}

fn document(ready: &Ready, done: &Done) -> Value {
    let settings: Vec<Value> = ready
        .plan
        .settings
        .iter()
        .zip(&ready.plans)
        .map(|(setting, plan)| {
            json!({
                "id": setting.id,
                "settings": setting.values,
                "seconds": plan.seconds,
                "disk_bytes": plan.disk_bytes,
                "ram_bytes": plan.ram_bytes,
                "left_out": plan.left_out,
                "doubts": plan.doubts,
                "not_asked": plan.not_asked,
            })
        })
        .collect();
    json!({
        "schema": 1,
        "name": ready.plan.name,
        "keys": ready.plan.keys,
        "blocks": ready.plan.blocks,
        "seed": ready.plan.seed,
        "excluded": ready.matrix.excluded,
        "settings": settings,
        "order": cells(ready),
        "cells": ready.matrix.cells(),
        "done": done.cells.len(),
        "folder": done.folder,
        "seconds": seconds(ready),
        "seconds_left": seconds_left(ready, done),
        "budget": ready.plan.budget,
    })
}

fn as_text(ready: &Ready, done: &Done) -> String {
    let (settings, blocks, all) = (ready.plan.settings.len(), ready.plan.blocks, ready.matrix.cells());
    let mut out = format!("{}: {settings} settings x {blocks} blocks = {all} cells", ready.plan.name);
    if ready.matrix.excluded > 0 {
        let excluded = counted(ready.matrix.excluded as u64, "setting");
        let _ = write!(out, "; {excluded} left out by the rules of the file");
    }
    #[allow(clippy::cast_possible_truncation)] // an estimate of days at most
    let us = (seconds_left(ready, done) * 1e6).max(0.0) as u64;
    let disk = ready.plan.settings.iter().map(|setting| setting.disk_bytes).max().unwrap_or_default();
    let what = if done.cells.is_empty() { "all cells" } else { "the cells that are left" };
    let _ = writeln!(
        out,
        "\nabout {} for {what}; waiting for a quiet host, and second attempts of disturbed cells, come on top\nthe cell that runs needs up to {} of disk",
        time(us),
        Bytes(disk)
    );
    let _ = match (done.cells.len(), done.others) {
        (0, 0) => writeln!(out, "none is done; results go to {}\n", done.folder),
        (count, 0) => writeln!(out, "{count} are done, in {}\n", done.folder),
        (count, others) => {
            writeln!(
                out,
                "{count} are done, in {}, beside {others} of settings that the file no longer has, or whose files or server changed\n",
                done.folder
            )
        }
    };
    let keys = &ready.plan.keys;
    let mut table = vec![[vec!["setting".to_owned()], keys.clone()].concat()];
    for setting in ready.plan.settings.iter().take(MOST_SHOWN) {
        let values = keys.iter().map(|key| setting.values.get(key).cloned().unwrap_or_default());
        table.push([setting.id.clone()].into_iter().chain(values).collect());
    }
    out.push_str(&rows(&table));
    if let Some(more @ 1..) = settings.checked_sub(MOST_SHOWN) {
        let _ = writeln!(out, "and {more} more; -o json has all");
    }
    let _ = writeln!(
        out,
        "\nEach block runs all settings once, in an order of its own (seed {}); each cell starts a server anew on a clone of its data.",
        ready.plan.seed
    );
    if blocks < 3 {
        let _ = writeln!(out, "Fewer than three blocks: there will be no verdict between settings.");
    }
    for left_out in ready.left_out() {
        let _ =
            write!(out, "\nleft out: {}\n     why: {}\n instead: {}\n", left_out.what, left_out.why, left_out.instead);
    }
    for doubt in ready.doubts() {
        let _ = writeln!(out, "\n   doubt: line {}: {}", doubt.line, doubt.message);
    }
    for unseen in &ready.unseen {
        let _ = writeln!(out, "\n   doubt: {unseen}");
    }
    let mut not_asked: Vec<&String> = ready.plans.iter().flat_map(|plan| &plan.not_asked).collect();
    not_asked.sort();
    not_asked.dedup();
    not_asked.iter().for_each(|what| {
        let _ = writeln!(out, "\nnot asked: {what}");
    });
    out
}
