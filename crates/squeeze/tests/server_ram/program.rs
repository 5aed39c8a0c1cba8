// SPDX-License-Identifier: Apache-2.0
//! For tests: a run that limits the memory of a small stand-in for a server, and plays the children that `wringer` would. It is a
//! program of its own because the test guest kills it.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use host::places::Places;
use host::process::{launch, order};
use run::{Begin, Child, ChildSpec, Kind, Resource, Role, Run};
use squeeze::limits::{LimitRequest, OptionNames};
use squeeze::{Kind as Squeezed, Plan, Squeezes};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["internal", "watchdog"] => run::watchdog::main(order().unwrap(), |_| true).map_err(squeeze::Error::from),
        ["internal", "launch"] => std::process::exit(launch(&order().unwrap()).unwrap()),
        [server, ref limits @ ..] => limited(server, limits),
        [] => panic!("usage: SHELL-COMMAND LIMIT..."),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error:?}");
            ExitCode::FAILURE
        }
    }
}

/// Of the server, 128 + n when signal n ended it: its launcher tells, a moment after the server has ended.
fn status_of(run: &mut Run, server: &Child) -> Option<i32> {
    let end = Instant::now() + PATIENCE;
    server.wait(PATIENCE);
    while Instant::now() < end {
        if let Some(status) = run.exit_status(server) {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}

/// One limit after the other, as the arms of an experiment; prints what was measured of each.
fn limited(server: &str, limits: &[&str]) -> Result<(), squeeze::Error> {
    let places = Places::from_environment();
    let resources = vec![Resource::Sandbox("limited".into())];
    let mut run = Run::begin(Begin { kind: Kind::Run, command: vec!["limited".into()], resources, places })?;
    let mut squeezes = Squeezes::default();
    for (generation, limit) in (1..).zip(limits) {
        let asked = LimitRequest { ram: Some(limit.parse().unwrap()), ..LimitRequest::default() };
        let plan = Plan::limits(&asked, OptionNames::EXPERIMENT)?.numbered(generation);
        squeezes.apply(&mut run, &plan, false)?;
        let arguments: [OsString; 2] = ["-c".into(), server.into()];
        let spec = ChildSpec {
            launcher: true,
            cgroups: squeezes.for_program().cgroups,
            ..ChildSpec::program("/bin/sh", arguments)
        };
        let child = run.spawn(Role::Server, spec)?;
        println!("status {:?}", status_of(&mut run, &child));
        for measured in squeezes.measure(child.pid, None) {
            println!("{}", serde_json::json!(measured));
        }
        run.undo_step(child.step)?;
        squeezes.release(&mut run, Squeezed::Limits)?;
    }
    let released = run.release()?;
    assert!(released.conflicts.is_empty(), "{released:?}");
    Ok(())
}
