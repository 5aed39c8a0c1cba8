// SPDX-License-Identifier: Apache-2.0
//! Starts one server in its namespace, cgroups and identity, and stays its parent.

use crate::exit::{Exit, Failure, Outcome};
use host::process::{LaunchSettings, launch};
use std::ffi::OsString;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// How to start it, in JSON
    #[arg(long)]
    settings: String,
    /// The server's program and arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub fn main(args: Args) -> Outcome {
    let settings = LaunchSettings::from_argument(&args.settings).map_err(|error| Failure::new(Exit::Usage, error))?;
    let (program, arguments) = args.command.split_first().ok_or_else(|| Failure::message(Exit::Usage, "no command"))?;
    let status = match launch(&settings, program, arguments) {
        // The controller has its answer, and standard error is this process's own.
        Err(_) if settings.foreground => Exit::Failed as i32,
        other => other?,
    };
    std::process::exit(status)
}
