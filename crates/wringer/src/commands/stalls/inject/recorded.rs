// SPDX-License-Identifier: Apache-2.0
//! `--to FOLDER`: the server is watched while stalls are planted. One recording has both, on one clock: what was planted, and what the watch saw of it.
//! The watch is not told what is planted.

use crate::commands::connection::{Connection, whose};
use crate::commands::stalls::watch::kept::{Kept, check};
use crate::commands::stalls::watch::refused;
use crate::exit::{Failure, Outcome};
use ::inject::{Conducted, Error, Injected};
use ::observe::stalls::{Finished, Options, Watcher};
use ::run::Run;
use attach::Attached;
use evidence::{PLANTED, Span};
use host::clock::RunClock;
use host::places::Places;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Where the recording goes, and how the server is watched.
#[derive(Debug, clap::Args)]
pub(super) struct To {
    /// Also watch the server's threads, as `stalls watch` does, and record both in this folder: what was planted, and the stalls that the watch saw.
    /// `stalls explain FOLDER` lists these
    #[arg(long = "to", value_name = "FOLDER", conflicts_with_all = ["list", "dry_run"])]
    folder: Option<PathBuf>,
    /// Replace the results of an earlier run in that folder
    #[arg(long, requires = "folder")]
    force: bool,
    /// With --to: watch as `stalls watch --deep` does, for stalls of 20 ms and more instead of 50 ms
    #[arg(long, requires = "folder")]
    deep: bool,
}

/// Watching goes on for so long after the last stall, so that its waits are seen to end.
const AFTERWARDS: Duration = Duration::from_millis(300);

impl To {
    /// `None`: nothing is recorded.
    ///
    /// # Errors
    /// The folder is in the way; or the server's threads cannot be seen.
    pub(super) fn start(&self, connection: &Connection, places: &Places) -> Result<Option<Recorded>, Failure> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let output = check(folder, self.force, places)?;
        let mut attached = connection.attach(None, places)?;
        let clock = RunClock::start();
        let options =
            Options { slow_log: true, raw: true, clock: Some(clock), ..Options::of_tier(None, self.deep, false) };
        let watcher = attached.stalls(&options).map_err(refused)?.ok_or_else(|| whose("stalls"))?;
        let kept = Kept::start(output, &mut attached, clock)?;
        Ok(Some(Recorded { attached, watcher, kept, clock }))
    }
}

/// A watch that is recorded.
pub(super) struct Recorded {
    attached: Attached,
    watcher: Watcher,
    kept: Kept,
    clock: RunClock,
}

impl Recorded {
    /// Watches while `conduct` plants its stalls, and records both. `told` is called with each stall that is over. Returns what `conduct` returned; and whether the
    /// recording could be closed.
    pub(super) fn beside(
        mut self,
        conduct: impl FnOnce(&(dyn Fn(&Injected) + Sync)) -> Result<(Conducted, Run), Error> + Send,
        told: &(dyn Fn(&Injected) + Sync),
    ) -> (Result<(Conducted, Run), Error>, Outcome) {
        let (sender, planted) = channel();
        let conducted = thread::scope(|scope| {
            let tell = move |injected: &Injected| {
                told(injected);
                // nobody takes it when the watch has failed
                let _ = sender.send(injected.clone());
            };
            let conducting = scope.spawn(move || conduct(&tell));
            self.watch(&planted, || conducting.is_finished());
            conducting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let has_ended = self.attached.process().is_some_and(|process| !process.is_alive());
        let Finished { last, watched, spans } = self.watcher.finish();
        self.kept.spans(spans);
        last.iter().for_each(|stall| self.kept.stall(stall));
        (conducted, self.kept.end(&watched, &mut self.attached, has_ended))
    }

    fn watch(&mut self, planted: &Receiver<Injected>, is_over: impl Fn() -> bool) {
        let mut over: Option<Instant> = None;
        while over.is_none_or(|over| over.elapsed() < AFTERWARDS) {
            self.watcher.round().iter().for_each(|stall| self.kept.stall(stall));
            let planted = planted.try_iter().map(|injected| span(&injected, self.clock));
            self.kept.spans(self.watcher.spans().into_iter().chain(planted).collect());
            if over.is_none() && is_over() {
                over = Some(Instant::now());
            }
        }
    }
}

/// A stall that did not begin has no length, and lies where that was known.
fn span(injected: &Injected, clock: RunClock) -> Span {
    let began_us = injected.started_us.map(|unix_us| unix_us.saturating_sub(clock.started_unix_us()));
    let from_us = began_us.unwrap_or_else(|| clock.now_us());
    Span {
        from_us,
        to_us: from_us.saturating_add(injected.length_us.unwrap_or(0)),
        kind: PLANTED.to_owned(),
        entity: String::new(),
        attributes: injected.attributes(),
    }
}
