// SPDX-License-Identifier: Apache-2.0
//! The witness of a slow loop device: direct reads through it, syncs, and the same without the delay. Nothing is written: the data is the
//! user's.

use crate::Error;
use crate::directory::{LOOKS, PROBE_TIME, or_as_before, read_once, within_tolerance};
use crate::disk::reads_within;
use crate::imitation::{Probed, hold};
use crate::probe::{self, tried};
use diskmodel::Model;
use evidence::{Delay, DelayMode, LatencyHistogram, Measured, Quantity};
use slowfs::control::Client;
use std::fs::File;
use std::path::Path;
use std::time::Instant;

const MECHANISM: &str = "loop device over FUSE";
/// What a read through loop device and FUSE costs beyond the image's own time, on a quiet machine. Shorter delays drown in it.
pub const FLOOR_US: u64 = 60;

/// Sets the disk model; reaches what is mounted. Leaves it in force, with what a probe of the device got.
///
/// # Errors
/// The server is gone, or the device cannot be read. [`Error::OutOfTolerance`]: three probes got something else;
/// [`Error::Refused`]: the disk would have to be faster than this host. The delay that was in force before is in force again then.
pub fn set_and_measure(socket: &Path, device: &Path, model: &Model) -> Result<Vec<Measured>, Error> {
    let measured = or_as_before(socket, |client| measure(client, device, model))?;
    let named = |it: Measured| Measured { mechanism: MECHANISM.into(), ..it };
    Ok(measured.into_iter().map(named).collect())
}

fn measure(client: &mut Client, device: &Path, model: &Model) -> Result<Vec<Measured>, Error> {
    let delay = model.delay();
    let mut found = Vec::new();
    if delay.varies {
        let opened = probe::open(device)?;
        found = hold(&mut Probed { client, file: &opened, path: device }, model)?;
    } else if delay.read_us > 0 {
        let opened = probe::open(device)?;
        let may = |undelayed: &LatencyHistogram| refuse_faster("read", delay.read_us, delay.mode, undelayed);
        let of_what = format!("of {}", device.display());
        found.push(tried(LOOKS, || Ok((read_once(client, (&opened, device), delay, &may, &of_what)?, ())))?.0);
    }
    if !delay.varies && delay.sync_us > 0 {
        found.push(sync_once(client, device, delay)?);
    }
    client.set_model(model)?;
    within_tolerance(found)
}

/// A sync of a device without unwritten pages is one flush.
fn sync_once(client: &mut Client, device: &Path, delay: Delay) -> Result<Measured, Error> {
    let file = File::open(device).map_err(Error::file("open", device))?;
    let times = |count: u32| -> Result<LatencyHistogram, Error> {
        let mut histogram = LatencyHistogram::new();
        for _ in 0..count {
            let start = Instant::now();
            file.sync_data().map_err(Error::file("sync", device))?;
            histogram.record(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        Ok(histogram)
    };
    client.set(Delay { sync_us: 0, ..delay })?;
    let undelayed = times(20)?;
    refuse_faster("sync", delay.sync_us, delay.mode, &undelayed)?;
    client.set(delay)?;
    let count = reads_within(PROBE_TIME, delay.sync_us).min(100);
    let got = times(count)?;
    let asked = delay.sync_us as f64;
    let predicted = match delay.mode {
        DelayMode::Add => asked + undelayed.median_us(),
        DelayMode::Total => asked.max(undelayed.median_us()),
    };
    Ok(Measured {
        at_us: 0,
        arm: None,
        what: "disk.sync.median".into(),
        mechanism: MECHANISM.into(),
        asked: Some(Quantity::micros(asked)),
        predicted: Some(Quantity::micros(predicted)),
        got: Some(Quantity::micros(got.median_us())),
        witness: format!("{} fdatasync of {}, one after the other", got.count(), device.display()),
        // what the disk itself takes for a flush differs from one moment to the next by as much as is asked
        within_tolerance: None,
        tolerance: None,
    })
}

/// In all cannot be less than what it takes without any delay.
fn refuse_faster(what: &str, asked_us: u64, mode: DelayMode, undelayed: &LatencyHistogram) -> Result<(), Error> {
    let floor_us = undelayed.median_us();
    if mode == DelayMode::Add || asked_us as f64 >= floor_us {
        return Ok(());
    }
    Err(Error::Refused {
        what: format!(
            "--mode total: a {what} of {asked_us} us cannot be had here: through a loop device it takes {floor_us:.0} us without any delay"
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
        assert!(refuse_faster("read", 50, DelayMode::Add, &floor).is_ok(), "on top of it");
        assert!(refuse_faster("read", 200, DelayMode::Total, &floor).is_ok());
        let said = refuse_faster("read", 50, DelayMode::Total, &floor).expect_err("too fast").to_string();
        assert!(said.contains("a read of 50 us cannot be had"), "{said}");
    }
}
