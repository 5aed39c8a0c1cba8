// SPDX-License-Identifier: Apache-2.0
//! A home for the runs of one test, and what is left of them.
#![allow(dead_code, unreachable_pub)] // each test program uses a part

use run::{Places, Resource, Scope, find_runs};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_run-test-controller");

/// A home with a value file. Its path is in the arguments of every server of its runs, and each of our own children has a file in it open: an
/// independent way to find them.
pub struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    pub fn new() -> Self {
        let home = Self { folder: tempfile::tempdir().unwrap() };
        fs::write(home.value(), "before\n").unwrap();
        home
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn value(&self) -> PathBuf {
        self.path().join("value")
    }

    pub fn places(&self) -> Places {
        Places::below(self.path())
    }

    pub fn command(&self, role: &str) -> Command {
        self.command_with(role, cgroup_parent())
    }

    pub fn command_with(&self, role: &str, cgroup: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg(role).arg(self.path());
        if matches!(role, "run" | "wait" | "asked" | "victim" | "deaf") {
            command.arg(self.value()).arg(cgroup);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    /// A controller that has reached its middle, and the run's id.
    pub fn waiting(&self) -> (Child, String) {
        let mut child = self.command("wait").stdin(Stdio::piped()).spawn().unwrap();
        let mut id = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut id).unwrap();
        (child, id.trim().to_owned())
    }

    /// The processes of this home, by their arguments and their files.
    pub fn processes(&self) -> Vec<u32> {
        let wanted = self.path().to_string_lossy().into_owned();
        let pids =
            fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let is_named = String::from_utf8_lossy(&arguments).contains(&wanted);
            let is_helper = || arguments_of(*pid).contains(" internal ") && has_open_below(*pid, self.path());
            *pid != std::process::id() && (is_named || is_helper())
        })
        .collect()
    }

    /// Without what is on the host of other tests.
    pub fn undo(&self) -> run::UndoReport {
        let report = run::undo(&self.places(), Scope::All, &mut |_| {}).unwrap();
        run::UndoReport { left: report.left.into_iter().filter(run::Lost::is_due).collect(), ..report }
    }

    /// What is not as it was.
    pub fn residue(&self) -> Vec<String> {
        let mut residue = Vec::new();
        let value = fs::read_to_string(self.value()).unwrap();
        if value.trim() != "before" {
            residue.push(format!("the value is {value}"));
        }
        residue.extend(self.processes().iter().map(|pid| format!("process {pid}: {}", arguments_of(*pid))));
        let wanting = find_runs(&self.places()).unwrap().into_iter().filter(|run| run.live || run.hot);
        residue.extend(wanting.map(|run| format!("run {run:?}")));
        residue
    }

    pub fn await_clean(&self, what: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while (!self.residue().is_empty() || self.is_locked()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(self.residue(), Vec::<String>::new(), "{what}\n{}", self.watchdog_log());
    }

    /// Whether a run holds this home. A process that ends is found no more while its last thread still has the lock, and a run that begins then
    /// is refused.
    pub fn is_locked(&self) -> bool {
        run::holder(&self.places(), &Resource::Directory(self.path().to_owned())).unwrap().is_some()
    }

    pub fn watchdog_log(&self) -> String {
        fs::read_to_string(self.path().join("journal/watchdog.log")).unwrap_or_default()
    }
}

/// A failing test leaves nothing running.
impl Drop for Home {
    fn drop(&mut self) {
        for pid in self.processes() {
            let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL);
        }
    }
}

/// Every process of a run has its token open.
fn has_open_below(pid: u32, folder: &Path) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|file| file.starts_with(folder))
}

pub fn arguments_of(pid: u32) -> String {
    String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).replace('\0', " ")
}

/// A hierarchy in which this user may make cgroups: v1 or v2, or none.
pub fn cgroup_parent() -> &'static str {
    let writable = |path: &&str| {
        rustix::fs::access(*path, rustix::fs::Access::WRITE_OK).is_ok() && Path::new(path).join("cgroup.procs").exists()
    };
    ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"].into_iter().find(writable).unwrap_or("none")
}

pub fn cgroups_of(id: &str) -> bool {
    Path::new(cgroup_parent()).join(format!("wringer-{id}")).exists()
}

pub fn killed(status: ExitStatus) -> bool {
    status.signal() == Some(Signal::KILL.as_raw())
}

pub fn kill_hard(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

pub fn kill_watchdog(home: &Home) {
    let watchdogs = home.processes().into_iter().filter(|pid| arguments_of(*pid).contains("internal watchdog"));
    watchdogs.for_each(|pid| kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap());
}
