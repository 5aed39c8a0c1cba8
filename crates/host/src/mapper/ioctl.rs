// SPDX-License-Identifier: Apache-2.0
//! One call of the kernel's device-mapper: `struct dm_ioctl` and what follows it, in one buffer (linux/dm-ioctl.h; the layout has been
//! the same since version 4.0.0 of the interface).

use crate::Error;
use rustix::ioctl::opcode;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;

/// The device file through which the kernel is asked.
pub const CONTROL: &str = "/dev/mapper/control";

const HEADER_SIZE: u32 = 312;
const HEADER_BYTES: usize = HEADER_SIZE as usize;
/// Enough for the list of all targets, and for a table of one line.
const BUFFER_BYTES: u32 = 64 << 10;
const TARGET_BYTES: usize = 40;
const NAME_BYTES: usize = 128;
const UUID_BYTES: usize = 129;

// offsets into the header
const DATA_SIZE: usize = 12;
const DATA_START: usize = 16;
const TARGET_COUNT: usize = 20;
const OPEN_COUNT: usize = 24;
const FLAGS: usize = 28;
const EVENT: usize = 32;
const DEVICE: usize = 40;
const NAME: usize = 48;
const UUID: usize = 176;

pub(crate) const SUSPEND: u32 = 1 << 1;
pub(crate) const STATUS_TABLE: u32 = 1 << 4;
pub(crate) const INACTIVE_PRESENT: u32 = 1 << 6;
const BUFFER_FULL: u32 = 1 << 8;
/// Do not freeze the file system above: its blocks stay the same.
pub(crate) const SKIP_LOCKFS: u32 = 1 << 10;

/// Tells udev's rules that the event is a real change (libdevmapper, `DM_UDEV_PRIMARY_SOURCE_FLAG`).
pub(crate) const UDEV_PRIMARY_SOURCE: u32 = 0x0040 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Create = 3,
    Remove = 4,
    /// Suspends, or, without the suspend flag, resumes; a resume puts the loaded table in force.
    Suspend = 6,
    Status = 7,
    LoadTable = 9,
    /// Removes the table that was loaded and is not in force.
    ClearTable = 10,
    TableStatus = 12,
    ListTargets = 13,
}

