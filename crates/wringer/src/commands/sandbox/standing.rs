// SPDX-License-Identifier: Apache-2.0
//! Servers that outlive the command: a launcher in a session of its own, found again by its run.

use super::{Names, Start, failure};
use crate::exit::{Exit, Failure, Outcome};
use crate::{signals, terminal};
use host::places::Places;
use run::{Begin, Kind, Resource, Run};
use sandbox::{Sandbox, StartOptions};

pub(super) fn start(args: &Start) -> Outcome {
    signals::install()?;
    let places = Places::from_environment();
    let sandbox = Sandbox::open(&args.name, &places).map_err(failure)?;
    start_sandbox(&sandbox, &places, &options(args))
}

pub(super) fn stop(names: &Names) -> Outcome {
    signals::install()?;
    let places = Places::from_environment();
    for name in &names.names {
        let sandbox = Sandbox::open(name, &places).map_err(failure)?;
        sandbox.stop_standing(&places).map_err(failure)?;
        terminal::say(format_args!("stopped {name}"));
    }
    Ok(())
}

pub(super) fn restart(args: &Start) -> Outcome {
    signals::install()?;
    let places = Places::from_environment();
    let sandbox = Sandbox::open(&args.name, &places).map_err(failure)?;
    match sandbox.stop_standing(&places) {
        Ok(_) | Err(sandbox::Error::NotRunning { .. }) => {}
        Err(error) => return Err(failure(error)),
    }
    start_sandbox(&sandbox, &places, &options(args))
}

fn options(args: &Start) -> StartOptions {
    StartOptions { extra_options: args.options.clone(), ready_timeout: args.wait.0, ..StartOptions::default() }
}

/// Starts it below a standing run and leaves it there.
pub(super) fn start_sandbox(sandbox: &Sandbox, places: &Places, options: &StartOptions) -> Outcome {
    sandbox.check_before_start().map_err(failure)?;
    let begin = Begin {
        kind: Kind::Standing,
        command: std::env::args().collect(),
        resources: vec![Resource::Sandbox(sandbox.name().into())],
        places: places.clone(),
    };
    let mut run = Run::begin(begin).map_err(|error| failure(error.into()))?;
    let options = StartOptions { standing: true, ..options.clone() };
    match sandbox.start(&mut run, &options) {
        Ok(server) => {
            let id = run.leave().map_err(|error| failure(error.into()))?;
            terminal::say(format_args!("started {}: {}, process {}", sandbox.name(), server.version, server.pid));
            terminal::say(format_args!("  socket  {}\n  port    127.0.0.1:{}\n  run     {id}", server.socket.display(), server.port));
            Ok(())
        }
        Err(error) => match run.release() {
            Ok(_) => Err(failure(error)),
            Err(not_released) => Err(Failure::new(Exit::NotRestored, not_released).hint("wringer undo")),
        },
    }
}
