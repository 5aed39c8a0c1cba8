// SPDX-License-Identifier: Apache-2.0
//! How a slow layer ends: never by force while somebody may have a file of it. It is asked to leave, takes its own mount away as soon as nobody is
//! in the way, and ends when the kernel closes its connection: when no mount of it is left in any mount namespace.

use host::Error;
use host::change::{Served, who_uses};
use host::mounts::{Mark, Ours, serves_files};
use host::permit::Permit;
use host::process::{self, Identity, Process, StopRequest, Stopped};
use rustix::process::Signal;
use std::path::Path;
use std::time::{Duration, Instant};

/// When nobody is seen, what was written may be on its way to the disk: so many times the patience with others. Who tries again after another
/// has waited has less.
const FLUSH_PATIENCES: u32 = 4;

/// The run's file system, and which mount of it is the run's own.
pub(crate) fn ours(folder: &Path, source: &str, fstype: &str) -> Ours {
    Ours { source: source.to_owned(), fstype: fstype.to_owned(), mark: Mark::read(folder) }
}

/// Whether one of these serves a file system.
pub(crate) fn served(processes: &[Identity]) -> Served {
    if processes.iter().any(|it| serves_files(it.pid)) { Served::Yes } else { Served::No }
}

/// Asks them to end; who serves no file system is killed after `patience`.
///
/// # Errors
/// [`Error::InUse`]: one serves on, and ends when those who are named have let go.
pub(crate) fn end(permit: &Permit, layers: &[Identity], ours: &Ours, patience: Duration) -> Result<Stopped, Error> {
    let open: Vec<Process> = layers.iter().copied().filter_map(Process::open).collect();
    if open.is_empty() {
        return Ok(Stopped::AlreadyGone);
    }
    for layer in &open {
        let _ = layer.signal(Signal::TERM);
        // one that somebody stopped would never hear it
        let _ = layer.signal(Signal::CONT);
    }
    let left = those_left(open, Instant::now() + patience);
    if !left.iter().any(serves) {
        let left: Vec<Identity> = left.iter().map(Process::identity).collect();
        return if left.is_empty() { Ok(Stopped::Cleanly) } else { process::stop(permit, &left, StopRequest::KILL) };
    }
    let mut by = who_uses(ours)?;
    let left = if by.is_empty() { those_left(left, Instant::now() + patience * FLUSH_PATIENCES) } else { left };
    let Some(layer) = left.iter().find(|layer| serves(layer)) else { return Ok(Stopped::Cleanly) };
    if by.is_empty() {
        by.push("a file of it is open, or it is mounted, where it cannot be seen from here".to_owned());
    }
    Err(Error::InUse { path: format!("the slow layer (process {})", layer.identity().pid).into(), by })
}

fn serves(layer: &Process) -> bool {
    serves_files(layer.identity().pid)
}

fn those_left(layers: Vec<Process>, deadline: Instant) -> Vec<Process> {
    layers.into_iter().filter(|layer| !ends_before(layer, deadline)).collect()
}

fn ends_before(layer: &Process, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if layer.wait(left.min(Duration::from_millis(100))) {
            return true;
        }
        if left.is_zero() || host::interrupt::impatient() {
            return false;
        }
    }
}
