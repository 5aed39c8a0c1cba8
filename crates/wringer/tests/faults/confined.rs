// SPDX-License-Identifier: Apache-2.0
//! As in a container: no `/dev/fuse`, `/proc/sys` mounted read-only, a seccomp filter that forbids to mount and to unshare. Each squeeze
//! falls back to what is left, or says what is missing; nothing is half done.

use super::campaign::Bench;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use testkit::{Ran, announce_cases, is_root};

/// Classic BPF, as seccomp(2) takes it: these calls fail with EPERM, every other passes.
fn forbid(calls: &[libc::c_long]) -> std::io::Result<()> {
    let code = |code: u32| u16::try_from(code).unwrap();
    let statement = |word: u32, k: u32| libc::sock_filter { code: code(word), jt: 0, jf: 0, k };
    // the number of the call is the first word of struct seccomp_data
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for call in calls {
        let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        program.push(libc::sock_filter { code: code(equal), jt: 0, jf: 1, k: u32::try_from(*call).unwrap() });
        program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog { len: u16::try_from(program.len()).unwrap(), filter: program.as_mut_ptr() };
    // SAFETY: the program lives until the call returns.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    };
    if set { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[derive(Debug, Clone, Copy)]
enum Confined {
    /// As docker's default profile for who has not CAP_SYS_ADMIN.
    NoMounts,
    /// mount(2) alone; a mount namespace can be made.
    NoMountCall,
    NoFuse,
    ReadOnlySysctl,
}

/// The same command, confined; in a mount namespace of its own where it takes one.
fn confined(bench: &Bench, how: Confined, arguments: &[&str]) -> Ran {
    let plain = bench.lab.command(arguments);
    let prepared = match how {
        Confined::NoMounts | Confined::NoMountCall => "true",
        Confined::NoFuse => {
            "mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/urandom c 1 9 && mkdir /dev/shm"
        }
        Confined::ReadOnlySysctl => "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys",
    };
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "sh", "-c", &format!("{prepared} && exec \"$@\""), "sh"]);
    command.arg(plain.get_program()).args(plain.get_args()).current_dir(bench.lab.home()).stdin(Stdio::null());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Confined::NoMounts | Confined::NoMountCall = how {
        let mut inner = Command::new(plain.get_program());
        inner.args(plain.get_args()).current_dir(bench.lab.home()).stdin(Stdio::null());
        inner.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut calls = vec![libc::SYS_mount];
        if let Confined::NoMounts = how {
            calls.extend([libc::SYS_unshare, libc::SYS_fsopen, libc::SYS_open_tree, libc::SYS_setns]);
        }
        // SAFETY: only system calls between fork and exec, and an allocation in a child of one thread.
        unsafe { inner.pre_exec(move || forbid(&calls)) };
        command = inner;
    }
    Ran::of(&mut command)
}

#[test]
fn a_confined_program_falls_back_or_says_what_is_missing() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let bench = Bench::new();
    let data = bench.data();
    let data = data.to_str().unwrap();
    let slow = format!("{data}=read=1ms");
    let ram = ["ram", "hide", "64M", "--yes"];
    let disk = ["disk", "delay", data, "--read", "1ms"];
    let slow_command = ["squeeze", "--disk", &slow, "--", "true"];
    let by_a_library = ["squeeze", "--disk", &slow, "--disk-mechanism", "preload", "--", "true"];
    let one_cpu = ["squeeze", "--cpuset", "0", "--", "true"];
    // what it ends with, and what it says
    let by_fuse = ["squeeze", "--disk", &slow, "--disk-mechanism", "fuse", "--", "true"];
    let cases: [(Confined, &[&str], i32, &[&str]); 16] = [
        (Confined::NoMounts, &ram, 0, &["huge-page holder"]),
        (Confined::NoMounts, &disk, 3, &["may not be mounted", "Operation not permitted", "wringer doc preload"]),
        (Confined::NoMounts, &slow_command, 0, &["may not be mounted", "Operation not permitted", "preload layer"]),
        (Confined::NoMounts, &by_fuse, 3, &["may not be mounted", "Operation not permitted"]),
        (Confined::NoMountCall, &disk, 3, &["may not be mounted"]),
        (Confined::NoMountCall, &slow_command, 0, &["may not be mounted", "preload layer"]),
        (Confined::NoMounts, &by_a_library, 0, &["preload layer"]),
        (Confined::NoMounts, &one_cpu, 0, &["asked 0, got 0"]),
        (Confined::NoFuse, &ram, 0, &["huge-page holder"]),
        (Confined::NoFuse, &disk, 3, &["/dev/fuse"]),
        (Confined::NoFuse, &slow_command, 0, &["/dev/fuse", "preload layer"]),
        (Confined::NoFuse, &one_cpu, 0, &["asked 0, got 0"]),
        (Confined::ReadOnlySysctl, &ram, 0, &["balloon process"]),
        (Confined::ReadOnlySysctl, &disk, 0, &["read 1 ms"]),
        (Confined::ReadOnlySysctl, &slow_command, 0, &["disk"]),
        (Confined::ReadOnlySysctl, &one_cpu, 0, &["asked 0, got 0"]),
    ];
    let mut failed = Vec::new();
    for (how, arguments, code, words) in &cases {
        let ran = confined(&bench, *how, arguments);
        let undone = bench.undone();
        let said = format!("{}{}", ran.stdout, ran.stderr);
        if ran.code != Some(*code) || !words.iter().all(|word| said.contains(word)) || undone != Ok(()) {
            failed.push(format!("{how:?} {arguments:?}: {code} and {words:?} were expected: {ran:?}, {undone:?}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    announce_cases("confined::a_confined_program_falls_back_or_says_what_is_missing", cases.len());
}
