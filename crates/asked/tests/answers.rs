// SPDX-License-Identifier: Apache-2.0
//! The library in a real program: what it says beside what the program has asked for.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use asked::{Map, Silence, environment, install};
use capability::MallocKind;
use rustix::io::{FdFlags, fcntl_setfd};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
    map: Map,
    _folder: tempfile::TempDir,
}

impl Program {
    /// With this library in front of malloc.
    fn start(malloc: Option<&str>) -> Self {
        let (folder, map) = (tempfile::tempdir().unwrap(), Map::create().unwrap());
        let library = install(folder.path()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_asked-test-program"));
        for (name, value) in environment(&library, &map) {
            let before = malloc.filter(|_| name == "LD_PRELOAD").map(|path| format!("{path}:")).unwrap_or_default();
            command.env(name, before + value.to_str().unwrap());
        }
        // a child that another thread of this test starts would inherit it, too, and does not mind
        fcntl_setfd(map.descriptor().as_ref(), FdFlags::empty()).unwrap();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut program = Self { child, output, map, _folder: folder };
        program.line();
        program
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    /// Holds so many blocks more; 0: none any more.
    fn hold(&mut self, blocks: usize, bytes: usize) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{blocks} {bytes}").unwrap();
        self.line();
    }

    fn ask(&self, kind: MallocKind) -> u64 {
        self.map.ask(kind, PATIENCE).unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[test]
#[cfg(target_env = "gnu")]
fn small_blocks_and_large_ones_move_it_by_what_they_are() {
    let mut program = Program::start(None);
    assert_eq!(program.map.process(), Some(program.child.id()));
    let before = program.ask(MallocKind::Glibc);
    for (blocks, bytes) in [(100_000, 500), (1, 64 << 20)] {
        program.hold(blocks, bytes);
        let (grown, asked) = (program.ask(MallocKind::Glibc) - before, (blocks * bytes) as u64);
        // beside the blocks: their headers, and the list that holds them
        let list = 24 * 131_072;
        assert!((asked..asked + asked / 25 + list).contains(&grown), "{blocks} of {bytes}: {grown}, and not {asked}");
        program.hold(0, 0);
    }
    let after = program.ask(MallocKind::Glibc);
    assert!(after < before + (4 << 20), "{after}, and {before} before");
}

#[test]
#[cfg(target_env = "gnu")]
fn who_cannot_tell_says_why() {
    let program = Program::start(None);
    let ask = |kind| program.map.ask(kind, PATIENCE).unwrap_err();
    assert_eq!(ask(MallocKind::Jemalloc), Silence::NoFunction("mallctl"));
    assert_eq!(ask(MallocKind::Tcmalloc), Silence::NoFunction("MallocExtension_GetNumericProperty"));
    assert!(matches!(ask(MallocKind::Mimalloc), Silence::Untold(_)));
    assert_eq!(Map::create().unwrap().ask(MallocKind::Glibc, PATIENCE), Err(Silence::Nobody));
    let arenas = |kind| program.map.arenas(kind, PATIENCE).unwrap_err();
    assert_eq!(arenas(MallocKind::Jemalloc), Silence::NoFunction("mallctl"));
    assert!(matches!(arenas(MallocKind::Tcmalloc), Silence::Untold(_)));
    let profile = |kind| program.map.profile(kind, PATIENCE, &|| true).unwrap_err();
    assert_eq!(profile(MallocKind::Tcmalloc), Silence::NoFunction("HeapProfilerDump"));
    assert_eq!(profile(MallocKind::Jemalloc), Silence::NoFunction("mallctl"));
    assert_eq!(profile(MallocKind::Glibc), Silence::NoProfile("glibc"));
}

/// A program that has ended does not answer, and nobody waits for it for ever.
#[test]
#[cfg(target_env = "gnu")]
fn one_that_has_ended_is_not_waited_for_without_end() {
    let mut program = Program::start(None);
    program.child.kill().unwrap();
    program.child.wait().unwrap();
    let short = Duration::from_millis(50);
    assert_eq!(program.map.ask(MallocKind::Glibc, short), Err(Silence::Late(short)));
    let (long, began) = (Duration::from_secs(600), Instant::now());
    assert_eq!(program.map.profile(MallocKind::Tcmalloc, long, &|| false), Err(Silence::Ended));
    assert!(began.elapsed() < long / 10, "somebody who knows that it has ended does not wait");
}

#[test]
fn a_folder_that_the_loader_would_split_is_refused() {
    let home = tempfile::tempdir().unwrap();
    for name in ["a b", "a:b"] {
        let folder = home.path().join(name);
        let error = install(&folder).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("WRINGER_CACHE"), "{error}");
        assert!(!folder.exists(), "nothing is written");
    }
}
