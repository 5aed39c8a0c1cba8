// SPDX-License-Identifier: Apache-2.0
//! Squeezes of the whole host that stay in force for a stated time, as commands print them: hidden RAM, huge pages for a server, and storage that is
//! slow for everybody. All end with their run.
//!
//! A [`Report`] has the asked values beside the measured ones. A supervisor sends it to the command that has started it; a change of a slow disk
//! returns the same type.

use crate::Error;
use crate::device::{Delays, SlowDevice, Timing, delay_of};
use crate::directory;
use crate::loop_disk;
use crate::ram::{self, GrantedPages, Hidden, Node, Traits, holder::Held};
use diskmodel::Model;
use evidence::{Delay, DiskMechanism, Measured};
use host::places::Places;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use units::Span;

/// A squeeze in force, with its results.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    Ram(HiddenRam),
    HugePages(GrantedPages),
    Directory(SlowedDirectory),
    Device(SlowedDevice),
    Image(SlowedImage),
}

impl Report {
    pub(crate) fn measured(&self) -> &[Measured] {
        match self {
            Self::Ram(ram) => &ram.measured,
            Self::HugePages(_) => &[],
            Self::Directory(slowed) => &slowed.measured,
            Self::Device(slowed) => &slowed.measured,
            Self::Image(slowed) => &slowed.measured,
        }
    }
}

/// Converts a [`Report`] to the type of its squeeze; a [`Report`] of another squeeze comes back as the error.
macro_rules! only {
    ($($squeeze:ident: $inside:ty),+ $(,)?) => {
        $(impl TryFrom<Report> for $inside {
            type Error = Report;

            fn try_from(report: Report) -> Result<Self, Report> {
                match report {
                    Report::$squeeze(inside) => Ok(inside),
                    other => Err(other),
                }
            }
        })+
    };
}

only!(Ram: HiddenRam, HugePages: GrantedPages, Directory: SlowedDirectory, Device: SlowedDevice, Image: SlowedImage);

/// RAM that is hidden from the whole host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HiddenRam {
    /// The mechanism's name in results.
    pub mechanism: String,
    pub traits: Traits,
    pub hidden_bytes: u64,
    pub available_before_bytes: u64,
    pub available_after_bytes: u64,
    pub elapsed_us: u64,
    /// The pages that each NUMA node gave to a pool; empty for other mechanisms.
    pub nodes: Vec<Node>,
    pub holder: Option<Held>,
    pub measured: Vec<Measured>,
    /// RAM that other programs took or gave back meanwhile, in words.
    pub remainder: Option<String>,
    /// Why less RAM is hidden than asked, in words.
    pub shortage: Option<String>,
}

impl HiddenRam {
    pub fn of(hidden: &Hidden) -> Self {
        Self {
            mechanism: hidden.mechanism.in_results().into(),
            traits: hidden.traits(),
            hidden_bytes: hidden.bytes,
            available_before_bytes: hidden.before.available_bytes,
            available_after_bytes: hidden.after.available_bytes,
            elapsed_us: Span(hidden.elapsed).as_us(),
            nodes: hidden.nodes.clone(),
            holder: hidden.holder.clone(),
            measured: hidden.measured.clone(),
            remainder: ram::remainder(&hidden.measured),
            shortage: ram::shortage(&hidden.measured),
        }
    }
}

/// A directory that is slow for everybody.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SlowedDirectory {
    pub directory: PathBuf,
    pub delay: Delay,
    pub model: Model,
    pub measured: Vec<Measured>,
}

impl SlowedDirectory {
    /// Sets the disk model of the running layer that listens at `socket`.
    ///
    /// # Errors
    /// Those of [`directory::set_and_measure`].
    pub(crate) fn set(socket: &Path, directory: &Path, model: &Model, strict: bool) -> Result<Self, Error> {
        let measured = directory::set_and_measure(socket, directory, model, strict)?;
        Ok(Self { directory: directory.to_owned(), delay: model.delay(), model: model.clone(), measured })
    }
}

/// A device of device-mapper over an unused device.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SlowedDevice {
    /// The device below it.
    pub device: PathBuf,
    pub mapped: PathBuf,
    pub mechanism: String,
    /// The kernel counts a delay in ticks of this length.
    pub tick_us: u64,
    pub delay: Delay,
    /// The table, as `dmsetup table` prints it.
    pub table: String,
    pub measured: Vec<Measured>,
    pub notes: Vec<String>,
}

impl SlowedDevice {
    /// Puts delays in force on a device that exists, also while it is mounted.
    ///
    /// # Errors
    /// [`Error::Refused`]: the kernel's delay target is not loaded. The errors of [`SlowDevice::set`].
    pub(crate) fn set(places: &Places, slow: &SlowDevice, delays: Delays, strict: bool) -> Result<Self, Error> {
        let Some(timing) = Timing::here()? else {
            let what = "device-mapper's delay target is not loaded".to_owned();
            return Err(Error::Refused { what, hint: "as root: modprobe dm-delay".into() });
        };
        let (table, measured) = slow.set(places, delays, &timing, strict)?;
        let mut notes = timing.notes(&table);
        if table.write_ms > 0 {
            notes.push("writes are not probed: nothing is written to your device".into());
        }
        Ok(Self {
            device: slow.device.clone(),
            mapped: slow.mapping.path(),
            mechanism: timing.mechanism(),
            tick_us: timing.tick_us,
            delay: delay_of(&table),
            table: table.to_string(),
            measured,
            notes,
        })
    }
}

/// A loop device over an image file, or over an unused block device.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SlowedImage {
    pub image: PathBuf,
    pub device: PathBuf,
    pub mechanism: String,
    pub delay: Delay,
    pub model: Model,
    pub measured: Vec<Measured>,
    /// Whether the device survives the death of the process that serves it without an I/O error.
    pub survives_its_process: bool,
    pub notes: Vec<String>,
}

impl SlowedImage {
    /// Sets the disk model of the running server whose sockets are in `folder`, also while the device is mounted.
    ///
    /// # Errors
    /// Those of [`loop_disk::set_and_measure`].
    pub(crate) fn set(
        folder: &Path,
        image: &Path,
        device: &Path,
        model: &Model,
        resends: bool,
        strict: bool,
    ) -> Result<Self, Error> {
        let [worker, _] = loop_disk::sockets(folder);
        let measured = loop_disk::set_and_measure(&worker, device, model, strict)?;
        Ok(Self {
            image: image.to_owned(),
            device: device.to_owned(),
            mechanism: DiskMechanism::Loop.name().into(),
            delay: model.delay(),
            model: model.clone(),
            measured,
            survives_its_process: resends,
            notes: loop_disk::notes(model, resends),
        })
    }
}
