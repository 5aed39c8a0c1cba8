// SPDX-License-Identifier: Apache-2.0
//! A device that delays another one: made, changed while it is in use, removed. Only devices with our UUID are touched. A device that somebody uses
//! is never removed, nor marked to be removed later. Requests that wait while the table is changed are not lost: the kernel passes them down first.

use crate::mapper::ioctl::{Command, Request, SKIP_LOCKFS, UDEV_PRIMARY_SOURCE};
use crate::mapper::{DELAY, DelayTable, Mapping, MappingStatus, numbers};
use crate::mounts::{MountedAt, mounted_anywhere};
use crate::permit::Permit;
use crate::process::open_device;
use crate::{Error, interrupt};
use rustix::fs::{CWD, FileType, Mode};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long udev may take to make or remove a name.
const UDEV_TIMEOUT: Duration = Duration::from_secs(3);

/// Makes the mapping and its name below `/dev/mapper`. When it fails, [`remove_mapping`] removes the rest.
///
/// # Errors
/// The device is in use (the kernel checks that: `EBUSY`); there is no such target.
pub fn make_mapping(permit: &Permit, mapping: &Mapping, table: &DelayTable) -> Result<(), Error> {
    let failed = |what: &str, error| Error::call(format!("{what} {}", mapping.name), error);
    let create = Request::new(&mapping.name, &mapping.uuid)?;
    create.event(UDEV_PRIMARY_SOURCE).send(Command::Create).map_err(|error| failed("make", error))?;
    crate::failpoint("between a mapping and its first table");
    set_table(permit, mapping, table)?;
    let Some(status) = mapping.status()? else {
        return Err(failed("find", std::io::Error::from(std::io::ErrorKind::NotFound)));
    };
    let path = mapping.path();
    if has_udev() && appears_within(UDEV_TIMEOUT, || path.exists()) {
        return Ok(());
    }
    match rustix::fs::mknodat(CWD, &path, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, status.device) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(errno) => Err(Error::path("make the device file", path, errno)),
    }
}

/// Puts another table in force, in one step: the mapping is never left suspended, so that a crash cannot block it. Delayed requests are passed down
/// at once.
///
/// # Errors
/// There is no such mapping; the kernel does not take the table.
pub fn set_table(_permit: &Permit, mapping: &Mapping, table: &DelayTable) -> Result<(), Error> {
    let failed = |what: &str, error| Error::call(format!("{what} the table '{table}' of {}", mapping.name), error);
    let request = || Request::new("", &mapping.uuid);
    let load = request()?.target(table.sectors, DELAY, &table.parameters());
    load.send(Command::LoadTable).map_err(|error| failed("load", error))?;
    crate::failpoint("between a table's load and the resume");
    let resume = request()?.flags(SKIP_LOCKFS).event(UDEV_PRIMARY_SOURCE);
    resume.send(Command::Suspend).map_err(|error| failed("put into force", error))?;
    Ok(())
}

/// Ends any delay, also that of a table that is loaded and not yet in force. `false`: there is no such mapping, or it has no table yet.
pub fn pass_through(permit: &Permit, mapping: &Mapping) -> Result<bool, Error> {
    let Some(status) = look(mapping)? else { return Ok(false) };
    match status.table {
        Some(table) if table.longest_ms() > 0 || status.suspended => {
            // this replaces a table that was loaded
            set_table(permit, mapping, &table.without_delay()).map(|()| true)
        }
        table => {
            if status.loaded {
                let clear = Request::new("", &mapping.uuid)?.send(Command::ClearTable);
                clear.map_err(|error| Error::call(format!("clear the loaded table of {}", mapping.name), error))?;
            }
            Ok(table.is_some())
        }
    }
}

/// Removes the mapping and its name; other processes have `patience` to close it. Returns whether the mapping or its name was there.
///
/// # Errors
/// [`Error::Busy`] with the processes that have it open, or [`Error::Mounted`] with its mount; the mapping delays nothing any more then.
pub fn remove_mapping(permit: &Permit, mapping: &Mapping, patience: Duration) -> Result<bool, Error> {
    let deadline = Instant::now() + patience;
    let mut was_there = false;
    while let Some(status) = look(mapping)? {
        was_there = true;
        let remove = Request::new("", &mapping.uuid)?.event(UDEV_PRIMARY_SOURCE);
        match remove.send(Command::Remove) {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {}
            Err(error) if error.raw_os_error() != Some(libc::EBUSY) => {
                return Err(Error::call(format!("remove {}", mapping.name), error));
            }
            // a mount does not end by itself, unlike the use by a process that only reads a new device
            Err(_) if Instant::now() < deadline && !is_mounted(status.device) && !interrupt::impatient() => {
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(_) => {
                // its users keep the mapping, without a delay
                let _ = pass_through(permit, mapping);
                return Err(busy(&mapping.path(), status.device));
            }
        }
    }
    Ok(remove_name(&mapping.path())? || was_there)
}

/// `None` also where there is no device-mapper: then there is no mapping either. A control file that cannot be opened proves nothing.
fn look(mapping: &Mapping) -> Result<Option<MappingStatus>, Error> {
    if !crate::mapper::is_loaded() { Ok(None) } else { mapping.status() }
}

/// Removes the name of a mapping. It carries the run's id, so no other mapping has it.
fn remove_name(path: &Path) -> Result<bool, Error> {
    let is_there = || path.symlink_metadata().is_ok();
    let was_there = is_there();
    if !was_there || has_udev() && appears_within(UDEV_TIMEOUT, || !is_there()) {
        return Ok(was_there);
    }
    match rustix::fs::unlink(path) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(true),
        Err(errno) => Err(Error::path("remove", path, errno)),
    }
}

fn has_udev() -> bool {
    Path::new("/run/udev/control").exists()
}

fn appears_within(timeout: Duration, is_so: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + timeout;
    while !is_so() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

fn mount_of(device: u64) -> Option<MountedAt> {
    let numbers = numbers(device);
    mounted_anywhere(&|mount| mount.device == numbers)
}

fn is_mounted(device: u64) -> bool {
    mount_of(device).is_some()
}

/// Names the mounts first: `umount` can end them.
fn busy(path: &Path, device: u64) -> Error {
    if let Some(mount) = mount_of(device) {
        return Error::Mounted { path: path.to_owned(), mount };
    }
    super::busy_by(path, open_device(device).found)
}
