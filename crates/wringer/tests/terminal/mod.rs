// SPDX-License-Identifier: Apache-2.0
//! `wringer squeeze` on a terminal: its keys, its end, and signals to its group reach the command as they would without Wringer.

use super::{WRINGER, sh};
use crate::standing::*;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::{File, read_to_string};
use std::io::Write as _;
use std::os::fd::FromRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use testkit::{Lab, alone, wait_until};

/// The two ends of a pseudo terminal.
fn terminal() -> (File, File) {
    let (mut keys, mut program, null) = (-1, -1, std::ptr::null_mut());
    // SAFETY: the kernel fills the two numbers, which are open descriptors of nobody else after a success.
    unsafe {
        assert_eq!(libc::openpty(&mut keys, &mut program, null, std::ptr::null(), std::ptr::null()), 0);
        libc::fcntl(keys, libc::F_SETFD, libc::FD_CLOEXEC);
        (File::from_raw_fd(keys), File::from_raw_fd(program))
    }
}

/// The leader of a session of its own whose terminal this is, as behind `ssh -t HOST wringer ...`. Its output is on the terminal, too.
fn lead(mut command: Command, terminal: File) -> Killed {
    let end = || terminal.try_clone().unwrap();
    command.stdin(end()).stdout(end()).stderr(end());
    let begin = || {
        // SAFETY: system calls on our own, just forked process. A test may run below nohup(1).
        unsafe {
            libc::signal(libc::SIGHUP, libc::SIG_DFL);
            libc::setsid();
            libc::ioctl(0, libc::TIOCSCTTY, 0);
        }
        Ok(())
    };
    // SAFETY: `begin` makes system calls only.
    Killed(unsafe { command.pre_exec(begin) }.spawn().unwrap())
}

#[test]
fn its_keys_its_end_and_signals_to_its_group_are_the_commands() {
    let _alone = alone();
    let lab = Lab::new(WRINGER);
    let heard = lab.home().join("heard");
    let hears = |word: &str| {
        let is_heard = || read_to_string(&heard).is_ok_and(|text| text.lines().any(|line| line == word));
        assert!(wait_until(PATIENCE, is_heard), "{word} was not heard, but: {:?}", read_to_string(&heard));
    };
    let script = "exec >heard; for name in INT QUIT USR1 USR2; do trap \"echo $name\" $name; done; \
        trap 'echo HUP; exit 9' HUP; echo begun; while :; do sleep 0.1; done";
    let (mut keys, program) = terminal();
    let mut child = lead(lab.command(sh(&["--cpuset", "0"], script)), program);
    hears("begun");
    for (key, word) in [(b"\x03", "INT"), (b"\x1c", "QUIT")] {
        keys.write_all(key).unwrap();
        hears(word);
    }
    // as timeout(1) does
    let group = Pid::from_child(&child.0);
    for (signal, word) in [(Signal::USR1, "USR1"), (Signal::USR2, "USR2")] {
        kill_process_group(group, signal).unwrap();
        hears(word);
    }
    // the kernel tells the session's leader only
    drop(keys);
    hears("HUP");
    assert_eq!(child.0.wait().unwrap().code(), Some(9));
    assert_eq!(status(&lab)["runs"], serde_json::json!([]));
}

#[test]
fn a_hang_up_that_the_caller_ignores_ends_nothing() {
    let _alone = alone();
    let lab = Lab::new(WRINGER);
    let script = "trap 'exit 9' TERM; : >ready; while :; do sleep 0.1; done";
    let mut command = lab.command(sh(&["--cpuset", "0"], script));
    let ignore = || {
        // SAFETY: a system call on our own, just forked process
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        Ok(())
    };
    // SAFETY: `ignore` makes one system call. nohup(1) does the same.
    unsafe { command.pre_exec(ignore) };
    let mut child = Killed(command.spawn().unwrap());
    assert!(wait_until(PATIENCE, || lab.home().join("ready").exists()));
    signal(child.0.id().into(), Signal::HUP);
    signal(child.0.id().into(), Signal::TERM);
    assert_eq!(child.0.wait().unwrap().code(), Some(9));
}
