// SPDX-License-Identifier: Apache-2.0
//! Finds processes that have a run's files open, with their role and user. It only makes small reads below `/proc`, and looks at open files that do
//! not ask a file system.

use super::census::{Census, Resident};
use super::identity::Identity;
use super::proc_files::{is_locked, is_open_for_writing, variable};
use super::{LIFELINE_VARIABLE, RUN_VARIABLE};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::fs;
use std::path::{Path, PathBuf};

/// A process that carries a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    pub identity: Identity,
    /// `None`: the process runs under several users, as a set-user-id program does.
    pub uid: Option<u32>,
    /// The name that the kernel has for the process.
    pub command: String,
    /// The ROLE of `wringer internal ROLE`.
    pub role: Option<String>,
    /// The value of `WRINGER_RUN` when the program was executed.
    pub run: Option<String>,
    /// The process ends by itself when all processes that could release it are dead.
    pub has_lifeline: bool,
    /// The files that were asked for.
    pub files: Vec<HeldFile>,
}

/// A file that a process has open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldFile {
    /// The name under which it was opened, or that it was given later.
    pub path: PathBuf,
    /// The file has no name any more.
    pub is_deleted: bool,
    /// The file is locked by flock(2), through this descriptor.
    pub is_locked: bool,
    /// The owner of the file. `None`: the file system did not answer.
    pub owner: Option<u32>,
}

/// The text that the kernel appends to the link of a file without a name.
const DELETED: &str = " (deleted)";

impl Census {
    /// Every live process but the caller and its forks that has a file open for writing for which `is_mark` holds, or `WRINGER_RUN` in its environment. An ordinary
    /// user only sees their own processes.
    pub fn marked(&self, is_mark: &dyn Fn(&Path) -> bool) -> Vec<Marked> {
        let mut found: Vec<Marked> = self.others().filter_map(|resident| look(resident, is_mark)).collect();
        found.sort_by_key(|it| (it.identity.start_time, it.identity.pid));
        found
    }
}

/// The run to which a process belongs, by its environment. `None`: it belongs to none, or it does not show its environment to this user.
pub fn run_of(pid: u32) -> Option<String> {
    run_in(&fs::read(format!("/proc/{pid}/environ")).ok()?)
}

fn run_in(environment: &[u8]) -> Option<String> {
    std::str::from_utf8(variable(environment, RUN_VARIABLE)?).ok().map(str::to_owned)
}

fn look(resident: &Resident, is_mark: &dyn Fn(&Path) -> bool) -> Option<Marked> {
    let pid = resident.identity.pid;
    let files = held(resident, is_mark);
    let environment = resident.environment.as_deref().unwrap_or_default();
    let run = run_in(environment);
    if files.is_empty() && run.is_none() {
        return None;
    }
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let marked = Marked {
        identity: resident.identity,
        uid: one_uid(&status),
        command: command.trim_end().to_owned(),
        role: role(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()),
        run,
        has_lifeline: variable(environment, LIFELINE_VARIABLE).is_some(),
        files,
    };
    // the pid may belong to another process when this one has ended
    resident.identity.is_alive().then_some(marked)
}

fn held(resident: &Resident, is_mark: &dyn Fn(&Path) -> bool) -> Vec<HeldFile> {
    let marks = resident.links.iter().flatten().filter_map(|(entry, link)| {
        let (path, is_deleted) = name_of(link);
        (is_mark(&path) && is_open_for_writing(entry)).then(|| HeldFile {
            path,
            is_deleted,
            is_locked: is_locked(entry),
            owner: owner_of(entry),
        })
    });
    marks.collect()
}

fn name_of(link: &Path) -> (PathBuf, bool) {
    match link.to_str().and_then(|text| text.strip_suffix(DELETED)) {
        Some(name) => (name.into(), true),
        None => (link.to_owned(), false),
    }
}

