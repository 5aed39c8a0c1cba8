// SPDX-License-Identifier: Apache-2.0
//! `wringer heap diff`: two profiles.

use super::grown;
use super::profile::{Names, Profile};
use crate::exit::Outcome;
use crate::terminal::{self, Output};
use heap::Growth;
use serde::Serialize;
use std::path::PathBuf;

/// Compare the bytes that functions held in one profile and in another; functions are found by their names, so that addresses may differ
///
/// In each file, the last snapshot that has a tree is used, or the snapshot that is named.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer heap diff before/massif.out.1 after/massif.out.1\n  \
    wringer heap diff massif.out.1 massif.out.1 --from 3 --to 48")]
pub struct Args {
    /// The profile from before
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
    #[command(flatten)]
    names: Names,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Serialize)]
struct Difference {
    before_total_bytes: u64,
    after_total_bytes: u64,
    before_hidden_bytes: u64,
    after_hidden_bytes: u64,
    growth: Vec<Growth>,
}

pub(super) fn main(args: &Args) -> Outcome {
    let profile = |path, number: Option<u64>| {
        let mut profile = Profile::open(path, &args.names)?;
        let place = number.map_or_else(|| profile.last(), |number| profile.place_of(number))?;
        profile.holdings(place)
    };
    let (before, after) = (profile(&args.before, args.from)?, profile(&args.after, args.to)?);
    let found = Difference {
        before_total_bytes: before.total_bytes,
        after_total_bytes: after.total_bytes,
        before_hidden_bytes: before.hidden_bytes,
        after_hidden_bytes: after.hidden_bytes,
        growth: heap::growth(&before, &after),
    };
    match args.output {
        Output::Json => terminal::document(&found),
        Output::Text => terminal::data(grown::table(&found.growth, args.top).trim_end()),
    }
    Ok(())
}
