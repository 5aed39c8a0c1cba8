// SPDX-License-Identifier: Apache-2.0
//! How a slow layer ends: never by force while a process may have one of its files open. The layer gets a signal that asks it to end. It unmounts
//! itself as soon as nobody uses it, and ends when no mount of it is left in any mount namespace: then the kernel closes its connection.

use host::Error;
use host::change::{Served, who_uses};
use host::mounts::{Mark, OwnMount, serves_files};
use host::permit::Permit;
use host::process::{self, Identity, Process, StopRequest, Stopped};
use rustix::process::Signal;
use std::path::Path;
use std::time::{Duration, Instant};

/// When no user of the layer is seen, written data may still be on its way to the disk: then the wait is this many times as long as the patience.
const FLUSH_PATIENCES: u32 = 4;

/// The run's file system, with the mark that tells which mount of it is the run's own.
pub(crate) fn ours(folder: &Path, source: &str, fstype: &str) -> OwnMount {
    OwnMount { source: source.to_owned(), fstype: fstype.to_owned(), mark: Mark::read(folder) }
}

/// Whether one of these processes serves a file system.
pub(crate) fn served(processes: &[Identity]) -> Served {
    if processes.iter().any(|it| serves_files(it.pid)) { Served::Yes } else { Served::No }
}

/// Asks the layers to end; a layer that serves no file system is killed after `patience`.
///
/// # Errors
/// [`Error::InUse`]: a layer still serves; it ends when the named users have closed its files.
pub(crate) fn end(permit: &Permit, layers: &[Identity], ours: &OwnMount, patience: Duration) -> Result<Stopped, Error> {
    let open: Vec<Process> = layers.iter().copied().filter_map(Process::open).collect();
    if open.is_empty() {
        return Ok(Stopped::AlreadyGone);
    }
    for layer in &open {
        let _ = layer.signal(Signal::TERM);
        // a stopped process does not act on a signal
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
