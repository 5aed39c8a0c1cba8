// SPDX-License-Identifier: Apache-2.0
//! `wringer hugepages`: how many huge pages a server needs, whether it has them, and a pool that is large enough.

mod advise;
mod apply;
mod check;
mod named;
mod release;

use crate::exit::Outcome;
use clap::Subcommand;

#[derive(Debug, clap::Args)]
#[command(after_help = "From nothing to a server in huge pages:\n  \
    wringer hugepages advise --sandbox shop                how many, and what page tables cost without them\n  \
    sudo wringer hugepages apply --sandbox shop --dry-run  what would be changed, and its undo\n  \
    sudo wringer hugepages apply --sandbox shop            the pool grows by so many pages, until the release\n  \
    wringer sandbox start shop --huge-pages on             (your own server: huge_pages = on, large_pages = ON, and a restart)\n  \
    wringer hugepages check --sandbox shop                 exit code 1: it wants huge pages, and does not have them\n  \
    sudo wringer hugepages release\n\n\
    A server takes its pages from the kernel's pool when it starts. PostgreSQL with huge_pages = on does not start with one page too few; with `try`, and \
    MariaDB and MySQL always, it then does without. Each process has page tables of its own: 8 bytes for each 4 KiB page that it has touched, of a huge page \
    8 bytes for 2 MiB.\n\n\
    The pool beyond a reboot: `advise` prints the lines. More: docs/hugepages.md, or `wringer doc hugepages`.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// How many huge pages a server needs, what its page tables cost without them, and the lines that give it them; changes nothing
    Advise(advise::Args),
    /// Whether a server's memory lies in huge pages, by its mappings; exit code 1 when it should and does not, or when a limit will kill it
    Check(check::Args),
    /// Make the pool larger for a server, until the release
    Apply(apply::Args),
    /// Give back what `apply` has taken
    Release(release::Args),
}

pub fn main(args: Args) -> Outcome {
    match args.command {
        Command::Advise(args) => advise::main(&args),
        Command::Check(args) => check::main(&args),
        Command::Apply(args) => apply::main(args),
        Command::Release(args) => release::main(&args),
    }
}
