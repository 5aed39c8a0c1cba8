// SPDX-License-Identifier: Apache-2.0
//! A slow block device over an image file, or over an unused block device: a loop device over a FUSE file whose server delays its answers.
//!
//! In: an image, and any disk model of the FUSE layer. Out: `/dev/loopN`, for the user to format or to mount, and a probe's
//! results. The server has two processes ([`slowfs::disk`]), so that the death of one is no I/O error.

mod measure;
mod objections;

pub(crate) use measure::set_and_measure;
pub use measure::{notes, notes_here};
pub use objections::{Image, check, missing};

use crate::Error;
use crate::ram::Change;
use diskmodel::Model;
use host::change::loop_device::{FreeDevice, LoopDevice, attach};
use run::{Child, ChildSpec, Computed, Role, Run, RunId, Step};
use rustix::fd::AsFd as _;
use slowfs::disk::{KEEPER_SOCKET, Options, Ready, WORKER_SOCKET, attached, kept};
use std::path::{Path, PathBuf};

/// A slow disk that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowDisk {
    /// The name of the file below the loop device, which is unique: `wringer-<run>`.
    pub name: String,
    pub image: PathBuf,
    pub run: RunId,
}

/// A slow disk that was just made.
#[derive(Debug)]
pub struct Started {
    pub disk: SlowDisk,
    pub device: LoopDevice,
    pub keeper: Child,
    /// Whether the device survives the death of a worker without an I/O error.
    pub resends: bool,
    pub folder: PathBuf,
}

/// Each change with its undo, in the order in which they are made.
pub(crate) fn changes(image: &Image, model: &Model) -> Vec<Change> {
    let served =
        format!("a keeper and a worker serve {} as a FUSE file that is mounted nowhere: {model}", image.path.display());
    let changes = [
        (served, "the delay goes to 0 at once; they end when the loop device has let go"),
        (
            "a free loop device is attached to that file, past the page cache, with autoclear".to_owned(),
            "detached when nobody has it mounted or open",
        ),
    ];
    changes.into_iter().map(|(change, undo)| Change { change, undo: undo.to_owned() }).collect()
}

pub fn name_of(run: &RunId) -> String {
    format!("wringer-{run}")
}

impl SlowDisk {
    /// Serves the image, without a delay yet, and attaches a loop device to it.
    ///
    /// # Errors
    /// There is no FUSE or no loop device, or a program uses the image by now. Finished parts are undone with the run.
    pub fn start(run: &mut Run, image: &Image) -> Result<Started, Error> {
        let (name, folder) = (name_of(run.id()), run.folder().to_owned());
        let order = Options {
            image: image.path.clone(),
            folder: folder.clone(),
            name: name.clone(),
            threads: Options::THREADS,
        };
        host::pause_point("before a slow disk is served");
        let keeper = run.spawn(Role::SlowLayer, ChildSpec { ready: true, ..ChildSpec::internal(&order)? })?;
        let ready = keeper.ready::<Options>().map_err(|answer| Error::KeeperAnswer { answer })?;
        image.check_again(&[keeper.pid, kept(&folder)?.worker])?;
        let device = attach_one(run, image, &name, &file_of(&ready))?;
        attached(&folder)?;
        let disk = Self { name, image: image.path.clone(), run: run.id().clone() };
        Ok(Started { disk, device, keeper, resends: ready.resends, folder })
    }

    /// `None`: the loop device is detached.
    pub fn device(&self) -> Option<LoopDevice> {
        LoopDevice::find(&self.name)
    }
}

/// How often to try: another program may take the free device first.
const TRIES: u32 = 20;

/// Attaches a free loop device to the slow file. Each try is its own step: the record names the device whose read-ahead the undo restores.
fn attach_one(run: &mut Run, image: &Image, name: &str, slow_file: &Path) -> Result<LoopDevice, Error> {
    for _ in 0..TRIES {
        let free = FreeDevice::find()?;
        let read_ahead = free.read_ahead().map(|(path, before)| Computed { path, before });
        let change = Step::LoopDevice { name: name.to_owned(), image: image.path.clone(), read_ahead };
        let (step, attached) = run.step(change, |permit| {
            let file = host::files::open_existing(slow_file)
                .map_err(|source| host::Error::path("open the slow file of", &image.path, source))?;
            attach(permit, free, file.as_fd(), name, image.block_bytes)
        })?;
        match attached {
            Some((device, hold)) => {
                run.hold(step, hold);
                return Ok(device);
            }
            None => run.undo_step(step)?,
        }
    }
    Err(host::Error::call("take a free loop device", rustix::io::Errno::BUSY).into())
}

/// The path of the file. The file system is mounted nowhere: its root is a descriptor of the keeper.
fn file_of(ready: &Ready) -> PathBuf {
    Path::new("/proc").join(ready.pid.to_string()).join("fd").join(ready.root.to_string()).join(&ready.name)
}

pub fn sockets(folder: &Path) -> [PathBuf; 2] {
    [WORKER_SOCKET, KEEPER_SOCKET].map(|name| folder.join(name))
}

/// How many threads of the server take requests.
pub const THREADS: usize = Options::THREADS;
