// SPDX-License-Identifier: Apache-2.0
//! A squeeze that this machine can make, whatever its mechanism: the first of the five verbs *plan*, *apply*, *measure*, *change* and *release*.
//!
//! In: what is asked. Each function that makes a [`Plan`] checks it, and refuses what this machine cannot do. Out: the resources that the squeeze
//! takes, its changes with their undo, and notes. Nothing is changed yet: [`crate::Squeezes::apply`] does that.

use crate::device::{self, Delays, Device, delay_of};
use crate::directory::{self, FILE_SYSTEM};
use crate::layer_plan::{LayerPlan, Owner};
use crate::limits::{self, LimitRequest, OptionNames};
use crate::loop_disk::{self, Image};
use crate::ram::{self, Change, ServerPages, Wish};
use crate::{Error, access_lists, databases, preloaded};
use diskmodel::Model;
use evidence::{Delay, DiskMechanism};
use host::places::Places;
use host::process::Server;
use run::Resource;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The kinds of squeezes. A program has at most one of each kind, but for slow disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Ram,
    HugePages,
    Limits,
    Disk,
}

/// A planned squeeze. Those of the whole host are sent to a supervisor; those of one program are applied where they were planned.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plan {
    /// RAM of the whole host.
    Ram(Box<ram::Plan>),
    /// Huge pages for a server.
    HugePages(Box<ServerPages>),
    /// RAM, swap and CPUs of one program.
    #[serde(skip)]
    Limits(Box<limits::Plan>),
    /// A slow directory, for one program alone.
    #[serde(skip)]
    Layer(Box<LayerPlan>),
    /// A slow directory, for everybody.
    Directory { directory: PathBuf, model: Box<Model> },
    /// A slow block device by device-mapper.
    Device { device: Device, delays: Delays },
    /// A slow image or block device by a loop device.
    Image { image: Image, model: Box<Model> },
}

impl Plan {
    /// # Errors
    /// Those of [`ram::plan`].
    pub fn ram(options: &ram::Options) -> Result<Self, Error> {
        Ok(Self::Ram(Box::new(ram::plan(options)?)))
    }

    /// # Errors
    /// Those of [`ServerPages::plan`].
    pub fn huge_pages(wish: &Wish) -> Result<Self, Error> {
        Ok(Self::HugePages(Box::new(ServerPages::plan(wish)?)))
    }

    /// # Errors
    /// Those of [`limits::plan`].
    pub fn limits(asked: &LimitRequest, names: OptionNames) -> Result<Self, Error> {
        Ok(Self::Limits(Box::new(limits::plan(asked, names)?)))
    }

    /// A slow disk below the data of a server that is stopped.
    ///
    /// # Errors
    /// [`Error::Refused`]: the layer cannot keep the access rights of these files.
    pub fn disk_of_server(data: &Path, mechanism: DiskMechanism, places: &Places) -> Result<Self, Error> {
        let note = match mechanism {
            DiskMechanism::Preload => None,
            _ => access_lists::refuse(data)?,
        };
        let library = preloaded::library_folder(places);
        let owner = Owner::Server;
        Ok(Self::Layer(Box::new(LayerPlan { directory: data.to_owned(), mechanism, owner, library, note })))
    }

    /// A slow disk below a user's directory, for one command.
    ///
    /// # Errors
    /// [`Error::Refused`]: the directory cannot be slowed down by this mechanism.
    pub fn disk_of_command(
        directory: &Path,
        mechanism: DiskMechanism,
        model: Model,
        others: &[Server],
        places: &Places,
    ) -> Result<Self, Error> {
        let (directory, note) = match mechanism {
            DiskMechanism::Preload => (preloaded::check_directory(directory)?, None),
            _ => {
                let path = directory::check_for_command(directory, others)?;
                let unknown = access_lists::refuse(&path)?;
                (path, unknown)
            }
        };
        let library = preloaded::library_folder(places);
        let owner = Owner::Command { model: Box::new(model) };
        Ok(Self::Layer(Box::new(LayerPlan { directory, mechanism, owner, library, note })))
    }

    /// A disk that is slow for everybody.
    ///
    /// # Errors
    /// [`Error::Refused`]: the directory, device or image cannot be slowed down by this mechanism.
    pub fn disk_of_all(path: &Path, mechanism: DiskMechanism, model: &Model, places: &Places) -> Result<Self, Error> {
        let boxed = || Box::new(model.clone());
        match mechanism {
            DiskMechanism::DeviceMapper => {
                let delays = device::delays(model, path)?;
                Ok(Self::Device { device: device::check(path)?, delays })
            }
            DiskMechanism::Loop => Ok(Self::Image { image: loop_disk::check(path)?, model: boxed() }),
            DiskMechanism::Fuse | DiskMechanism::Preload => {
                let directory = directory::check(path, &databases::unknown(places)?)?;
                Ok(Self::Directory { directory, model: boxed() })
            }
        }
    }

