// SPDX-License-Identifier: Apache-2.0
//! `wringer connections`: how many connections each account has and may have, and limits that keep one account from taking the connections of all others.

mod apply;
mod audit;
mod looks;
mod plan;
pub mod table;

use crate::exit::Outcome;
use clap::Subcommand;

/// Limits of connections: the limits that there are, the accounts that come near them, and limits that keep one account from taking all connections
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer connections audit --mysql-socket=/run/mysqld/mysqld.sock --mysql-user=me --for 5m\n  \
    wringer connections audit --pgsql-host=/run/postgresql --pgsql-user=me --pgsql-db=postgres \\\n    -o json | jq .overbooking\n  \
    wringer connections audit --sandbox shop --error 1226\n  \
    wringer connections plan --sandbox shop --for 5m --limit batch@%=10\n  \
    wringer connections plan --sandbox shop --for 5m --apply\n\n\
    `audit` and `plan` without --apply change nothing. What each limit counts: docs/connections.md, or `wringer doc connections`.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Limits, use now and sampled peak of server, accounts, databases and pgBouncer; for an error, the limit that was hit
    Audit(audit::Args),
    /// A limit for each account, from the connections that it was seen to need: the statements that set it, and those that restore the old limits
    Plan(plan::Args),
}

pub fn main(args: Args) -> Outcome {
    match args.command {
        Command::Audit(args) => audit::main(&args),
        Command::Plan(args) => plan::main(&args),
    }
}

/// A name within a line.
fn in_line(name: &str) -> String {
    name.replace(char::is_control, "\u{fffd}")
}
