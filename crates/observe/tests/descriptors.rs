// SPDX-License-Identifier: Apache-2.0
//! Few descriptors and many processes. The limit is that of this whole process, so there is one test here.

use evidence::{Point, SampleSink, Series, Snapshot, Span};
use host::clock::RunClock;
use host::open_files::{limits, open_now, raise};
use observe::{Observer, Options, process};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Boxed = Box<dyn std::error::Error + Send + Sync>;

/// Keeps how many threads the processes have, and says when a round is over.
#[derive(Clone)]
struct Threads(Arc<Mutex<Vec<f64>>>, Sender<()>);

impl SampleSink for Threads {
    fn declare(&mut self, series: &Series) -> Result<u32, Boxed> {
        Ok(u32::from(series.source == "process.stat" && series.name == "num_threads"))
    }

    fn points(&mut self, points: &[(u32, Point)]) -> Result<(), Boxed> {
        let wanted = points.iter().filter(|(number, _)| *number == 1).map(|(_, point)| point.value);
        self.0.lock().expect("no panic").extend(wanted);
        let _ = self.1.send(());
        Ok(())
    }

    fn snapshot(&mut self, _: &Snapshot) -> Result<(), Boxed> {
        Ok(())
    }

    fn span(&mut self, _: &Span) -> Result<(), Boxed> {
        Ok(())
    }
}

const CHILDREN: usize = 100;

/// A process with many children, which all end with its standard input.
#[allow(clippy::disallowed_methods)]
fn family() -> Child {
    let script = format!("exec 3<&0; for i in $(seq {CHILDREN}); do cat <&3 >&2 & done; echo; wait");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut parent = command.spawn().expect("starts");
    let mut told = parent.stdout.take().expect("is piped");
    std::io::Read::read_exact(&mut told, &mut [0]).expect("all are started");
    parent
}

fn rounds(seen: &Receiver<()>, count: usize) {
    (0..count).for_each(|_| seen.recv_timeout(Duration::from_secs(20)).expect("a round in time"));
}

#[test]
fn sums_are_of_all_processes_or_are_not_recorded() {
    let mut parent = family();
    let before = limits();
    // less than four files of each process
    assert!(raise(before, open_now() + 350));
    let (told, seen) = channel();
    let threads = Threads(Arc::default(), told);
    let options = Options { interval: Duration::from_millis(10), budget: 1000.0, ..Options::default() };
    let readers = process::readers("test", parent.id(), true);
    let observer = Observer::start(RunClock::start(), readers, threads.clone(), options).expect("starts");
    rounds(&seen, 3);
    let whole = threads.0.lock().expect("no panic").len();
    assert!(whole >= 3, "each round was read");
    assert!(raise(before, 3));
    rounds(&seen, 3);
    let notes = observer.stop().notes;
    assert!(raise(before, before.current.unwrap_or(u64::MAX)));
    drop(parent.stdin.take());
    parent.wait().expect("is reaped");
    assert!(notes.iter().any(|note| note.text.contains("Too many open files")), "{notes:?}");
    let counted = threads.0.lock().expect("no panic").clone();
    assert!(counted.iter().all(|count| *count == (CHILDREN + 1) as f64), "{counted:?}");
}
