// SPDX-License-Identifier: Apache-2.0
//! A ring of records that the kernel writes, and that is read here (perf_event_open(2), "MMAP layout").

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// 512 KiB: room for some 16,000 records between two looks.
const DATA: usize = 512 << 10;
const DATA_BYTES: u64 = DATA as u64;
/// The places of head and tail in the page before the data: `struct perf_event_mmap_page`.
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;

const LOST: u32 = 2;
const SAMPLE: u32 = 9;
/// The length of a record's header: kind, flags and length.
const HEADER: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record {
    Hit {
        id: u64,
        process: u32,
        thread: u32,
        at_ns: u64,
    },
    /// This number of records had no room.
    Lost(u64),
}

#[derive(Debug)]
pub(super) struct Ring {
    start: NonNull<u8>,
    page: usize,
}

// SAFETY: the mapping belongs to this value alone, and is not bound to a thread
unsafe impl Send for Ring {}

impl Ring {
    pub(super) fn map(event: &OwnedFd) -> Result<Self, Errno> {
        let page = rustix::param::page_size();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping where the kernel has room; nothing is replaced
        let start = unsafe { mmap(std::ptr::null_mut(), page + DATA, protection, MapFlags::SHARED, event, 0) }?;
        Ok(Self { start: NonNull::new(start.cast()).ok_or(Errno::FAULT)?, page })
    }

    fn counter(&self, at: usize) -> &AtomicU64 {
        // SAFETY: within the first page, which stays mapped as long as this value; aligned to eight bytes; the kernel changes it as a whole
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// Reads all records that are there, the oldest first.
    pub(super) fn read(&mut self, mut each: impl FnMut(Record)) {
        let head = self.counter(HEAD_AT).load(Ordering::Acquire);
        let mut tail = self.counter(TAIL_AT).load(Ordering::Relaxed);
        let mut bytes = Vec::new();
        while tail < head {
            self.copy(tail, HEADER, &mut bytes);
            let Some((kind, length)) = header(&bytes) else { break };
            // this kernel writes no such length: it is better to lose the records than to loop for ever
            if length < HEADER || length as u64 > head - tail {
                tail = head;
                break;
            }
            self.copy(tail, length, &mut bytes);
            bytes.get(HEADER..).and_then(|body| record(kind, body)).into_iter().for_each(&mut each);
            tail += length as u64;
        }
        fence(Ordering::SeqCst);
        self.counter(TAIL_AT).store(tail, Ordering::Release);
    }

    /// Copies a part of a record, which may continue at the ring's begin.
    fn copy(&self, from: u64, length: usize, into: &mut Vec<u8>) {
        into.clear();
        for at in from..from + length as u64 {
            let within = usize::try_from(at % DATA_BYTES).unwrap_or(0);
            // SAFETY: the byte is within the data, which the kernel has written up to its head, and does not write again until the tail has passed it
            into.push(unsafe { self.start.as_ptr().add(self.page + within).read() });
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this value's own mapping, to which nothing refers any more
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.page + DATA) };
    }
}

fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> Option<[u8; BYTES]> {
    bytes.get(at..at + BYTES)?.try_into().ok()
}

/// The kind of a record, and its length with the header.
fn header(bytes: &[u8]) -> Option<(u32, usize)> {
    Some((u32::from_ne_bytes(number(bytes, 0)?), usize::from(u16::from_ne_bytes(number(bytes, 6)?))))
}

/// The record, from the bytes after its header.
fn record(kind: u32, body: &[u8]) -> Option<Record> {
    let long = |at| Some(u64::from_ne_bytes(number(body, at)?));
    let short = |at| Some(u32::from_ne_bytes(number(body, at)?));
    match kind {
        SAMPLE => Some(Record::Hit { id: long(0)?, process: short(8)?, thread: short(12)?, at_ns: long(16)? }),
        LOST => Some(Record::Lost(long(8)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_the_kernel_are_read_and_others_left_out() {
        let bytes = |words: &[u64]| words.iter().flat_map(|it| it.to_ne_bytes()).collect::<Vec<u8>>();
        let both = u64::from_ne_bytes([[7, 0, 0, 0], [9, 0, 0, 0]].concat().try_into().expect("eight"));
        let hit = Record::Hit { id: 5, process: 7, thread: 9, at_ns: 11 };
        assert_eq!(record(SAMPLE, &bytes(&[5, both, 11])), Some(hit));
        assert_eq!(record(LOST, &bytes(&[5, 3])), Some(Record::Lost(3)));
        assert_eq!(record(SAMPLE, &bytes(&[5, both])), None, "cut");
        assert_eq!(record(1, &bytes(&[5, 3, 3])), None);
        let head = [9_u32.to_ne_bytes().as_slice(), &0_u16.to_ne_bytes(), &32_u16.to_ne_bytes()].concat();
        assert_eq!(header(&head), Some((SAMPLE, 32)));
    }
}
