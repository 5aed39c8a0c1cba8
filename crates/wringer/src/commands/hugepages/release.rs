// SPDX-License-Identifier: Apache-2.0
//! `wringer hugepages release`: gives back the pages that `apply` has taken.

use crate::commands::hidden;
use crate::commands::standing::{self, Output};
use crate::exit::Outcome;
use crate::terminal;
use host::places::Places;
use squeeze::Meminfo;
use units::counted;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "After it the pool is as large as before `apply`. A server keeps the pages that it uses until it ends; then they are free memory."
)]
pub(super) struct Args {
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub(super) fn main(args: &Args) -> Outcome {
    let places = Places::from_environment();
    let look = run::Look::take(&places)?;
    let ours = hidden::huge_pages_for_servers(&look.runs);
    if ours.is_empty() {
        standing::refuse_hot(&places, &look)?;
        terminal::say("no huge pages stand by `wringer hugepages apply`");
    }
    standing::release(&places, &ours, args.output)?;
    let surplus = Meminfo::now()?.huge_surplus_pages;
    if surplus > 0 && !ours.is_empty() {
        terminal::say(format_args!(
            "still used by servers: {}; each is free as soon as its server ends",
            counted(surplus, "huge page")
        ));
    }
    Ok(())
}