pub(crate) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// A request for a device. The UUID alone names the device, except when the device is made.
    pub(crate) fn new(name: &str, uuid: &str) -> Result<Self, Error> {
        if name.len() >= NAME_BYTES || uuid.len() >= UUID_BYTES {
            return Err(Error::call(format!("name a device '{name}'"), io::Error::from(io::ErrorKind::InvalidInput)));
        }
        let mut request = Self { bytes: vec![0; BUFFER_BYTES as usize] };
        request.put(0, 4);
        request.put(DATA_SIZE, BUFFER_BYTES);
        request.put(DATA_START, HEADER_SIZE);
        request.bytes[NAME..NAME + name.len()].copy_from_slice(name.as_bytes());
        request.bytes[UUID..UUID + uuid.len()].copy_from_slice(uuid.as_bytes());
        Ok(request)
    }

    pub(crate) fn flags(mut self, flags: u32) -> Self {
        self.put(FLAGS, flags);
        self
    }

    pub(crate) fn event(mut self, event: u32) -> Self {
        self.put(EVENT, event);
        self
    }

    /// Adds a table of one line.
    pub(crate) fn target(mut self, sectors: u64, kind: &str, parameters: &str) -> Self {
        let (spec, text) = (HEADER_BYTES, HEADER_BYTES + TARGET_BYTES);
        self.put(TARGET_COUNT, 1);
        self.bytes[spec + 8..spec + 16].copy_from_slice(&sectors.to_ne_bytes());
        self.bytes[spec + 24..spec + 24 + kind.len()].copy_from_slice(kind.as_bytes());
        self.bytes[text..text + parameters.len()].copy_from_slice(parameters.as_bytes());
        self
    }

    pub(crate) fn send(self, command: Command) -> io::Result<Reply> {
        let control = open()?;
        self.send_to(&control, command)
    }

    fn send_to(mut self, control: &File, command: Command) -> io::Result<Reply> {
        let number = opcode::read_write::<[u8; HEADER_BYTES]>(0xfd, command as u8);
        // SAFETY: the kernel reads and writes at most the `data_size` bytes that the header names, and the buffer has as many.
        let result = unsafe { libc::ioctl(control.as_raw_fd(), number as libc::Ioctl, self.bytes.as_mut_ptr()) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let reply = Reply { bytes: self.bytes };
        if reply.flags() & BUFFER_FULL == 0 { Ok(reply) } else { Err(io::Error::other("the answer is too long")) }
    }

    fn put(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
}

fn open() -> io::Result<File> {
    crate::files::open_existing(Path::new(CONTROL))
}

pub(crate) struct Reply {
    bytes: Vec<u8>,
}

impl Reply {
    pub(crate) fn flags(&self) -> u32 {
        self.number(FLAGS)
    }

    pub(crate) fn open_count(&self) -> u32 {
        self.number(OPEN_COUNT)
    }

    /// The device number, as `stat` shows it.
    pub(crate) fn device(&self) -> u64 {
        let bytes = self.bytes.get(DEVICE..DEVICE + 8).and_then(|bytes| bytes.try_into().ok());
        u64::from_ne_bytes(bytes.unwrap_or_default())
    }

    pub(crate) fn name(&self) -> String {
        self.text(NAME)
    }

    /// Length, kind and parameters of the table's first line.
    pub(crate) fn target(&self) -> Option<(u64, String, String)> {
        let spec = self.number(DATA_START) as usize;
        (self.number(TARGET_COUNT) > 0).then_some(())?;
        let sectors = u64::from_ne_bytes(self.bytes.get(spec + 8..spec + 16)?.try_into().ok()?);
        Some((sectors, self.text(spec + 24), self.text(spec + TARGET_BYTES)))
    }

    /// The answer to [`Command::ListTargets`]: the name and version of each target.
    pub(crate) fn versions(&self) -> Vec<(String, [u32; 3])> {
        let (mut at, mut found) = (self.number(DATA_START) as usize, Vec::new());
        loop {
            let name = self.text(at + 16);
            if !name.is_empty() {
                found.push((name, [4, 8, 12].map(|offset| self.number(at + offset))));
            }
            match self.number(at) {
                0 => return found,
                next => at += next as usize,
            }
        }
    }

    fn number(&self, at: usize) -> u32 {
        let bytes = self.bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        u32::from_ne_bytes(bytes.unwrap_or_default())
    }

    /// The text at this place, up to its zero byte.
    fn text(&self, at: usize) -> String {
        let bytes = self.bytes.get(at..).unwrap_or_default();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_where_the_kernel_looks_for_it() {
        let request = Request::new("", "WRINGER-x").expect("fits").target(4096, "delay", "7:0 0 10");
        let reply = Reply { bytes: request.bytes };
        assert_eq!(reply.target(), Some((4096, "delay".to_owned(), "7:0 0 10".to_owned())));
        assert_eq!(&reply.bytes[..4], &4_u32.to_ne_bytes(), "the interface's major version");
        assert_eq!(&reply.bytes[UUID..UUID + 10], b"WRINGER-x\0");
        assert_eq!(&reply.bytes[HEADER_BYTES + 24..HEADER_BYTES + 30], b"delay\0");
    }

    #[test]
    fn the_list_of_targets_is_read_to_its_end() {
        let mut bytes = Request::new("", "").expect("fits").bytes;
        let mut put = |at: usize, next: u32, version: [u32; 3], name: &[u8]| {
            for (place, number) in [next, version[0], version[1], version[2]].into_iter().enumerate() {
                bytes[at + 4 * place..at + 4 * place + 4].copy_from_slice(&number.to_ne_bytes());
            }
            bytes[at + 16..at + 16 + name.len()].copy_from_slice(name);
        };
        put(HEADER_BYTES, 24, [1, 4, 0], b"delay");
        put(HEADER_BYTES + 24, 0, [1, 15, 0], b"striped");
        let expected = vec![("delay".to_owned(), [1, 4, 0]), ("striped".to_owned(), [1, 15, 0])];
        assert_eq!(Reply { bytes }.versions(), expected);
    }

    #[test]
    fn a_name_that_does_not_fit_is_refused() {
        assert!(Request::new(&"x".repeat(128), "").is_err());
        assert!(Request::new(&"x".repeat(127), "").is_ok());
    }

    /// 0xC138FD00 plus the command, as strace shows it on x86 and ARM.
    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn the_numbers_of_the_calls() {
        assert_eq!(opcode::read_write::<[u8; HEADER_BYTES]>(0xfd, Command::LoadTable as u8), 0xc138_fd09);
    }
}
