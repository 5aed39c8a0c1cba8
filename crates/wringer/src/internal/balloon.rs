// SPDX-License-Identifier: Apache-2.0
//! `wringer internal balloon`: touches memory of its own until it is ended.

use crate::exit::Outcome;
use squeeze::ram::balloon::{Options, run};
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(long)]
    bytes: u64,
    /// How long touching may take
    #[arg(long, default_value_t = 60_000)]
    deadline_ms: u64,
    /// What is available stays above it
    #[arg(long)]
    floor_bytes: u64,
    /// What its own must be
    #[arg(long, default_value_t = 1000, allow_negative_numbers = true)]
    oom_score_adj: i32,
}

pub fn main(args: Args) -> Outcome {
    let Args { bytes, deadline_ms, floor_bytes, oom_score_adj } = args;
    Ok(run(&Options { bytes, deadline: Duration::from_millis(deadline_ms), floor_bytes, oom_score_adj })?)
}
