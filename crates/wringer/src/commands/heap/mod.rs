// SPDX-License-Identifier: Apache-2.0
//! `wringer heap`: reads heap profiles that were written.

mod assertion;
mod diff;
pub(in crate::commands) mod grown;
mod order;
mod profile;
mod report;
mod show;
mod shown;
mod source;
mod text;

use crate::exit::Outcome;

/// Heap profiles: which functions held the heap, and which of them grew; changes nothing
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer heap show massif.out.4711\n  \
    wringer heap show massif.out.4711 -o ms_print\n  \
    wringer heap show massif.out.4711 -o folded | flamegraph.pl --countname bytes > heap.svg\n  \
    wringer heap show massif.out.4711 --assert 'growth<1M' --assert 'Log_event::read_log_event<4M'\n  \
    wringer heap diff before/massif.out.1 after/massif.out.1\n  \
    ssh db1 cat /tmp/massif.out.4711 | wringer heap show -\n  \
    wringer heap report heaptrack.mariadbd.4711.zst --to heap.html\n\n\
    What the columns mean, and what a profile cannot show: docs/heap.md, or `wringer doc heap`.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Show(show::Args),
    Diff(diff::Args),
    Report(report::Args),
}

pub fn main(args: &Args) -> Outcome {
    match &args.command {
        Command::Show(args) => show::main(args),
        Command::Diff(args) => diff::main(args),
        Command::Report(args) => report::main(args),
    }
}
