// SPDX-License-Identifier: Apache-2.0
//! A disk that a run slows down for all programs, by whatever mechanism. It is found by its run's journal, so any process can change it.

use crate::Error;
use crate::device::{SlowDevice, delays};
use crate::directory::{FILE_SYSTEM, SOCKET};
use crate::loop_disk::SlowDisk;
use crate::standing::{Report, SlowedDevice, SlowedDirectory, SlowedImage};
use diskmodel::Model;
use evidence::DiskMechanism;
use host::mapper::Mapping;
use host::places::Places;
use run::{FoundRun, RunId, Step, StepState};
use slowfs::disk::kept;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slowed {
    Directory { directory: PathBuf, run: RunId },
    Device(SlowDevice),
    Loop(SlowDisk),
}

impl Slowed {
    /// The disk that this run slows down. `None`: it slows none down for everybody, or does so no more.
    pub fn of(run: &FoundRun) -> Option<Self> {
        run.steps.iter().filter(|step| step.is_open()).find_map(|step| Self::of_step(&run.id, step))
    }

    fn of_step(run: &RunId, step: &StepState) -> Option<Self> {
        match &step.change {
            Step::Mount { target, fstype, .. } if fstype == FILE_SYSTEM => {
                Some(Self::Directory { directory: target.clone(), run: run.clone() })
            }
            Step::Mapping { name, uuid, device } => Some(Self::Device(SlowDevice {
                mapping: Mapping { name: name.clone(), uuid: uuid.clone() },
                device: device.clone(),
                run: run.clone(),
                step: step.id,
            })),
            Step::LoopDevice { name, image, .. } => {
                Some(Self::Loop(SlowDisk { name: name.clone(), image: image.clone(), run: run.clone() }))
            }
            _ => None,
        }
    }

    /// # Errors
    /// The mechanism of this disk cannot make it as slow as `model`.
    pub fn check(&self, model: &Model) -> Result<(), Error> {
        match self {
            Self::Device(slow) => delays(model, &slow.device).map(drop),
            Self::Directory { .. } | Self::Loop(_) => Ok(()),
        }
    }

    /// Makes the disk as slow as `model` from now on, also for open files and mounted devices, and measures it.
    ///
    /// # Errors
    /// The layer or the device is gone, or cannot be as slow as that: then the earlier delay is in force again.
    pub fn change(&self, places: &Places, model: &Model, strict: bool) -> Result<Report, Error> {
        match self {
            Self::Directory { directory, run } => {
                let socket = folder(places, run).join(SOCKET);
                SlowedDirectory::set(&socket, directory, model, strict).map(Report::Directory)
            }
            Self::Device(slow) => {
                SlowedDevice::set(places, slow, delays(model, &slow.device)?, strict).map(Report::Device)
            }
            Self::Loop(slow) => {
                let Some(device) = slow.device() else {
                    let what = format!("the loop device of {} is detached", slow.image.display());
                    return Err(Error::Refused { what, hint: "`wringer undo` ends this run".into() });
                };
                let folder = folder(places, &slow.run);
                let resends = kept(&folder).is_ok_and(|kept| kept.resends);
                SlowedImage::set(&folder, &slow.image, &device.path, model, resends, strict).map(Report::Image)
            }
        }
    }

    pub fn mechanism(&self) -> DiskMechanism {
        match self {
            Self::Directory { .. } => DiskMechanism::Fuse,
            Self::Device(_) => DiskMechanism::DeviceMapper,
            Self::Loop(_) => DiskMechanism::Loop,
        }
    }

    /// The path by which the user named the target.
    pub fn path(&self) -> &Path {
        match self {
            Self::Directory { directory, .. } => directory,
            Self::Device(slow) => &slow.device,
            Self::Loop(slow) => &slow.image,
        }
    }

    /// Whether `path` is this target: a device has several names, and its mapping counts as the device, too.
    pub fn is_named(&self, path: &Path) -> bool {
        let number = |path: &Path| fs::metadata(path).ok().map(|it| it.rdev()).filter(|number| *number != 0);
        match self {
            Self::Directory { directory, .. } => path.canonicalize().as_deref().unwrap_or(path) == directory,
            Self::Device(slow) => {
                let names = [slow.device.clone(), slow.mapping.path()];
                names.iter().any(|name| path == name || number(path).is_some_and(|it| number(name) == Some(it)))
            }
            Self::Loop(slow) => {
                let inode = |path: &Path| fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
                let is_image = path == slow.image || inode(path).is_some_and(|it| inode(&slow.image) == Some(it));
                is_image
                    || number(path).is_some_and(|it| {
                        number(&slow.image) == Some(it) || slow.device().is_some_and(|device| device.device == it)
                    })
            }
        }
    }
}

fn folder(places: &Places, run: &RunId) -> PathBuf {
    places.journal.join(run.as_str())
}
