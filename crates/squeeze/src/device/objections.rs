// SPDX-License-Identifier: Apache-2.0
//! Checks whether a block device may be put below a slow one: no program may use it, and the kernel must be able to make the delay.

use super::{Delays, Device};
use crate::Error;
use crate::directory::require_text;
use crate::files_in_use::refuse_users;
use diskmodel::Model;
use evidence::DelayMode;
use host::change::{MountEntry, MountedAt, mounted_anywhere};
use host::in_use::{InUse, open_or_attached, swaps};
use host::mapper;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The smallest device: a probe reads blocks all over it.
const LEAST_SECTORS: u64 = 2048;

fn refused<T>(what: impl Into<String>, hint: impl Into<String>) -> Result<T, Error> {
    Err(Error::Refused { what: what.into(), hint: hint.into() })
}

/// The delays of a model that device-mapper can make: one time for each class, in whole milliseconds.
///
/// # Errors
/// [`Error::Refused`], with the mechanism that can make the others.
pub fn delays(model: &Model, device: &Path) -> Result<Delays, Error> {
    let layer = format!(
        "the loop device can: --mechanism loop, the default here; or the FUSE layer: mount a file system of {} and slow its directory down",
        device.display()
    );
    if !model.is_constant() {
        return refused(
            "device-mapper delays by one constant time for each class: no distributions, limits or profiles",
            layer,
        );
    }
    if model.mode == DelayMode::Total {
        return refused("device-mapper adds its delay to the device's own time: no --mode total", layer);
    }
    let delay = model.delay();
    let whole = |name: &str, us: u64| match (us % 1000, u32::try_from(us / 1000)) {
        (0, Ok(ms)) => Ok(ms),
        _ => refused(
            format!("device-mapper delays by whole milliseconds, and --{name} is {} ms", us as f64 / 1000.0),
            layer.clone(),
        ),
    };
    Ok(Delays {
        read_ms: whole("read", delay.read_us)?,
        write_ms: whole("write", delay.write_us)?,
        sync_ms: whole("sync", delay.sync_us)?,
    })
}

/// Checks whether the device can be slowed down.
///
/// # Errors
/// [`Error::Refused`]: it is no device, a program uses it in any way, it is read-only, device-mapper or its delay target is
/// missing, or the user is not root.
pub fn check(path: &Path) -> Result<Device, Error> {
    check_with(path, check_target)
}

/// The same check for a mechanism that does not need device-mapper.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_unused(path: &Path) -> Result<Device, Error> {
    check_with(path, || Ok(()))
}

fn check_with(path: &Path, check_mechanism: impl FnOnce() -> Result<(), Error>) -> Result<Device, Error> {
    let Ok(path) = path.canonicalize() else {
        return refused(format!("there is no device {}", path.display()), "name one that exists: lsblk");
    };
    let path = require_text(path)?;
    let metadata = fs::metadata(&path).map_err(Error::file("look at", &path))?;
    if !metadata.file_type().is_block_device() {
        return refused(format!("{} is not a block device", path.display()), "name one: lsblk");
    }
    if !rustix::process::geteuid().is_root() {
        return refused("slowing a device down needs root", "run it with sudo");
    }
    check_mechanism()?;
    let numbers = mapper::numbers(metadata.rdev());
    let sys = folder_of(&numbers)?;
    let sectors = number(&sys, "size").unwrap_or(0);
    let device = Device { path, numbers, sectors };
    check_itself(&device, &sys)?;
    for part in std::iter::once(sys.clone()).chain(partitions(&sys)) {
        check_use(&device.path, &part)?;
    }
    let hint = "stop it: what goes past the slow device is not slow, and two writers destroy a file system";
    let refuse = |shown: &str, in_use: &InUse| refuse_users(Path::new(shown), in_use, &|_| true, hint);
    for (shown, in_use) in open_users(&device.path, &sys) {
        refuse(&shown, &in_use)?;
    }
    check_exclusive(&device.path)?;
    Ok(device)
}

/// Who has the device, one of its partitions, or the disk whose partition it is open, or attached to a loop device. Each with its name for people.
///
/// # Errors
/// The device is gone.
pub(crate) fn users_of_device(device: &Path) -> Result<Vec<(String, InUse)>, Error> {
    let metadata = fs::metadata(device).map_err(Error::file("look at", device))?;
    Ok(open_users(device, &folder_of(&mapper::numbers(metadata.rdev()))?))
}

/// The folder below `/sys` of the device with these numbers.
fn folder_of(numbers: &str) -> Result<PathBuf, Error> {
    let sys = Path::new("/sys/dev/block").join(numbers);
    sys.canonicalize().map_err(Error::file("look at", &sys))
}

fn open_users(device: &Path, sys: &Path) -> Vec<(String, InUse)> {
    let whole = sys.parent().filter(|_| sys.join("partition").exists()).map(Path::to_owned);
    let parts = std::iter::once(sys.to_owned()).chain(partitions(sys)).chain(whole);
    parts
        .filter_map(|part| Some((shown(device, &part), open_or_attached(device_number(&numbers_of(&part))?))))
        .collect()
}

fn numbers_of(sys: &Path) -> String {
    fs::read_to_string(sys.join("dev")).unwrap_or_default().trim().to_owned()
}

/// `part`: the folder below `/sys` of the device, of one of its partitions, or of the disk whose partition it is.
fn shown(device: &Path, part: &Path) -> String {
    let name = part.file_name().unwrap_or_default().to_string_lossy();
    match device.file_name() {
        Some(own) if own.to_string_lossy() == name => device.display().to_string(),
        Some(own) if own.to_string_lossy().starts_with(name.as_ref()) => {
            format!("{name}, the disk of {},", device.display())
        }
        _ => format!("{name}, on {},", device.display()),
    }
}

