// SPDX-License-Identifier: Apache-2.0
//! A loop device that a test attaches itself; afterwards the host is as before.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The read-ahead of a loop device; the value is restored when this is dropped. The kernel computes it anew whenever a file is attached, and does not
/// restore it afterwards.
#[derive(Debug)]
pub struct ReadAhead {
    path: PathBuf,
    before: String,
}

impl ReadAhead {
    /// The read-ahead of `device`, for example `/dev/loop0`.
    pub fn of(device: &Path) -> Self {
        let name = device.file_name().expect("the device's name");
        let path = Path::new("/sys/block").join(name).join("queue/read_ahead_kb");
        let before = fs::read_to_string(&path).expect("a loop device's read-ahead");
        Self { path, before }
    }

    /// The present value, in KiB.
    pub fn now(&self) -> String {
        fs::read_to_string(&self.path).expect("a loop device's read-ahead").trim().to_owned()
    }

    /// Sets the value, in KiB.
    pub fn set(&self, kib: &str) {
        fs::write(&self.path, kib).expect("set a loop device's read-ahead");
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        let _ = fs::write(&self.path, &self.before);
    }
}

/// A file attached to a loop device by `losetup`; it is detached when this is dropped.
#[derive(Debug)]
pub struct LoopDevice {
    device: PathBuf,
    _read_ahead: ReadAhead,
}

impl LoopDevice {
    /// The device that will be attached next, for example `/dev/loop0`.
    pub fn free() -> PathBuf {
        losetup(&[Path::new("--find")]).into()
    }

    /// Attaches the next free device to `file`.
    pub fn attach(file: &Path) -> Self {
        Self::attach_at(&Self::free(), file)
    }

    /// Attaches `device` to `file`.
    pub fn attach_at(device: &Path, file: &Path) -> Self {
        let read_ahead = ReadAhead::of(device);
        losetup(&[device, file]);
        Self { device: device.to_owned(), _read_ahead: read_ahead }
    }

    /// The device's path, for example `/dev/loop0`.
    pub fn path(&self) -> &Path {
        &self.device
    }

    /// The device's path as text.
    pub fn shown(&self) -> &str {
        self.device.to_str().expect("a device's name is ASCII")
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // the read-ahead is restored after this
        let _ = Command::new("losetup").arg("-d").arg(&self.device).status();
    }
}

fn losetup(args: &[&Path]) -> String {
    let output = Command::new("losetup").args(args).output().expect("run losetup");
    assert!(output.status.success(), "losetup {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
