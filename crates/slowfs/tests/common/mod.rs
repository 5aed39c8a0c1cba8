// SPDX-License-Identifier: Apache-2.0
//! A layer over a temporary directory, and a way into its namespace.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, dead_code, unreachable_pub)] // tests make their own processes and files

pub mod ordinary;

use evidence::{Delay, DelayMode};
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use slowfs::control::Client;
use slowfs::process::Options;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use tempfile::TempDir;

pub struct Mounted {
    pub layer: Child,
    /// Closing it is what a controller's death looks like to the layer.
    pub lifeline: Option<OwnedFd>,
    pub socket: PathBuf,
    folder: TempDir,
}

/// Why a private mount cannot be made here.
pub fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("a test cannot follow the layer into a user namespace; needs root".into());
    }
    match File::options().read(true).write(true).open("/dev/fuse") {
        Ok(_) => None,
        Err(error) => Some(format!("needs /dev/fuse: {error}")),
    }
}

#[macro_export]
macro_rules! mount_or_skip {
    ($($change:expr)?) => {{
        if let Some(why) = common::obstacle() {
            testkit::skip!("{why}");
        }
        #[allow(unused_mut)]
        let mut options = common::options();
        $( let change: fn(&mut slowfs::process::Options) = $change; change(&mut options); )?
        common::Mounted::new(options)
    }};
}

pub fn delay(read_us: u64, write_us: u64, sync_us: u64) -> Delay {
    Delay { read_us, write_us, sync_us, mode: DelayMode::Add, varies: false }
}

pub fn options() -> Options {
    Options {
        directory: PathBuf::new(),
        private: true,
        beside: None,
        control: PathBuf::new(),
        run_id: "test".into(),
        threads: 4,
        delay: delay(0, 0, 0),
        writeback_cache: true,
        direct: true,
        read_ahead_kib: None,
        leave_when_alone: false,
    }
}

pub fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap()
}

/// Lets the child keep these descriptors across exec, and only this child.
pub fn inherit(command: &mut Command, descriptors: [i32; 2]) {
    let keep = move || {
        for descriptor in descriptors {
            // SAFETY: clears a flag of a descriptor that the parent keeps open until the child has started.
            if unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) } != 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure only calls fcntl.
    unsafe { command.pre_exec(keep) };
}

impl Mounted {
    pub fn new(options: Options) -> Self {
        Self::over(options, |_| {})
    }

    /// Over a directory that is `prepared` before the mount.
    pub fn over(options: Options, prepare: impl FnOnce(&Path)) -> Self {
        Self::within(options, prepare, &[])
    }

    /// A layer whose syncs do nothing.
    #[cfg(feature = "failpoints")]
    pub fn lying(options: Options) -> Self {
        Self::within(options, |_| {}, &[("WRINGER_BROKEN_SYNC", "1")])
    }

    fn within(mut options: Options, prepare: impl FnOnce(&Path), environment: &[(&str, &str)]) -> Self {
        let folder =
            tempfile::tempdir_in(std::env::var_os("CARGO_TARGET_TMPDIR").unwrap_or("/var/tmp".into())).unwrap();
        options.directory = folder.path().join("data");
        options.control = folder.path().join("slowfs.sock");
        std::fs::create_dir_all(&options.directory).unwrap();
        prepare(&options.directory);
        Self::start(folder, options, environment)
    }

    fn start(folder: TempDir, options: Options, environment: &[(&str, &str)]) -> Self {
        let (ready_read, ready_write) = pipe();
        let (life_read, life_write) = pipe();
        let mut command = Command::new(env!("CARGO_BIN_EXE_slow-layer"));
        command
            .arg(serde_json::to_string(&options).unwrap())
            .envs(environment.iter().copied())
            .env("WRINGER_READY_FD", ready_write.as_raw_fd().to_string())
            .env("WRINGER_LIFELINE_FD", life_read.as_raw_fd().to_string());
        inherit(&mut command, [ready_write.as_raw_fd(), life_read.as_raw_fd()]);
        let layer = command.spawn().unwrap();
        drop((ready_write, life_read));
        let mut line = String::new();
        BufReader::new(File::from(ready_read)).read_line(&mut line).unwrap();
        let ready: serde_json::Value = serde_json::from_str(&line).expect("the layer says that it serves");
        assert!(ready.get("ready").is_some(), "{line}");
        Self { layer, lifeline: Some(life_write), socket: options.control, folder }
    }

    /// The directory: the layer's view inside its namespace, the backing files outside.
    pub fn directory(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.socket).unwrap()
    }

    /// Runs `body` on a thread that sees what the server would see.
    pub fn inside<T: Send>(&self, body: impl FnOnce(&Path) -> T + Send) -> T {
        let namespace = File::open(format!("/proc/{}/ns/mnt", self.layer.id())).unwrap();
        let directory = self.directory();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // SAFETY: this thread alone gets its own root and working directory; no descriptors are unshared.
                unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }.unwrap();
                rustix::thread::move_into_link_name_space(
                    rustix::fd::AsFd::as_fd(&namespace),
                    Some(LinkNameSpaceType::Mount),
                )
                .unwrap();
                body(&directory)
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.layer);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// SIGKILL, and wait.
    pub fn kill(&mut self) {
        self.layer.kill().unwrap();
        self.layer.wait().unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.layer.kill();
        let _ = self.layer.wait();
    }
}
