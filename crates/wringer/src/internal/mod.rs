// SPDX-License-Identifier: Apache-2.0
//! Processes that Wringer starts for itself by executing its own binary: hidden from `--help`, not for people.

use crate::exit::Outcome;
use clap::Subcommand;

pub use supervise::{Order, Squeeze, told_to_the_command};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    Watchdog(watchdog::Args),
    Launch(launch::Args),
    Supervise(supervise::Args),
    Holder(holder::Args),
    Balloon(balloon::Args),
    Slowfs(slowfs::Args),
    Slowdisk(slowdisk::Args),
    Preload(preload::Args),
    Probe(probe::Args),
    Manual(manual::Args),
    MayMount,
}

pub fn main(args: Args) -> Outcome {
    match args.role {
        Role::Watchdog(args) => watchdog::main(args),
        Role::Launch(args) => launch::main(args),
        Role::Supervise(args) => supervise::main(args),
        Role::Holder(args) => holder::main(args),
        Role::Balloon(args) => balloon::main(args),
        Role::Slowfs(args) => slowfs::main(args),
        Role::Slowdisk(args) => slowdisk::main(args),
        Role::Preload(args) => preload::main(args),
        Role::Probe(args) => probe::main(args),
        Role::Manual(args) => manual::main(args),
        Role::MayMount => may_mount::main(),
    }
}

mod balloon;
pub mod handover;
mod holder;
mod launch;
mod manual;
mod may_mount;
mod preload;
mod probe;
mod slowdisk;
mod slowfs;
mod supervise;
mod watchdog;
