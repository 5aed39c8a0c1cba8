// SPDX-License-Identifier: Apache-2.0
//! `internal watchdog` and `internal launch`, as the program `wringer` has them: what a run of these tests re-executes.

use host::places::Places;
use host::process::{LaunchSettings, launch};
use run::watchdog::Limits;
use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let value = |name: &str| args.iter().skip_while(|arg| *arg != name).nth(1).cloned().unwrap_or_default();
    match args.get(1).and_then(|role| role.to_str()) {
        Some("watchdog") => {
            let places = Places { journal: PathBuf::from(value("--journal")), ..Places::from_environment() };
            Ok(run::watchdog::main(&places, &value("--run").to_string_lossy().parse()?, Limits::default(), |_| true)?)
        }
        Some("launch") => {
            let settings = LaunchSettings::from_argument(&value("--settings").to_string_lossy())?;
            let command: Vec<OsString> = args.iter().skip_while(|arg| *arg != "--").skip(1).cloned().collect();
            std::process::exit(launch(&settings, &command[0], &command[1..])?)
        }
        _ => Err("usage: internal watchdog|launch".into()),
    }
}
