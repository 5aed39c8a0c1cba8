// SPDX-License-Identifier: Apache-2.0
//! A slow block device over another one: the kernel's device-mapper with its delay target, as `dmsetup create ... delay` makes it.
//!
//! In: an unused device, and whole milliseconds. Out: `/dev/mapper/wringer-<run>-<device>`, for the user to format or to mount, and a probe's
//! results beside the prediction from this kernel's ticks. The kernel serves it, and no process: so killing a process cannot make it fail.

mod measure;
mod objections;
mod timing;

use measure::set_and_measure;
pub use objections::{check, delays};
pub(crate) use objections::{check_unused, users_of_device};
pub use timing::Timing;

use crate::Error;
use evidence::{Delay, DelayMode, Measured};
use host::change::mapping::{make_mapping, set_table};
use host::mapper::{DelayTable, Mapping};
use host::places::Places;
use run::{Run, RunId, Step, StepId};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A block device that [`check`] has accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The canonical path.
    pub path: PathBuf,
    /// The device number: `7:0`.
    pub numbers: String,
    /// Sectors of 512 bytes.
    pub sectors: u64,
}

/// The delay of each class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delays {
    pub read_ms: u32,
    pub write_ms: u32,
    pub sync_ms: u32,
}

impl Device {
    pub fn table(&self, delays: Delays) -> DelayTable {
        let Delays { read_ms, write_ms, sync_ms } = delays;
        DelayTable { sectors: self.sectors, device: self.numbers.clone(), read_ms, write_ms, flush_ms: sync_ms }
    }
}

/// What a table of device-mapper adds to each class of request.
pub fn delay_of(table: &DelayTable) -> Delay {
    let us = |ms: u32| u64::from(ms) * 1000;
    let (read_us, write_us, sync_us) = (us(table.read_ms), us(table.write_ms), us(table.flush_ms));
    Delay { read_us, write_us, sync_us, mode: DelayMode::Add, varies: false }
}

/// `wringer-w-20261120-201530-4f2a-loop0`: the list of the host's mappings shows to which run it belongs.
pub fn mapping_of(run: &RunId, device: &Path) -> Mapping {
    let name = device.file_name().unwrap_or_default().to_string_lossy();
    let plain: String = name.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '_' }).take(32).collect();
    Mapping { name: format!("wringer-{run}-{plain}"), uuid: format!("WRINGER-{run}-{plain}") }
}

/// A slow device that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowDevice {
    pub mapping: Mapping,
    /// The device below it.
    pub device: PathBuf,
    pub run: RunId,
    pub step: StepId,
}

impl SlowDevice {
    /// Makes the mapping, without a delay yet.
    ///
    /// # Errors
    /// A program uses the device by now. Finished parts of the mapping are undone with the run.
    pub fn start(run: &mut Run, device: &Device) -> Result<Self, Error> {
        let mapping = mapping_of(run.id(), &device.path);
        let table = device.table(Delays { read_ms: 0, write_ms: 0, sync_ms: 0 });
        let (name, uuid) = (mapping.name.clone(), mapping.uuid.clone());
        let step = Step::Mapping { name, uuid, device: device.path.clone() };
        let (step, ()) = run.step(step, |permit| make_mapping(permit, &mapping, &table)).map_err(taken(device))?;
        Ok(Self { mapping, device: device.path.clone(), run: run.id().clone(), step })
    }

    /// Changes the delay, also while the device is mounted; waiting requests are passed down at once. Returns probes' results.
    ///
    /// # Errors
    /// The run has ended meanwhile, the kernel does not take the table, or the device cannot be read. [`Error::OutOfTolerance`]: as
    /// [`measure::set_and_measure`] has it. After an error the earlier delay is in force again.
    pub fn set(
        &self,
        places: &Places,
        delays: Delays,
        timing: &Timing,
        strict: bool,
    ) -> Result<(DelayTable, Vec<Measured>), Error> {
        run::change_live_step(places, &self.run, self.step, |permit| {
            let Some(now) = self.mapping.status()?.and_then(|status| status.table) else {
                let what = format!("{} has no delay table any more", self.mapping.name);
                return Err(Error::Refused { what, hint: "`wringer undo` ends this run".into() });
            };
            let Delays { read_ms, write_ms, sync_ms } = delays;
            let table = DelayTable { read_ms, write_ms, flush_ms: sync_ms, ..now.clone() };
            match set_and_measure(permit, &self.mapping, &self.device, &table, timing, strict) {
                Ok(measured) => Ok((table, measured)),
                Err(error) => {
                    set_table(permit, &self.mapping, &now)?;
                    Err(error)
                }
            }
        })
    }
}

/// The error when a program opens the device between our check and the kernel's check.
fn taken(device: &Device) -> impl FnOnce(run::Error) -> Error {
    move |error| match error {
        run::Error::Host(error) if error.errno() == Some(libc::EBUSY) => Error::Refused {
            what: format!("somebody has taken {} into use meanwhile", device.path.display()),
            hint: "`lsblk` shows what is mounted".into(),
        },
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_says_whose_it_is() {
        let run = RunId::new(1_795_205_730, 0x4f2a);
        let mapping = mapping_of(&run, Path::new("/dev/cciss!c0d0"));
        assert_eq!(mapping.name, "wringer-w-20261120-201530-4f2a-cciss_c0d0");
        assert_eq!(mapping.uuid, "WRINGER-w-20261120-201530-4f2a-cciss_c0d0");
        assert_eq!(mapping.path(), Path::new("/dev/mapper/wringer-w-20261120-201530-4f2a-cciss_c0d0"));
    }
}