    /// For limits that a run makes one after the other.
    #[must_use]
    pub fn numbered(self, number: u32) -> Self {
        match self {
            Self::Limits(plan) => Self::Limits(Box::new(plan.numbered(number))),
            other => other,
        }
    }

    /// Lets processes that a command leaves running live on, without its limits.
    ///
    /// # Errors
    /// Those of [`limits::Plan::leaving`].
    pub fn leaving(self) -> Result<Self, Error> {
        match self {
            Self::Limits(plan) => Ok(Self::Limits(Box::new(plan.leaving()?))),
            other => Ok(other),
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Self::Ram(_) => Kind::Ram,
            Self::HugePages(_) => Kind::HugePages,
            Self::Limits(_) => Kind::Limits,
            Self::Layer(_) | Self::Directory { .. } | Self::Device { .. } | Self::Image { .. } => Kind::Disk,
        }
    }

    /// The resources that no other run may squeeze meanwhile.
    pub fn resources(&self) -> Vec<Resource> {
        match self {
            Self::Ram(_) => vec![Resource::HostRam],
            Self::HugePages(_) => vec![Resource::HostRam, Resource::HugePages],
            // a program's own cgroups
            Self::Limits(_) => Vec::new(),
            Self::Layer(layer) => vec![Resource::Directory(layer.directory.clone())],
            Self::Directory { directory, .. } => vec![Resource::Directory(directory.clone())],
            Self::Device { device, .. } => vec![Resource::Device(device.path.clone())],
            Self::Image { image, .. } if image.is_device => vec![Resource::Device(image.path.clone())],
            Self::Image { image, .. } => vec![Resource::Image(image.path.clone())],
        }
    }

    /// Whether the host is as asked already.
    pub fn is_nothing(&self) -> bool {
        match self {
            Self::Ram(plan) => plan.is_nothing(),
            Self::HugePages(pages) => pages.plan.is_nothing(),
            _ => false,
        }
    }

    /// Facts that the user should know; they forbid nothing.
    ///
    /// # Errors
    /// The kernel's ticks cannot be read.
    pub fn notes(&self) -> Result<Vec<String>, Error> {
        Ok(match self {
            Self::Ram(plan) => plan.warnings.clone(),
            Self::Limits(plan) => plan.notes.clone(),
            Self::Layer(layer) => layer.note.iter().cloned().collect(),
            Self::Device { device, delays } => {
                device::Timing::here()?.map(|timing| timing.notes(&device.table(*delays))).unwrap_or_default()
            }
            Self::Image { model, .. } => loop_disk::notes_here(model),
            Self::HugePages(_) | Self::Directory { .. } => Vec::new(),
        })
    }

    /// What a disk that is slow for everybody adds to each class of request. `None`: this is no such disk.
    pub fn delay(&self) -> Option<Delay> {
        match self {
            Self::Directory { model, .. } | Self::Image { model, .. } => Some(model.delay()),
            Self::Device { device, delays } => Some(delay_of(&device.table(*delays))),
            Self::Ram(_) | Self::HugePages(_) | Self::Limits(_) | Self::Layer(_) => None,
        }
    }

    /// Each change with its undo, in the order in which they are made.
    pub fn changes(&self) -> Vec<Change> {
        match self {
            Self::Ram(plan) => plan.changes(),
            Self::HugePages(pages) => pages.plan.changes(),
            Self::Limits(plan) => plan.changes(),
            Self::Layer(layer) => vec![layer.change()],
            Self::Directory { directory, model } => vec![Change {
                change: format!("a slow layer ({FILE_SYSTEM}) is mounted over {}: {model}", directory.display()),
                undo: "the delay goes to 0 at once; it is unmounted when nobody uses it, and the layer ends".into(),
            }],
            Self::Device { device, delays } => vec![Change {
                change: format!(
                    "a device /dev/mapper/wringer-<run>-{} is made over {}: {}",
                    device.path.file_name().unwrap_or_default().display(),
                    device.path.display(),
                    device.table(*delays)
                ),
                undo: "the delay goes to 0 at once; the device is removed when nobody uses it".into(),
            }],
            Self::Image { image, model } => loop_disk::changes(image, model),
        }
    }
}
