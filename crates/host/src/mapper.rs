// SPDX-License-Identifier: Apache-2.0
//! Reads the state of device-mapper. Needs root, like everything about device-mapper. Changes are in [`crate::change::mapping`].
//!
//! The kernel is asked directly. The program `dmsetup` would be one more thing to install, and the crate `devicemapper` needs libdevmapper
//! and libclang when it is built, and cannot be linked statically without libdevmapper's and libudev's archives.

pub(crate) mod ioctl;
mod table;

pub use ioctl::CONTROL;
pub use table::DelayTable;

use crate::Error;
use ioctl::{Command, Request, STATUS_TABLE};
use std::path::{Path, PathBuf};

/// The kernel's name of the target.
pub const DELAY: &str = "delay";

/// What identifies a mapping: the UUID. The name is for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub name: String,
    pub uuid: String,
}

/// A mapping that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappingStatus {
    pub name: String,
    /// The device number, as `stat` shows it.
    pub device: u64,
    /// How many times it is open or mounted.
    pub open_count: u32,
    /// Its I/O waits until somebody resumes it.
    pub suspended: bool,
    /// A table was loaded that is not in force yet: the next resume puts it in force.
    pub loaded: bool,
    /// `None`: no table is in force, or a table that is not one line of delay.
    pub table: Option<DelayTable>,
}

impl Mapping {
    /// The path for `mkfs` and `mount`.
    pub fn path(&self) -> PathBuf {
        Path::new("/dev/mapper").join(&self.name)
    }

    /// The state of the mapping. `None`: there is none with this UUID.
    ///
    /// # Errors
    /// There is no device-mapper, or we are not root.
    pub fn status(&self) -> Result<Option<MappingStatus>, Error> {
        let ask = |command, flags| match Request::new("", &self.uuid)?.flags(flags).send(command) {
            Ok(reply) => Ok(Some(reply)),
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
            Err(error) => Err(Error::call(format!("ask device-mapper for {}", self.name), error)),
        };
        let Some(status) = ask(Command::Status, 0)? else { return Ok(None) };
        let Some(table) = ask(Command::TableStatus, STATUS_TABLE)? else { return Ok(None) };
        let table = table.target().filter(|(_, kind, _)| kind == DELAY);
        Ok(Some(MappingStatus {
            name: status.name(),
            device: status.device(),
            open_count: status.open_count(),
            suspended: status.flags() & ioctl::SUSPEND != 0,
            loaded: status.flags() & ioctl::INACTIVE_PRESENT != 0,
            table: table.and_then(|(sectors, _, parameters)| DelayTable::parse(sectors, &parameters)),
        }))
    }
}

/// Any mapping on this host, by whatever program it was made, as `/sys` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present {
    pub name: String,
    /// Empty when the program that made it gave no UUID.
    pub uuid: String,
    pub suspended: bool,
}

/// All mappings of this host. Asks no device: a suspended device would not answer.
pub fn present() -> Vec<Present> {
    let blocks = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mapped = blocks.map(|entry| entry.path().join("dm")).filter(|folder| folder.exists());
    let read = |folder: &Path, file| std::fs::read_to_string(folder.join(file)).unwrap_or_default().trim().to_owned();
    let mut found: Vec<Present> = mapped
        .map(|folder| Present {
            name: read(&folder, "name"),
            uuid: read(&folder, "uuid"),
            suspended: read(&folder, "suspended") == "1",
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Whether the kernel still has a device with these numbers.
pub fn is_there(numbers: &str) -> bool {
    Path::new("/sys/dev/block").join(numbers).exists()
}

/// `7:0`: a device's numbers, as `/sys/dev/block` and a table name it.
pub fn numbers(device: u64) -> String {
    format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device))
}

/// Whether this kernel has device-mapper in it now. Opens nothing: opening [`CONTROL`] may load a module.
pub fn is_loaded() -> bool {
    let text = std::fs::read_to_string("/proc/misc").unwrap_or_default();
    text.lines().any(|line| line.split_whitespace().nth(1) == Some("device-mapper"))
}

/// The version of the delay target. `None`: its module is not loaded. Loads nothing.
///
/// # Errors
/// There is no device-mapper, or we are not root.
pub fn delay_version() -> Result<Option<[u32; 3]>, Error> {
    let reply = Request::new("", "")?.send(Command::ListTargets);
    let reply = reply.map_err(|error| Error::call("ask device-mapper for its targets", error))?;
    Ok(reply.versions().into_iter().find(|(name, _)| name == DELAY).map(|(_, version)| version))
}
