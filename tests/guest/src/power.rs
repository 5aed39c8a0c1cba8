// SPDX-License-Identifier: Apache-2.0
//! A disk with a volatile write cache that loses its power. Killing QEMU alone loses nothing that the guest has written to its disk, because this
//! machine's page cache has it. So QEMU logs each write and each flush, in order (its driver `blklogwrites`, in the format of the kernel's
//! dm-log-writes). After the kill, the disk is made anew from this log: with all writes up to the last flush, and with a random choice of the later
//! writes. A real disk promises no more.

use crate::disk::Disk;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// A disk that is used by one machine after the other, with a power cut after each.
#[derive(Debug)]
pub struct PowerCut {
    /// The data that have survived all power cuts so far.
    durable: PathBuf,
    folder: PathBuf,
    name: String,
}

/// The effect of a power cut on a disk.
#[derive(Debug, Default, Clone, Copy)]
pub struct Lost {
    pub flushes: usize,
    pub writes: usize,
    /// The writes after the last flush.
    pub at_risk: usize,
    pub lost: usize,
}

const SECTOR: usize = 512;
const MAGIC: u64 = 0x006a_7366_7773_6872;
const FLUSH: u64 = 1;
const DISCARD: u64 = 4;

/// One request of the guest to its disk.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// The place on the disk, in bytes.
    at: u64,
    flags: u64,
    data: std::ops::Range<usize>,
}

impl PowerCut {
    pub fn new(disk: &Disk, folder: &Path, name: &str) -> Self {
        Self { durable: disk.path().to_owned(), folder: folder.to_owned(), name: name.to_owned() }
    }

    /// The disk for the next machine.
    pub fn power_on(&self) -> Disk {
        let log = self.folder.join(format!("{}.writes", self.name));
        File::create(&log).expect("make a log of writes");
        Disk::copy(&self.durable, &self.folder, &format!("{}-live", self.name)).logged(log)
    }

    /// Call this when QEMU is dead. `coin`: whether a write is lost; it is called for each write after the last flush.
    pub fn power_went(&self, mut coin: impl FnMut() -> bool) -> Lost {
        let log = fs::read(self.folder.join(format!("{}.writes", self.name))).expect("read the log of writes");
        let Some(entries) = entries(&log) else {
            // this is then a machine that was killed, and the disk has lost nothing
            fs::copy(self.folder.join(format!("{}-live.raw", self.name)), &self.durable).expect("keep the disk");
            return Lost::default();
        };
        let flushed = entries.iter().rposition(|entry| entry.flags & FLUSH != 0).map_or(0, |last| last + 1);
        let disk = File::options().write(true).open(&self.durable).expect("open the disk");
        let mut lost = Lost::default();
        for (index, entry) in entries.iter().enumerate() {
            lost.flushes += usize::from(entry.flags & FLUSH != 0);
            if entry.data.is_empty() || entry.flags & DISCARD != 0 {
                continue;
            }
            lost.writes += 1;
            if index >= flushed {
                lost.at_risk += 1;
                if coin() {
                    lost.lost += 1;
                    continue;
                }
            }
            disk.write_all_at(&log[entry.data.clone()], entry.at).expect("write to the disk");
        }
        lost
    }
}

/// Reads a log. Its first sector has {magic, version, entries, sector size}. After it, each request has a sector {first sector, sectors, flags, bytes
/// of data}, and then its data, padded to a sector. The numbers are little-endian (kernel, device-mapper/log-writes.rst).
///
/// `None`: a request before the last flush is missing in the log, because it was not finished during the whole time of the flush.
fn entries(log: &[u8]) -> Option<Vec<Entry>> {
    let number =
        |at: usize| log.get(at..at + 8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight")));
    assert!(log.len() < SECTOR || number(0) == MAGIC, "no log of writes");
    let (mut found, mut at) = (Vec::new(), SECTOR);
    while at + SECTOR <= log.len() {
        let [first, sectors, flags] = [0, 8, 16].map(|offset| number(at + offset));
        let size = usize::try_from(sectors).expect("a size") * SECTOR;
        let start = at + SECTOR;
        // a part of the log that was not written reads as zeros
        let is_hole = sectors == 0 && flags == 0;
        let size = if flags & DISCARD != 0 { 0 } else { size };
        if is_hole || start + size > log.len() {
            break;
        }
        found.push(Entry { at: first * SECTOR as u64, flags, data: start..start + size });
        at = start + size;
    }
    // the first sector's number of entries is updated at each flush
    (found.len() as u64 >= number(16)).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sector(numbers: &[u64]) -> Vec<u8> {
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        bytes.resize(SECTOR, 0);
        bytes
    }

    #[test]
    fn what_was_flushed_stays_and_the_rest_is_left_to_the_coin() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::blank(folder.path(), "disk", 1);
        let cut = PowerCut::new(&disk, folder.path(), "disk");
        let write = |place: u64, byte: u8| [sector(&[place, 1, 0, 512]), vec![byte; SECTOR]].concat();
        let parts =
            [sector(&[MAGIC, 1, 3, 512]), write(0, b'a'), sector(&[0, 0, FLUSH, 0]), write(1, b'b'), write(2, b'c')];
        fs::write(folder.path().join("disk.writes"), parts.concat()).unwrap();
        let mut tosses = [true, false].into_iter();
        let lost = cut.power_went(|| tosses.next().unwrap());
        assert_eq!((lost.flushes, lost.writes, lost.at_risk, lost.lost), (1, 3, 2, 1));
        let bytes = fs::read(disk.path()).unwrap();
        assert_eq!([bytes[0], bytes[SECTOR], bytes[2 * SECTOR]], [b'a', 0, b'c']);
    }
}
