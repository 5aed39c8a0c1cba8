// SPDX-License-Identifier: Apache-2.0
#![allow(clippy::disallowed_methods)] // makes files for tests

use super::super::Options;
use super::*;
use probe::evict::evict;
use probe::residency::residency;
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::mpsc;
use tempfile::TempDir;

const HOUR: Duration = Duration::from_secs(3600);

/// What a walk sees of a process: the folders `fd`, `root` and `cwd`, which in `/proc/PID` are links, too.
struct Process(TempDir);

impl Process {
    fn new() -> Self {
        // not in /tmp: that may be memory
        let own = Self(tempfile::tempdir_in(".").unwrap());
        ["fd", "root/data", "outside"].iter().for_each(|name| fs::create_dir_all(own.path(name)).unwrap());
        symlink("root/data", own.path("cwd")).unwrap();
        own
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, bytes: usize) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, vec![7; bytes]).unwrap();
        path
    }

    fn walk(&self, version: Option<&str>, limits: Option<Limits>) -> Found {
        let found = Shared::default();
        Walk::of(self.0.path(), version.map(str::to_owned), limits, found.clone()).unwrap().all().unwrap();
        found.get()
    }
}

fn cached(path: &Path) -> u64 {
    residency(&File::open(path).unwrap(), path).unwrap().cached_bytes()
}

#[test]
fn each_file_once_as_far_as_it_is_cached_and_no_link_is_followed() {
    let it = Process::new();
    let files = [it.file("root/data/large", (1 << 20) + 100), it.file("root/data/a/b/small", 5000)];
    it.file("root/data/empty", 0);
    let open = it.file("outside/open", 9000);
    let others = it.file("outside/other/of_others", 1 << 20);
    fs::hard_link(&files[0], it.path("root/data/again")).unwrap();
    symlink(&others, it.path("root/data/link")).unwrap();
    symlink(others.parent().unwrap(), it.path("root/data/folder")).unwrap();
    symlink(it.path("root/data"), it.path("root/data/a/loop")).unwrap();
    mkfifoat(CWD, it.path("root/data/fifo"), Mode::from_raw_mode(0o600)).unwrap();
    for (number, file) in [("3", open.as_path()), ("4", files[1].as_path()), ("5", Path::new("/dev/null"))] {
        symlink(file.canonicalize().unwrap(), it.path("fd").join(number)).unwrap();
    }
    let found = it.walk(None, Some(Limits { look: HOUR, count: HOUR }));
    assert_eq!((found.seen.looked_at, found.seen.left, found.refused.clone()), (4, 0, None));
    assert!(found.is_counted && !found.is_over && found.seen.dirty <= found.seen.cached, "{found:?}");
    // just written, so all is cached; but the kernel may drop pages at any moment, so a later count is never higher
    let all = || files.iter().chain([&open]);
    let later: u64 = all().map(|path| cached(path)).sum();
    let pages = super::super::page_bytes();
    let whole: u64 = [(1 << 20) + 100, 5000, 9000_u64].iter().map(|bytes| bytes.next_multiple_of(pages)).sum();
    assert!((later..=whole).contains(&found.seen.cached) && later > 1 << 19, "{found:?}, then {later}, of {whole}");

    let left: u64 = all().map(|path| evict(&File::open(path).unwrap(), path).unwrap().cached_bytes()).sum();
    let found = it.walk(None, None);
    assert!(found.seen.looked_at == 4 && found.seen.cached <= left, "{found:?}, {left} could not be evicted");
}

/// Another server may use the same tablespace, and its path is one of the process's own root directory.
#[test]
fn tablespaces_of_this_postgresql() {
    let it = Process::new();
    it.file("root/data/PG_VERSION", 3);
    it.file("root/wal/1", 3);
    let of_space = ["PG_18_202506291/5/1", "PG_17_202406281/5/1", "PG_18_202506291/5/2"];
    of_space.iter().for_each(|name| drop(it.file(&format!("root/space/{name}"), 3)));
    it.file("root/data/pg_tblspc/17000/PG_18_202506291/5/3", 3);
    for (link, target) in [("pg_tblspc/16999", "/space"), ("pg_wal", "../wal"), ("base", "/space")] {
        symlink(target, it.path("root/data").join(link)).unwrap();
    }
    let count = |version| it.walk(version, None).seen.looked_at;
    assert_eq!([count(Some("18")), count(Some("17")), count(None)], [5, 4, 2]);
    symlink("/nowhere", it.path("root/data/pg_tblspc/17001")).unwrap();
    assert_eq!(it.walk(Some("18"), None).refused, None);
}

