// SPDX-License-Identifier: Apache-2.0
//! A slow layer over the file's folder, in a mount namespace of its own.

use evidence::{Delay, DelayMode};
use slowfs::control::Client;
use slowfs::process::Options;
use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use tempfile::TempDir;

pub struct Layer {
    process: Child,
    socket: PathBuf,
    _folder: TempDir,
}

impl Layer {
    pub fn start(file: &Path, mode: DelayMode, read_us: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("slowfs.sock");
        let options = Options {
            directory: file.parent().unwrap().to_owned(),
            private: true,
            beside: None,
            control: socket.clone(),
            run_id: "bench".into(),
            threads: Options::THREADS,
            delay: Delay { read_us, write_us: 0, sync_us: 0, mode, varies: false },
            writeback_cache: true,
            direct: true,
            read_ahead_kib: None,
            leave_when_alone: false,
        };
        // examples lie one folder below the programs
        let program = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("slow-layer");
        let (ready, say) = std::io::pipe().unwrap();
        let say = OwnedFd::from(say);
        let number = say.as_raw_fd();
        let mut command = Command::new(program);
        command.arg(serde_json::to_string(&options).unwrap()).env("WRINGER_READY_FD", number.to_string());
        // SAFETY: clears a flag of a descriptor that stays open until the child has started.
        unsafe {
            command.pre_exec(move || {
                (libc::fcntl(number, libc::F_SETFD, 0) == 0).then_some(()).ok_or(std::io::Error::last_os_error())
            })
        };
        let process = command.spawn().expect("slow-layer is built beside this program");
        drop(say);
        let mut line = String::new();
        BufReader::new(ready).read_line(&mut line).unwrap();
        assert!(line.contains("\"ready\":"), "the layer did not start: {line}");
        Self { process, socket, _folder: folder }
    }

    /// A command that sees the layer.
    pub fn enter(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg("--mount").arg("--target").arg(self.process.id().to_string()).arg(program);
        command
    }

    /// What the backing file took at the median, by the layer's own clock.
    pub fn own_median_us(&self) -> f64 {
        let stats = Client::connect(&self.socket).unwrap().stats().unwrap();
        stats.read_latency.own.percentile_ns(50.0) as f64 / 1e3
    }

    /// CPU time of all its threads since they started, to the nanosecond.
    pub fn cpu(&self) -> Duration {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap();
        let one = |thread: std::fs::DirEntry| -> Option<u64> {
            std::fs::read_to_string(thread.path().join("schedstat")).ok()?.split(' ').next()?.parse().ok()
        };
        Duration::from_nanos(threads.flatten().filter_map(one).sum())
    }
}

impl Drop for Layer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