fn check_target() -> Result<(), Error> {
    let load = "as root: modprobe dm-delay (in the package of the kernel's extra modules, where there is one); or --mechanism loop; or mount \
        the device and slow its directory down: the FUSE layer needs no device-mapper";
    if !mapper::is_loaded() {
        return refused("this kernel has no device-mapper, or its module is not loaded", load);
    }
    match mapper::delay_version() {
        Ok(Some(_)) => Ok(()),
        Ok(None) => refused("device-mapper's delay target is not loaded", load),
        Err(error) => refused(format!("device-mapper does not answer: {}", host::chain(&error)), load),
    }
}

fn check_itself(device: &Device, sys: &Path) -> Result<(), Error> {
    let shown = device.path.display();
    if fs::read_to_string(sys.join("dm/uuid")).is_ok_and(|uuid| uuid.starts_with("WRINGER-")) {
        return refused(format!("{shown} is a slow device itself"), "name the device below it: wringer disk status");
    }
    if number(sys, "dm/suspended") == Some(1) {
        let hint = "if whoever suspended it is gone: dmsetup resume; what waits for it is then answered";
        return refused(format!("{shown} is suspended: who reads or writes it waits until somebody resumes it"), hint);
    }
    if device.sectors < LEAST_SECTORS {
        return refused(
            format!("{shown} holds less than 1 MiB"),
            "a loop device is given a file first: losetup --find --show FILE",
        );
    }
    if number(sys, "ro") == Some(1) {
        return refused(format!("{shown} is read-only"), "name a device that can be written: blockdev --getro");
    }
    Ok(())
}

/// `part`: the device's folder below `/sys`, or that of one of its partitions.
fn check_use(device: &Path, part: &Path) -> Result<(), Error> {
    let (shown, numbers) = (shown(device, part), numbers_of(part));
    if let Some(mount) = mounted_anywhere(&|mount| is_on(mount, &numbers)) {
        return refused(format!("{shown} is mounted at {mount}"), how_to_unmount(&mount));
    }
    let holders = names(&part.join("holders"));
    if !holders.is_empty() {
        return refused(
            format!("{shown} is held by {}", holders.join(", ")),
            "it belongs to a volume group, a RAID, or another mapping: name the device above it, or take that apart",
        );
    }
    if swaps().iter().any(|swap| is_device(swap, &numbers)) {
        let name = part.file_name().unwrap_or_default().display().to_string();
        return refused(format!("{shown} is used for swap"), format!("swapoff /dev/{name}"));
    }
    Ok(())
}

fn how_to_unmount(mount: &MountedAt) -> String {
    let target = mount.target.display();
    match mount.elsewhere {
        None if mount.target == Path::new("/") => {
            "this machine runs from it: name another device, or make an image: fallocate -l 8G IMAGE".into()
        }
        None => format!("stop what uses it, then: umount {target}"),
        Some(pid) => format!("stop what uses it, then: nsenter -t {pid} -m umount {target}"),
    }
}

/// Asks the kernel: an exclusive open fails when any program in any namespace has mounted or claimed the device.
fn check_exclusive(path: &Path) -> Result<(), Error> {
    match rustix::fs::open(path, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty()) {
        Ok(_) => Ok(()),
        Err(Errno::BUSY) => refused(
            format!("{} is in use: the kernel refuses to open it for one user alone", path.display()),
            "something has it that cannot be seen from here: a mount in another namespace, a RAID, a multipath map",
        ),
        Err(errno) => Err(Error::file("open", path)(errno.into())),
    }
}

/// Whether the mount is on this device: by its device number, or, for file systems with their own numbers (btrfs), by its source.
fn is_on(mount: &MountEntry, numbers: &str) -> bool {
    mount.device == numbers || mount.source.starts_with("/dev/") && is_device(Path::new(&mount.source), numbers)
}

fn is_device(path: &Path, numbers: &str) -> bool {
    fs::metadata(path).is_ok_and(|it| it.file_type().is_block_device() && mapper::numbers(it.rdev()) == numbers)
}

fn device_number(numbers: &str) -> Option<u64> {
    let (major, minor) = numbers.split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

fn partitions(sys: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(sys).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.join("partition").exists()).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn number(sys: &Path, name: &str) -> Option<u64> {
    fs::read_to_string(sys.join(name)).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskmodel::DiskRequest;

    fn asked(read: &str) -> Result<Delays, Error> {
        let asked = DiskRequest { read: Some(read.parse().expect("parses")), ..DiskRequest::default() };
        let model = asked.model(&mut |_| Err(String::new())).expect("a model");
        delays(&model, Path::new("/dev/vdb"))
    }

    #[test]
    fn whole_milliseconds_pass() {
        assert_eq!(asked("10ms").expect("passes"), Delays { read_ms: 10, write_ms: 0, sync_ms: 0 });
        assert_eq!(asked("1s").expect("passes").read_ms, 1000);
    }

    #[test]
    fn what_only_the_fuse_layer_can_is_offered_there() {
        let check = |read: &str, words: &str| match asked(read) {
            Err(Error::Refused { what, hint }) => {
                assert!(what.contains(words), "{what}");
                assert!(hint.contains("FUSE layer") && hint.contains("/dev/vdb"), "{hint}");
            }
            other => panic!("{read}: {other:?}"),
        };
        check("0.5ms", "whole milliseconds, and --read is 0.5 ms");
        check("10.25ms", "--read is 10.25 ms");
        check("normal:10ms,2ms", "one constant time");
        check("5ms +4us/KiB", "one constant time");
    }
}
