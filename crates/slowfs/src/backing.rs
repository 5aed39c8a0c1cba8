// SPDX-License-Identifier: Apache-2.0
//! An open file below the layer.
//!
//! Aligned requests bypass the page cache of the backing file system (`O_DIRECT`, on a second descriptor), so that nothing is
//! cached twice and every such request reaches the device. Other requests use that page cache. The kernel keeps both coherent.

use crate::inode::Inode;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::{Errno, IoSlice, ReadWriteFlags, Result, pread, pwritev2};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug)]
pub(crate) struct Open {
    file: OwnedFd,
    direct: OnceLock<Option<OwnedFd>>,
    mode: OFlags,
    /// The alignment that `O_DIRECT` needs for offset and length on this file. It starts at the smallest logical block, and grows
    /// when the file system refuses a request.
    align: AtomicU64,
}

const SECTOR: u64 = 512;
const PAGE: u64 = 4096;
const NEVER: u64 = u64::MAX;

impl Open {
    /// `mode`: `RDONLY`, `WRONLY` or `RDWR`. Without `direct`, everything goes through the page cache below.
    pub(crate) fn new(file: OwnedFd, mode: OFlags, direct: bool) -> Self {
        Self { file, direct: OnceLock::new(), mode, align: AtomicU64::new(if direct { SECTOR } else { NEVER }) }
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Fills `into` from `offset`; fewer bytes only at the end of the file. `into` must be page-aligned.
    pub(crate) fn read(&self, inode: &Inode, into: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while done < into.len() {
            let (at, rest) = (offset + done as u64, &mut into[done..]);
            let direct = self.direct(inode, at, rest.len());
            let count = match pread(direct.unwrap_or(self.file()), &mut *rest, at) {
                Err(Errno::INTR) => continue,
                Err(Errno::INVAL) if direct.is_some() => {
                    self.be_stricter(at, rest.len());
                    continue;
                }
                other => other?,
            };
            done += count;
            let ended_in_a_block = direct.is_some() && !(count as u64).is_multiple_of(SECTOR);
            if count == 0 || ended_in_a_block {
                break;
            }
        }
        Ok(done)
    }

    /// Writes all of `data`, which must be page-aligned to be written directly. `DSYNC`: returns when the data is on the device. `APPEND`: at the end that
    /// the file has then, wherever `offset` is.
    pub(crate) fn write(&self, inode: &Inode, data: &[u8], offset: u64, mut how: ReadWriteFlags) -> Result<usize> {
        let mut done = 0;
        while done < data.len() {
            let (at, rest) = (offset + done as u64, &data[done..]);
            let direct = self.direct(inode, at, rest.len()).filter(|_| !how.contains(ReadWriteFlags::APPEND));
            match pwritev2(direct.unwrap_or(self.file()), &[IoSlice::new(rest)], at, how) {
                Err(Errno::INTR) => {}
                // Linux before 4.16 does not know it.
                Err(Errno::OPNOTSUPP) if how.contains(ReadWriteFlags::APPEND) => how.remove(ReadWriteFlags::APPEND),
                Err(Errno::INVAL) if direct.is_some() => self.be_stricter(at, rest.len()),
                Err(error) if done == 0 => return Err(error),
                Ok(0) | Err(_) => break,
                Ok(count) => done += count,
            }
        }
        Ok(done)
    }

    fn direct(&self, inode: &Inode, offset: u64, length: usize) -> Option<BorrowedFd<'_>> {
        let align = self.align.load(Relaxed);
        if align == NEVER || !offset.is_multiple_of(align) || !(length as u64).is_multiple_of(align) {
            return None;
        }
        let direct = self.direct.get_or_init(|| inode.open(self.mode | OFlags::DIRECT).ok());
        if direct.is_none() {
            self.align.store(NEVER, Relaxed);
        }
        direct.as_ref().map(|fd| fd.as_fd())
    }

    fn be_stricter(&self, offset: u64, length: usize) {
        let was_page_aligned = offset.is_multiple_of(PAGE) && (length as u64).is_multiple_of(PAGE);
        self.align.store(if was_page_aligned { NEVER } else { PAGE }, Relaxed);
    }
}