#[test]
fn after_the_limit_files_are_counted_only() {
    let it = Process::new();
    (0..3).for_each(|number| drop(it.file(&format!("root/data/{number}"), 3)));
    symlink(it.path("root/data/0").canonicalize().unwrap(), it.path("fd/3")).unwrap();
    let walk = |count| it.walk(None, Some(Limits { look: Duration::ZERO, count }));
    let why = |found| lacks(&found, &Ended::Done, "--deep").pop().unwrap();
    let found = walk(HOUR);
    assert_eq!((found.seen.looked_at, found.seen.left), (0, 3));
    assert_eq!(why(found), ("0 of 3 files were looked at: the limit is 500 ms".to_owned(), Some("--deep")));
    assert!(why(walk(Duration::ZERO)).0.starts_with("0 of at least 0 files"));
}

#[test]
fn a_file_system_that_does_not_answer_is_left_alone() {
    let (answer, waits) = mpsc::channel::<()>();
    let found = Shared::default();
    let ended = within(Duration::from_millis(1), &found, move || waits.recv().map_err(io::Error::other));
    drop(answer);
    assert!(matches!(ended, Ended::Stalled), "{ended:?}");
    let why = lacks(&found.get(), &ended, "--deep");
    assert_eq!(why, [("0 files were looked at; the next one took more than 2 s".to_owned(), None)]);
}

#[test]
fn who_may_not_look_is_told_what_helps() {
    let denied = Ended::Failed(io::ErrorKind::PermissionDenied.into());
    let why = lacks(&Found::default(), &denied, "--deep");
    assert!(why.len() == 1 && why[0].0.contains("permission denied"), "{why:?}");
    assert_eq!(why[0].1, Some(ptrace_rights::for_mappings()));
    let some = Found { refusals: 2, refused: Some("Permission denied".into()), ..Found::default() };
    let why = lacks(&some, &Ended::Done, "--deep");
    assert!(why.len() == 1 && why[0].0.starts_with("2 of its files and folders") && why[0].1.is_some(), "{why:?}");
}

#[test]
fn a_process_in_the_root_directory_has_no_data_directory() {
    let it = Process::new();
    fs::remove_file(it.path("cwd")).unwrap();
    symlink("root", it.path("cwd")).unwrap();
    let error = Walk::of(it.0.path(), None, None, Shared::default()).err().unwrap();
    assert!(error.to_string().contains("root directory"), "{error}");
}

#[test]
fn an_open_file_of_a_process_that_has_ended_is_gone() {
    let it = Process::new();
    let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let of_child = File::open(format!("/proc/{}/smaps", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let link = format!("/proc/self/fd/{}", of_child.as_raw_fd());
    assert_eq!(File::open(&link).unwrap_err().raw_os_error(), Some(Errno::SRCH.raw_os_error()));
    symlink(&link, it.path("fd/9")).unwrap();
    let found = it.walk(None, None);
    assert_eq!((found.refusals, found.refused), (0, None));
}

#[test]
fn one_reading_looks_at_them_and_repeated_ones_do_not() {
    let own = std::process::id();
    let read = |pid, flavour, options| {
        let mut reading = Reading::begin(options);
        (read(pid, flavour, &mut reading), reading.end().2)
    };
    let mariadb = Some(Flavour::Mariadb);
    let (seen, missing) = read(own, mariadb, Options { deep: true, ..Options::default() });
    assert!(seen.is_some_and(|it| it.looked_at > 0 && it.left == 0) && missing.is_empty(), "{seen:?} {missing:?}");
    let nothing = (None, vec![]);
    assert_eq!(read(own, mariadb, Options { others_us: Some(1000), ..Options::default() }), nothing);
    assert_eq!(read(own, mariadb, Options { lightly: true, ..Options::default() }), nothing);
    assert_eq!(read(own, None, Options::default()), nothing);
    let (seen, missing) = read(4_000_000_000, mariadb, Options::default());
    assert!(seen.is_none() && missing.len() == 1 && missing[0].what == Missing::FILES, "{missing:?}");
}
