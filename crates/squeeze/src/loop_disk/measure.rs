// SPDX-License-Identifier: Apache-2.0
//! The witness of a slow loop device: direct reads through it, syncs, and the same without the delay. Nothing is written, because
//! the data is the user's.

use crate::directory::or_as_before;
use crate::imitation::{Probed, hold};
use crate::looks::{LOOKS, Looked, Pace, timed};
use crate::probe::{self, Task};
use crate::{Error, accept, constant, way};
use diskmodel::Model;
use evidence::{Delay, DelayMode, DiskMechanism, LatencyHistogram, Measured, Quantity};
use slowfs::control::Client;
use slowfs::disk::{RESEND_SINCE, protocol};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// The cost of a read through loop device and FUSE beyond the image's own time, on a quiet machine. Shorter delays cannot be measured.
const FLOOR_US: u64 = 60;
/// A sync may be expensive for the disk below, so fewer are made.
const SYNCS: u32 = 40;

/// Sets the disk model, also for a mounted device, and leaves it in force. Returns a probe's results.
///
/// # Errors
/// The server is gone, or the device cannot be read. [`Error::OutOfTolerance`]: the result is missed
/// (`Measured::is_missed`); with `strict`, anything out of tolerance. [`Error::Refused`]: the disk would have to be faster than this host.
/// After an error the earlier delay is in force again.
pub(crate) fn set_and_measure(
    socket: &Path,
    device: &Path,
    model: &Model,
    strict: bool,
) -> Result<Vec<Measured>, Error> {
    let mut measured = or_as_before(socket, |client| measure(client, device, model, strict))?;
    measured.extend(way::measured(&mut Client::connect(socket)?, DiskMechanism::Loop.in_results())?);
    let named = |it: Measured| Measured { mechanism: DiskMechanism::Loop.in_results().into(), ..it };
    Ok(measured.into_iter().map(named).collect())
}

/// The same for a disk that is not made yet.
pub fn notes_here(model: &Model) -> Vec<String> {
    notes(model, protocol().is_none_or(|it| it >= RESEND_SINCE))
}

/// What users should know about this model on such a device; `resends`: the death of the process that serves it causes no I/O error.
pub fn notes(model: &Model, resends: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let delay = model.delay();
    if !delay.varies && [delay.read_us, delay.write_us].iter().any(|us| (1..FLOOR_US).contains(us)) {
        notes.push(format!(
            "loop device and FUSE alone cost a request some {FLOOR_US} us: a delay below that is not what is felt; a directory's layer costs 10 us"
        ));
    }
    if delay.write_us > 0 || delay.varies {
        notes.push("writes are not probed: nothing is written to your disk".into());
    }
    if delay.sync_us > 0 {
        notes.push(
            "a file system with a journal flushes a loop device before and after each commit: an fsync waits twice for --sync".into(),
        );
    }
    if !resends {
        notes.push(
            "this kernel is older than 6.9: if the process that serves the disk is killed, what is under way fails with an I/O error".into(),
        );
    }
    notes
}

fn measure(client: &mut Client, device: &Path, model: &Model, strict: bool) -> Result<Vec<Measured>, Error> {
    let delay = model.delay();
    let mut found = Vec::new();
    if delay.varies || delay.read_us > 0 {
        let file = &probe::open(device)?;
        let mut probed = Probed { client, file, path: device };
        if delay.varies {
            found = hold(&mut probed, model)?.accept(model, strict)?;
        } else {
            refuse_faster("read", delay.read_us, delay.mode, || undelayed(&mut probed, delay))?;
            found.push(constant::hold(&mut probed, delay, &format!("of {}", device.display()))?);
        }
    }
    if !delay.varies && delay.sync_us > 0 {
        found.push(syncs(client, device, delay)?);
    }
    client.set_model(model)?;
    accept(found, strict)
}

fn undelayed(probed: &mut Probed<'_>, delay: Delay) -> Result<LatencyHistogram, Error> {
    probed.client.set(Delay { read_us: 0, ..delay })?;
    let task = Task::short(300, 1, Duration::from_millis(250));
    Ok(probe::read(probed.file, probed.path, task)?.histogram)
}

/// A sync of a device without dirty pages is one flush.
fn syncs(client: &mut Client, device: &Path, delay: Delay) -> Result<Measured, Error> {
    let file = File::open(device).map_err(Error::file("open", device))?;
    let times = |task: Task| {
        let task = Task { reads: task.reads.min(SYNCS), ..task };
        timed(task, || file.sync_data().map_err(Error::file("sync", device)))
    };
    let pace = Pace::of(delay.sync_us as f64);
    let (mut bare, mut got) = (Looked::default(), Looked::default());
    for look in 0..LOOKS {
        client.set(Delay { sync_us: 0, ..delay })?;
        bare.add(&times(pace.bare())?);
        client.set(delay)?;
        got.add(&times(pace.look(look))?);
    }
    refuse_faster("sync", delay.sync_us, delay.mode, || Ok(bare.all.clone()))?;
    let asked = delay.sync_us as f64;
    let predicted = match delay.mode {
        DelayMode::Add => asked + bare.median_us(),
        DelayMode::Total => asked.max(bare.median_us()),
    };
    Ok(Measured {
        at_us: 0,
        arm: None,
        what: "disk.sync.median".into(),
        mechanism: DiskMechanism::Loop.in_results().into(),
        asked: Some(Quantity::micros(asked)),
        predicted: Some(Quantity::micros(predicted)),
        got: Some(Quantity::micros(got.median_us())),
        witness: format!("{} fdatasync of {} in {LOOKS} looks, one after the other", got.all.count(), device.display()),
        // The disk's own time for a flush varies by as much as the asked delay.
        within_tolerance: None,
        tolerance: None,
        looks: Some(got.looks()),
        came_on: None,
    })
}

/// A total time cannot be shorter than the time without any delay.
fn refuse_faster(
    what: &str,
    asked_us: u64,
    mode: DelayMode,
    undelayed: impl FnOnce() -> Result<LatencyHistogram, Error>,
) -> Result<(), Error> {
    if mode == DelayMode::Add {
        return Ok(());
    }
    let floor_us = undelayed()?.median_us();
    if asked_us as f64 >= floor_us {
        return Ok(());
    }
    Err(Error::Refused {
        what: format!(
            "--mode total: a {what} of {asked_us} us is not possible here: through a loop device a {what} takes {floor_us:.0} us even without any delay"
        ),
        hint: "ask for more, or slow a directory down: the FUSE layer costs some 10 us".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_faster_than_its_floor() {
        let mut floor = LatencyHistogram::new();
        floor.record_n(110_000, 10);
        assert!(refuse_faster("read", 50, DelayMode::Add, || Ok(floor.clone())).is_ok(), "on top of it");
        assert!(refuse_faster("read", 200, DelayMode::Total, || Ok(floor.clone())).is_ok());
        let said = refuse_faster("read", 50, DelayMode::Total, || Ok(floor.clone())).expect_err("too fast").to_string();
        assert!(said.contains("a read of 50 us is not possible"), "{said}");
    }
}
