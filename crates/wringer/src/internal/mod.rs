// SPDX-License-Identifier: Apache-2.0
//! Processes that Wringer starts for itself by executing its own binary: hidden from `--help`, not for people. Each reads its order,
//! which has its own type, from its standard input.

use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use clap::Subcommand;
use host::process::{LaunchSettings, Order, launch};
use squeeze::{probe, ram};

pub use standing_order::{StandingSqueeze, Supervise, Supervised, told_to_the_command};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Releases a run when its controller dies
    Watchdog,
    /// Starts one server in its namespace, cgroups and identity, and stays its parent
    Launch,
    /// Controls a standing squeeze
    Supervise,
    /// Holds huge pages until it is ended
    Holder,
    /// Touches memory of its own until it is ended
    Balloon,
    /// The slow layer over one directory
    Slowfs,
    /// Serves one image as the file below a loop device
    Slowdisk,
    /// Keeps the memory of one preload layer
    Preload,
    /// Direct reads of one file, by a process in the server's mount namespace
    Probe,
    /// Random reads and scans of one file, by a process in the server's memory cgroup
    Reads,
    Manual(manual::Args),
    /// Tries to mount the slow layer in a new mount namespace, and prints the missing right, or `null`
    MayMount,
}

pub fn main(args: Args) -> Outcome {
    match args.role {
        Role::Watchdog => watchdog::main(order()?),
        Role::Launch => launched(&order()?),
        Role::Supervise => supervise::main(order()?),
        Role::Holder => Ok(ram::holder::run(&order()?)?),
        Role::Balloon => Ok(ram::balloon::run(&order()?)?),
        Role::Slowfs => slow::directory(&order()?),
        Role::Slowdisk => slow::disk(&order()?),
        Role::Preload => slow::preload(&order()?),
        Role::Probe => Ok(probe::serve(&order()?)?),
        Role::Reads => Ok(::probe::reads::serve(&order()?)?),
        Role::Manual(args) => manual::main(args),
        Role::MayMount => {
            terminal::data(serde_json::to_string(&slowfs::mount_rights::missing_right())?);
            Ok(())
        }
    }
}

fn order<O: Order>() -> Result<O, Failure> {
    host::process::order().map_err(|error| Failure::new(Exit::Usage, error))
}

fn launched(settings: &LaunchSettings) -> Outcome {
    let status = match launch(settings) {
        // The controller has its answer, and standard error is this process's own.
        Err(_) if settings.foreground => Exit::Failed as i32,
        other => other?,
    };
    std::process::exit(status)
}

mod manual;
mod slow;
mod standing_order;
mod supervise;
mod watchdog;
