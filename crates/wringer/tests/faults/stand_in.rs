// SPDX-License-Identifier: Apache-2.0
//! A controller that does what `wringer run` and `wringer sandbox start` do to the host, with `sleep` for a server: this test
//! program itself, started again in a role.

use super::WRINGER;
use super::campaign::Bench;
use evidence::{DiskMechanism, RamAmount};
use host::places::Places;
use run::{Begin, ChildSpec, Kind, Resource, Role, Run};
use squeeze::limits::{LimitRequest, OptionNames};
use squeeze::{Kind as Squeezed, Plan, Squeezes, ram};
use std::error::Error;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::is_root;
use units::Bytes;

const ROLE: &str = "WRINGER_FAULTS_ROLE";

/// The controller, which has not started yet.
pub(crate) fn command(bench: &Bench, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["stand_in::a_controller_comes_to_its_end", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env("WRINGER_PROGRAM", WRINGER).env("WRINGER_HOME", bench.lab.home());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Whether it was killed at this crash point; otherwise it must have come to its end.
pub(crate) fn crashed(bench: &Bench, role: &str, point: u32, watchdog_too: bool) -> bool {
    let mut command = command(bench, role);
    command.env("WRINGER_CRASH", point.to_string());
    if watchdog_too {
        command.env("WRINGER_CRASH_WATCHDOG", "1");
    }
    let status = command.status().unwrap();
    assert!(status.success() || status.signal() == Some(libc::SIGKILL), "{role} at {point}: {status}");
    !status.success()
}

#[test]
fn a_controller_comes_to_its_end() {
    match std::env::var(ROLE).as_deref() {
        Ok("lab") => lab().unwrap(),
        Ok("standing") => standing().unwrap(),
        _ if !is_root() => testkit::skip!("needs root"),
        _ => {
            let bench = Bench::new();
            for role in ["lab", "standing"] {
                assert!(command(&bench, role).status().unwrap().success(), "{role}");
                assert_eq!(bench.undone(), Ok(()), "{role}");
            }
        }
    }
}

fn sleeper() -> ChildSpec {
    let grace = Duration::from_secs(5);
    ChildSpec { launcher: true, grace, ..ChildSpec::program("/bin/sleep", ["600"]) }
}

/// RAM, and of CPU time and CPUs what this machine has a controller for.
fn everything() -> LimitRequest {
    let may = |controller| squeeze::cgroup::writable(controller).is_ok();
    LimitRequest {
        ram: Some(Bytes::mib(64)),
        cpus: "0.5".parse().ok().filter(|_| may("cpu")),
        cpuset: "0".parse().ok(),
        ..LimitRequest::default()
    }
}

/// The order of `wringer run`: layer, cgroups, server in all of them, RAM; another server without a cgroup; release.
fn lab() -> Result<(), Box<dyn Error>> {
    let places = Places::from_environment();
    let data = std::env::var("WRINGER_HOME")? + "/data";
    let resources = vec![Resource::HostRam, Resource::Sandbox("stand-in".into())];
    let mut run = Run::begin(Begin { kind: Kind::Run, command: vec!["stand-in".into()], resources, places })?;
    let mut squeezes = Squeezes::default();
    let disk = Plan::disk_of_server(data.as_ref(), DiskMechanism::Fuse, run.places())?;
    squeezes.apply(&mut run, &disk, false)?;
    let limits = Plan::limits(&everything(), OptionNames::EXPERIMENT)?.numbered(0);
    squeezes.apply(&mut run, &limits, false)?;
    let ChildSpec { namespaces_of, cgroups, affinity, .. } = squeezes.for_program();
    let server = run.spawn(Role::Server, ChildSpec { namespaces_of, cgroups, affinity, ..sleeper() })?;
    let hidden = Plan::ram(&ram::Options::new(RamAmount::Hide(Bytes::mib(64))))?;
    squeezes.apply(&mut run, &hidden, false)?;
    run.undo_step(server.step)?;
    squeezes.release(&mut run, Squeezed::Limits)?;
    run.spawn(Role::Server, ChildSpec { namespaces_of, ..sleeper() })?;
    assert!(run.release()?.conflicts.is_empty());
    Ok(())
}

/// A server that outlives its command, in cgroups that do as well.
fn standing() -> Result<(), Box<dyn Error>> {
    let resources = vec![Resource::Sandbox("stand-in".into())];
    let places = Places::from_environment();
    let mut run = Run::begin(Begin { kind: Kind::Standing, command: vec!["stand-in".into()], resources, places })?;
    let mut squeezes = Squeezes::default();
    squeezes.apply(&mut run, &Plan::limits(&everything(), OptionNames::SERVER)?, false)?;
    let ChildSpec { cgroups, affinity, .. } = squeezes.for_program();
    run.spawn(Role::Server, ChildSpec { lifeline: false, cgroups, affinity, ..sleeper() })?;
    run.leave()?;
    Ok(())
}
