// SPDX-License-Identifier: Apache-2.0
//! SIGKILL before and after every journal record of every mechanism, while it is applied and while it is released.

use super::campaign::{Bench, take_crash};
use super::stand_in;
use super::standing::{PATIENCE, is_alive, json, signal};
use rustix::process::Signal;
use std::iter::StepBy;
use std::ops::Range;
use testkit::{Ran, announce_cases, is_root, takes_every_case, wait_until};

/// More crash points than any mechanism has.
const TOO_MANY: u32 = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mechanism {
    /// `wringer ram hide`: page cache, cap, holder.
    Ram,
    /// `wringer disk delay`: mount, slow layer.
    Disk,
    /// `wringer disk delay` of an image: slow layer (keeper and worker), loop device.
    Image,
    /// What `wringer run` does: private layer, memory cgroup, servers in both, hidden RAM.
    Lab,
    /// `wringer squeeze`: private layer, cgroups, a command in all of them, in the foreground.
    Command,
    /// The same with a preloaded library for the slow disk.
    PreloadedCommand,
    /// What `wringer sandbox start` does: a server that is left standing.
    Standing,
}

/// Applies and releases, killed at this crash point; its watchdog dies as well at its own first one, when that is wanted. Returns
/// whether the point was reached.
pub(crate) fn cut(bench: &Bench, mechanism: Mechanism, point: u32, watchdog_too: bool) -> bool {
    let (data, image) = (bench.data(), bench.image());
    let arguments: Vec<&str> = match mechanism {
        Mechanism::Ram => vec!["ram", "hide", "64M", "--yes", "-o", "json"],
        Mechanism::Disk => vec!["disk", "delay", data.to_str().unwrap(), "--read", "1ms", "-o", "json"],
        Mechanism::Image => vec!["disk", "delay", image.to_str().unwrap(), "--write", "1ms", "-o", "json"],
        Mechanism::Lab => return stand_in::crashed(bench, "lab", point, watchdog_too),
        Mechanism::Command => return squeezed_command_crashed(bench, "fuse", point, watchdog_too),
        Mechanism::PreloadedCommand => return squeezed_command_crashed(bench, "preload", point, watchdog_too),
        Mechanism::Standing => return stand_in::crashed(bench, "standing", point, watchdog_too),
    };
    let log = bench.lab.home().join("journal/supervisor.log");
    take_crash(&log);
    let mut command = bench.lab.command(arguments);
    command.env("WRINGER_CRASH_SUPERVISOR", point.to_string());
    if watchdog_too {
        command.env("WRINGER_CRASH_WATCHDOG", "1");
    }
    let ran = Ran::of(&mut command);
    if ran.code == Some(0) {
        let supervisor = json(&ran)["pid"].as_u64().unwrap();
        signal(supervisor, Signal::TERM);
        assert!(wait_until(PATIENCE, || !is_alive(supervisor)), "it does not end");
    }
    take_crash(&log)
}

fn squeezed_command_crashed(bench: &Bench, mechanism: &str, point: u32, watchdog_too: bool) -> bool {
    let disk = format!("{}=read=1ms", bench.data().display());
    let mut arguments = vec!["squeeze", "--no-probe", "--disk", &disk, "--disk-mechanism", mechanism, "--cpuset", "0"];
    // the cgroups are the same for both
    let may = |controller| mechanism == "fuse" && squeeze::cgroup::writable(controller).is_ok();
    if mechanism == "fuse" {
        arguments.extend(["--hide-ram", "64M", "--yes"]);
    }
    arguments.extend(["--ram", "64M"].iter().filter(|_| may("memory")));
    arguments.extend(["--cpus", "0.5"].iter().filter(|_| may("cpu")));
    arguments.extend(["--", "sleep", "0.2"]);
    let mut command = bench.lab.command(arguments);
    command.env("WRINGER_CRASH", point.to_string());
    if watchdog_too {
        command.env("WRINGER_CRASH_WATCHDOG", "1");
    }
    let ran = Ran::of(&mut command);
    assert!(matches!(ran.code, None | Some(0)), "at {point}: {ran:?}");
    ran.code.is_none()
}

/// All of them; a sample takes every seventh one with a living watchdog, and others between them with a dying one. Of those that take longest
/// it is every thirteenth. The steps are odd, so that a sample has points before a record and points after one.
fn points(mechanism: Mechanism, watchdog_too: bool) -> StepBy<Range<u32>> {
    let step = match mechanism {
        _ if takes_every_case() => 1,
        Mechanism::Lab | Mechanism::Command => 13,
        _ => 7,
    };
    let first = 1 + step / 2 * u32::from(watchdog_too);
    (first..TOO_MANY).step_by(step as usize)
}

/// Returns the number of cases.
fn every_record(mechanism: Mechanism, watchdog_too: bool) -> Option<u32> {
    if !is_root() {
        return None;
    }
    let bench = Bench::new();
    for (cases, point) in (0..).zip(points(mechanism, watchdog_too)) {
        let crashed = cut(&bench, mechanism, point, watchdog_too);
        let by_itself =
            if watchdog_too || mechanism == Mechanism::Standing { Ok(()) } else { bench.given_back_by_itself() };
        let outcome = by_itself.and_then(|()| bench.undone());
        assert_eq!(outcome, Ok(()), "{mechanism:?}, crash point {point}, watchdog killed as well: {watchdog_too}");
        if !crashed {
            return Some(cases);
        }
    }
    panic!("{mechanism:?} never came to its end");
}

macro_rules! campaign {
    ($name:ident, $mechanism:expr, $watchdog_too:expr, at least $least:expr) => {
        #[test]
        fn $name() {
            let Some(cases) = every_record($mechanism, $watchdog_too) else { testkit::skip!("needs root") };
            announce_cases(concat!("records::", stringify!($name)), cases as usize);
            assert!(cases >= $least, "only {cases} crash points");
        }
    };
}

campaign!(hiding_ram, Mechanism::Ram, false, at least 3);
campaign!(hiding_ram_and_the_watchdog_dies, Mechanism::Ram, true, at least 3);
campaign!(delaying_a_disk, Mechanism::Disk, false, at least 3);
campaign!(delaying_a_disk_and_the_watchdog_dies, Mechanism::Disk, true, at least 3);
campaign!(delaying_an_image, Mechanism::Image, false, at least 3);
campaign!(delaying_an_image_and_the_watchdog_dies, Mechanism::Image, true, at least 3);
campaign!(a_whole_lab, Mechanism::Lab, false, at least 7);
campaign!(a_whole_lab_and_the_watchdog_dies, Mechanism::Lab, true, at least 7);
campaign!(squeezing_a_command, Mechanism::Command, false, at least 7);
campaign!(squeezing_a_command_and_the_watchdog_dies, Mechanism::Command, true, at least 7);
campaign!(squeezing_a_command_by_a_library_and_the_watchdog_dies, Mechanism::PreloadedCommand, true, at least 5);
campaign!(starting_a_sandbox, Mechanism::Standing, false, at least 5);
campaign!(starting_a_sandbox_and_the_watchdog_dies, Mechanism::Standing, true, at least 5);
