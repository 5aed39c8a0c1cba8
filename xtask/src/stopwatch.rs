// SPDX-License-Identifier: Apache-2.0
//! Measures how long each test program runs. When cargo starts a program, it prints the program's name on standard error, and it starts one after the
//! other: so a program runs until the next one is named, or until cargo ends. What tests say when they panic is on standard error as well.

use crate::failures::Panics;
use std::io::{BufRead as _, BufReader, Read};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The name of a test program, and the time that it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) name: String,
    pub(crate) lasted: Duration,
}

/// What stands in the standard error of one cargo.
#[derive(Debug, Default)]
struct Heard {
    /// The programs, and when each one started.
    started: Vec<(String, Instant)>,
    panics: Panics,
}

/// Reads the standard error of one cargo.
pub(crate) struct Stopwatch {
    heard: Arc<Mutex<Heard>>,
    /// This channel is closed when there are no more lines to read.
    end: Receiver<()>,
}

/// How long to wait, after cargo has ended, for a process that has inherited cargo's standard error and still runs.
const LAST_WORDS: Duration = Duration::from_secs(2);

impl Stopwatch {
    /// Reads the lines, and prints each one on our own standard error, with `label` before it.
    pub(crate) fn listen(errors: impl Read + Send + 'static, label: &str) -> Self {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let (label, noted, (ending, end)) = (label.to_owned(), Arc::clone(&heard), channel());
        std::thread::spawn(move || {
            let _ending = ending;
            let (mut reader, mut bytes) = (BufReader::new(errors), Vec::new());
            while reader.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
                let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
                bytes.clear();
                noted.lock().unwrap_or_else(PoisonError::into_inner).line(&label, &line);
                eprintln!("{label}{line}");
            }
        });
        Self { heard, end }
    }

    /// The programs and their times, and the panics; call this when cargo has ended.
    pub(crate) fn stop(self) -> (Vec<Ran>, Panics) {
        let now = Instant::now();
        let _ = self.end.recv_timeout(LAST_WORDS);
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        (lasted(&heard.started, now), std::mem::take(&mut heard.panics))
    }
}

impl Heard {
    fn line(&mut self, label: &str, line: &str) {
        if let Some(name) = program_of(line) {
            self.started.push((format!("{label}{name}"), Instant::now()));
        }
        self.panics.hear(line);
    }
}

fn lasted(started: &[(String, Instant)], end: Instant) -> Vec<Ran> {
    let ends = started.iter().skip(1).map(|(_, next)| *next).chain([end]);
    let ran = |((name, start), end): (&(String, Instant), Instant)| Ran { name: name.clone(), lasted: end - *start };
    started.iter().zip(ends).map(ran).collect()
}

/// The program that a line of cargo names: `Running tests/faults/main.rs (target/debug/deps/faults-e39ba1c5)` names `faults (tests/faults/main.rs)`.
/// A line `Doc-tests units` names a program, too.
pub(crate) fn program_of(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(library) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{library} (examples in its documentation)"));
    }
    let (source, file) = line.strip_prefix("Running ")?.strip_suffix(')')?.rsplit_once(" (")?;
    let (name, _hash) = file.rsplit('/').next()?.rsplit_once('-')?;
    Some(format!("{name} ({source})"))
}

/// The `count` programs that took longest, each on its own line.
pub(crate) fn slowest(mut ran: Vec<Ran>, count: usize) -> String {
    ran.sort_by_key(|program| std::cmp::Reverse(program.lasted));
    ran.truncate(count);
    ran.iter().map(|program| format!("{:>6.0} s  {}\n", program.lasted.as_secs_f64(), program.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_what_cargo_says() {
        let of = |line: &str| program_of(line);
        let faults = "     Running tests/faults/main.rs (target/debug/deps/faults-e39ba1c5d2)";
        assert_eq!(of(faults).as_deref(), Some("faults (tests/faults/main.rs)"));
        let units = "     Running unittests src/lib.rs (/my target/debug/deps/units-0a)";
        assert_eq!(of(units).as_deref(), Some("units (unittests src/lib.rs)"));
        assert_eq!(of("   Doc-tests units").as_deref(), Some("units (examples in its documentation)"));
        for other in ["   Compiling units v0.1.0 (/work)", "    Finished `test` profile", "Running out of words"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn a_program_runs_until_the_next_one_is_named() {
        let (start, second) = (Instant::now(), |seconds| Duration::from_secs(seconds));
        let named = |name: &str, after: u64| (name.to_owned(), start + second(after));
        let ran = lasted(&[named("a", 0), named("b", 3), named("c", 4)], start + second(16));
        assert_eq!(slowest(ran, 2), "    12 s  c\n     3 s  a\n");
    }

    #[test]
    fn every_line_is_listened_to() {
        let said = "     Running a.rs (deps/a-1)\nwords of a\n     Running b.rs (deps/b-2)\n".as_bytes();
        let names: Vec<String> = Stopwatch::listen(said, "x: ").stop().0.into_iter().map(|ran| ran.name).collect();
        assert_eq!(names, ["x: a (a.rs)", "x: b (b.rs)"]);
    }
}
