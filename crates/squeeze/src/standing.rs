// SPDX-License-Identifier: Apache-2.0
//! Squeezes of the whole host that stay in force for a stated time: hidden RAM, huge pages for a server, and storage that is slow for everybody.
//!
//! In: [`Asked`], made of values that a check has accepted. Out: [`InForce`], the asked values beside the measured ones, as commands print them. A
//! change of a squeeze in force returns the same type. All squeezes end with the run.

use crate::Error;
use crate::device::{Delays, Device, SlowDevice, Timing};
use crate::directory::{self, SlowDirectory};
use crate::loop_disk::{self, Image, SlowDisk};
use crate::ram::{self, GrantedPages, Hidden, Node, ServerPages, Traits, holder::Held};
use diskmodel::Model;
use evidence::{Delay, DelayMode, DiskMechanism, Measured};
use host::mapper::DelayTable;
use host::places::Places;
use run::{Resource, Run};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use units::Span;

/// The squeeze that is asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    Ram(Box<ram::Plan>),
    HugePages(Box<ServerPages>),
    Directory { directory: PathBuf, model: Box<Model> },
    Device { device: Device, delays: Delays },
    Image { image: Image, model: Box<Model> },
}

/// A squeeze in force, with its results.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InForce {
    Ram(HiddenRam),
    HugePages(GrantedPages),
    Directory(SlowedDirectory),
    Device(SlowedDevice),
    Image(SlowedImage),
}

impl Asked {
    /// The resource that no other run may squeeze meanwhile.
    pub fn resource(&self) -> Resource {
        match self {
            Self::Ram(_) | Self::HugePages(_) => Resource::HostRam,
            Self::Directory { directory, .. } => Resource::Directory(directory.clone()),
            Self::Device { device, .. } => Resource::Device(device.path.clone()),
            Self::Image { image, .. } if image.is_device => Resource::Device(image.path.clone()),
            Self::Image { image, .. } => Resource::Image(image.path.clone()),
        }
    }

    /// All resources that only this run may have meanwhile; [`Asked::resource`] comes first.
    pub fn resources(&self) -> Vec<Resource> {
        let more = matches!(self, Self::HugePages(_)).then_some(Resource::HugePages);
        [self.resource()].into_iter().chain(more).collect()
    }

    /// Puts the squeeze in force, and measures it.
    ///
    /// # Errors
    /// The squeeze cannot be made, or its result is less than half or more than twice of what was asked; with `strict`, any result out of its
    /// tolerance. Finished parts are undone with the run.
    pub fn apply(&self, run: &mut Run, places: &Places, strict: bool) -> Result<InForce, Error> {
        match self {
            Self::Ram(plan) => Ok(InForce::Ram(HiddenRam::of(&ram::hide(run, plan)?))),
            Self::HugePages(pages) => Ok(InForce::HugePages(pages.apply(run)?)),
            Self::Directory { directory, model } => {
                let slow = SlowDirectory::start(run, directory)?;
                SlowedDirectory::set(&slow.socket, directory, model, strict).map(InForce::Directory)
            }
            Self::Device { device, delays } => {
                let slow = SlowDevice::start(run, device)?;
                SlowedDevice::set(places, &slow, *delays, strict).map(InForce::Device)
            }
            Self::Image { image, model } => {
                let loop_disk::Started { disk, device, resends, folder, .. } = SlowDisk::start(run, image)?;
                SlowedImage::set(&folder, &disk.image, &device.path, model, resends, strict).map(InForce::Image)
            }
        }
    }
}

/// Converts an [`InForce`] to the type of its squeeze; an [`InForce`] of another squeeze comes back as the error.
macro_rules! only {
    ($($squeeze:ident: $inside:ty),+ $(,)?) => {
        $(impl TryFrom<InForce> for $inside {
            type Error = InForce;

            fn try_from(in_force: InForce) -> Result<Self, InForce> {
                match in_force {
                    InForce::$squeeze(inside) => Ok(inside),
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
    pub fn set(socket: &Path, directory: &Path, model: &Model, strict: bool) -> Result<Self, Error> {
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
    pub fn set(places: &Places, slow: &SlowDevice, delays: Delays, strict: bool) -> Result<Self, Error> {
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

/// What a table of device-mapper adds to each class of request.
pub fn delay_of(table: &DelayTable) -> Delay {
    let us = |ms: u32| u64::from(ms) * 1000;
    let (read_us, write_us, sync_us) = (us(table.read_ms), us(table.write_ms), us(table.flush_ms));
    Delay { read_us, write_us, sync_us, mode: DelayMode::Add, varies: false }
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
    pub fn set(
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
