// SPDX-License-Identifier: Apache-2.0
//! `wringer internal holder`: holds huge pages until it is ended.

use crate::exit::Outcome;
use squeeze::ram::holder::{Options, run};
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many pages of the default huge page size
    #[arg(long)]
    pages: u64,
    #[arg(long)]
    page_bytes: u64,
    /// How long reserving may take
    #[arg(long, default_value_t = 60_000)]
    deadline_ms: u64,
    /// MemAvailable at which reserving stops
    #[arg(long)]
    floor_bytes: u64,
    /// What its own must be
    #[arg(long, default_value_t = 1000, allow_negative_numbers = true)]
    oom_score_adj: i32,
}

pub fn main(args: Args) -> Outcome {
    let Args { pages, page_bytes, deadline_ms, floor_bytes, oom_score_adj } = args;
    let deadline = Duration::from_millis(deadline_ms);
    Ok(run(&Options { pages, page_bytes, deadline, floor_bytes, oom_score_adj })?)
}