/// The owner of a file, as the kernel knows it without asking the file system.
fn owner_of(link: &Path) -> Option<u32> {
    let known = statx(CWD, link, AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT, StatxFlags::UID).ok()?;
    Some(known.stx_uid)
}

fn role(arguments: &[u8]) -> Option<String> {
    let mut words = arguments.split(|byte| *byte == 0).skip(1);
    let is_internal = words.next() == Some(b"internal");
    words.next().filter(|_| is_internal).map(|role| String::from_utf8_lossy(role).into_owned())
}

/// The user, if all four uids are the same: real, effective, saved, and that of the file system (proc_pid_status(5)).
fn one_uid(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let uids: Vec<u32> = line.split_whitespace().filter_map(|uid| uid.parse().ok()).collect();
    uids.first().copied().filter(|first| uids.iter().all(|uid| uid == first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_stands_in_proc() {
        assert_eq!(name_of(Path::new("/h/w-1/token (deleted)")), ("/h/w-1/token".into(), true));
        assert_eq!(name_of(Path::new("/h/w-1/token")), ("/h/w-1/token".into(), false));
        assert_eq!(role(b"/usr/bin/wringer\0internal\0holder\0--pages\0").as_deref(), Some("holder"));
        assert_eq!(role(b"sleep\x001000\0"), None);
        assert_eq!(variable(b"A=1\0WRINGER_RUN=w-1\0", RUN_VARIABLE), Some(b"w-1".as_slice()));
        assert_eq!(one_uid("Name:\tx\nUid:\t1000\t1000\t1000\t1000\n"), Some(1000));
        assert_eq!(one_uid("Uid:\t1000\t0\t0\t0\n"), None, "a set-user-id program has its caller's environment");
    }

    #[test]
    #[allow(clippy::disallowed_methods)] // a file and a process of the test's own
    fn a_process_with_a_file_that_was_removed_and_is_locked() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().canonicalize().expect("is there").join("token");
        let file = fs::File::create(&path).expect("makes");
        file.lock().expect("locks");
        let mut child = std::process::Command::new("sleep")
            .arg("100")
            .env(RUN_VARIABLE, "w-test")
            .stdin(file)
            .spawn()
            .expect("starts");
        fs::remove_file(&path).expect("removes");
        // the child has no environment yet while it executes its program
        testkit::wait_until(Duration::from_secs(60), || run_of(child.id()).is_some());
        let found = Census::take().marked(&|name| name == path);
        let _ = child.kill();
        let _ = child.wait();
        let uid = rustix::process::geteuid().as_raw();
        let held = HeldFile { path, is_deleted: true, is_locked: true, owner: Some(uid) };
        let it = found.iter().find(|it| it.identity.pid == child.id()).expect("is found");
        assert_eq!((&it.files, it.uid, it.run.as_deref()), (&vec![held], Some(uid), Some("w-test")));
    }

    /// Otherwise a child that is just being started for one run would count as what is left of another run of the same process.
    #[test]
    #[allow(clippy::disallowed_methods)] // a file of the test's own
    fn a_child_before_its_exec_has_no_files_of_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().canonicalize().expect("is there").join("token");
        let _file = fs::File::create(&path).expect("makes");
        // SAFETY: the child makes one system call, which never returns.
        let child = match unsafe { libc::fork() } {
            0 => loop {
                // SAFETY: it has no argument, and waits for a signal.
                unsafe { libc::pause() };
            },
            child => child,
        };
        let census = Census::take();
        let found = census.marked(&|name| name == path);
        // SAFETY: signals and waits for the child that was forked above.
        unsafe { (libc::kill(child, libc::SIGKILL), libc::waitpid(child, std::ptr::null_mut(), 0)) };
        let child = u32::try_from(child).expect("was forked");
        assert!(census.pids().any(|pid| pid == child), "it was listed");
        // other tests on this host have marked processes
        assert!(!found.iter().any(|it| it.identity.pid == child || !it.files.is_empty()), "{found:?}");
    }
}
