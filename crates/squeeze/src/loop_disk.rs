// SPDX-License-Identifier: Apache-2.0
//! A slow block device over an image file, or over a block device that nobody uses: a loop device over a FUSE file, whose server answers
//! when its time has come.
//!
//! In: an image, and any disk model that the FUSE layer knows. Out: `/dev/loopN`, for the user to make a file system on or to mount; what a
//! probe got. The server is two processes ([`slowfs::disk`]), so that one that is killed is no I/O error.

mod measure;
mod objections;

pub use measure::{FLOOR_US, set_and_measure};
pub use objections::{Image, check, missing};

use crate::Error;
use host::change::loop_device::{FreeDevice, LoopDevice, attach};
use run::{Child, ChildSpec, Computed, Role, Run, RunId, Step};
use rustix::fd::AsFd as _;
use slowfs::disk::{KEEPER_SOCKET, Options, Ready, WORKER_SOCKET, attached};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A slow disk that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowDisk {
    /// Of the file below the loop device, which tells it from all others: `wringer-<run>`.
    pub name: String,
    pub image: PathBuf,
    pub run: RunId,
}

/// One that was just made.
#[derive(Debug)]
pub struct Started {
    pub disk: SlowDisk,
    pub device: LoopDevice,
    pub keeper: Child,
    /// What the keeper agreed on with the kernel.
    pub resends: bool,
    pub folder: PathBuf,
}

pub fn name_of(run: &RunId) -> String {
    format!("wringer-{run}")
}

impl SlowDisk {
    /// Serves the image, without a delay yet, and attaches a loop device to it.
    ///
    /// # Errors
    /// No FUSE, no loop device, or the image was taken meanwhile; what there is of it is undone with the run.
    pub fn start(run: &mut Run, image: &Image) -> Result<Started, Error> {
        let (name, folder) = (name_of(run.id()), run.folder().to_owned());
        let args = ["--image".into(), image.path.clone().into(), "--folder".into(), folder.clone().into()];
        let args: [OsString; 4] = args;
        let named: [OsString; 2] = ["--name".into(), name.clone().into()];
        let spec = ChildSpec { ready: true, ..ChildSpec::internal("slowdisk", args.into_iter().chain(named)) };
        let keeper = run.spawn(Role::SlowLayer, spec)?;
        let ready: Ready = keeper
            .ready
            .clone()
            .and_then(|said| serde_json::from_value(said).ok())
            .ok_or_else(|| Error::KeeperAnswer { answer: format!("{:?}", keeper.ready) })?;
        let device = attach_one(run, image, &name, &file_of(&ready))?;
        attached(&folder)?;
        let disk = Self { name, image: image.path.clone(), run: run.id().clone() };
        Ok(Started { disk, device, keeper, resends: ready.resends, folder })
    }

    /// `None`: it is detached.
    pub fn device(&self) -> Option<LoopDevice> {
        LoopDevice::find(&self.name)
    }
}

/// Others may take the device that was free.
const TRIES: u32 = 20;

/// Attaches a free loop device to the slow file. Each try is a step of its own: the record names the device whose read-ahead is to come
/// back.
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

/// The file system is mounted nowhere: its root is a descriptor of the keeper's.
fn file_of(ready: &Ready) -> PathBuf {
    Path::new("/proc").join(ready.pid.to_string()).join("fd").join(ready.root.to_string()).join(&ready.name)
}

/// Where the worker listens, and where the keeper does.
pub fn sockets(folder: &Path) -> [PathBuf; 2] {
    [WORKER_SOCKET, KEEPER_SOCKET].map(|name| folder.join(name))
}

/// How many threads the server takes requests with.
pub const THREADS: usize = Options::THREADS;
