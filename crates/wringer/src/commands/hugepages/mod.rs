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
    # print how many huge pages it needs\n  \
    wringer hugepages advise --sandbox shop\n  \
    # print the change and its undo; change nothing (279: the number that `advise` printed)\n  \
    sudo wringer hugepages apply --pages 279 --dry-run\n  \
    # make the pool larger by as many pages as are missing, until the release\n  \
    sudo wringer hugepages apply --pages 279\n  \
    # your own server: set huge_pages or large_pages, and restart it\n  \
    wringer sandbox restart shop --huge-pages on\n  \
    # exit code 1 when the server should have huge pages and has none\n  \
    wringer hugepages check --sandbox shop\n  \
    sudo wringer hugepages release\n\n\
    A server takes its pages from the kernel's pool when it starts. If one page is missing, PostgreSQL with huge_pages = on does not start; PostgreSQL \
    with `try`, MariaDB and MySQL start without huge pages. Each process has page tables of its own: 8 bytes for each 4 KiB page that it has touched; with huge \
    pages, 8 bytes for each 2 MiB.\n\n\
    `advise` prints the lines that make the pool last beyond a reboot. More: docs/hugepages.md, or `wringer doc hugepages`.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// How many huge pages a server needs, what its page tables cost without them, and the lines that provide the pages; changes nothing
    Advise(advise::Args),
    /// Whether a server's memory lies in huge pages, by its mappings; exit code 1 when it should lie there and does not, or when a limit will kill the server
    Check(check::Args),
    /// Make the pool larger for a server, until the release
    Apply(apply::Args),
    /// Give back the pages that `apply` has taken
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
