// SPDX-License-Identifier: Apache-2.0
//! The body of `wringer internal balloon`: touches its own memory (a memfd), reports it, and waits for its end.
//!
//! It needs no rights. Without swap the kernel cannot reclaim touched memory. Where it may (mlock(2): CAP_IPC_LOCK, or
//! RLIMIT_MEMLOCK), it also locks the memory, so that it cannot be swapped either. In a container it counts against the container's
//! limit. It ends as the holder does: SIGTERM, SIGKILL, or the end of its lifeline.

use crate::ram::holder::{Held, check_oom_score, wait_for_end};
use crate::ram::room::Room;
use crate::{Error, Meminfo};
use host::process::{Order, lifeline, report_not_ready, report_ready};
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};
use units::Bytes;

/// The order that a balloon gets.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Options {
    pub bytes: u64,
    pub deadline: Duration,
    /// The available memory, of the host or of our cgroup, at which it stops.
    pub floor_bytes: u64,
    pub oom_score_adj: i32,
}

impl Order for Options {
    const ROLE: &'static str = "balloon";
    type Ready = Held;
}

/// The bytes touched between two checks of the clock and of the available memory.
const CHUNK_BYTES: u64 = 16 << 20;

/// Returns when the process should end. Its memory ends with the process.
///
/// # Errors
/// `oom_score_adj` is not as expected, or there is no memfd: nothing was touched.
pub fn run(options: &Options) -> Result<(), Error> {
    let lifeline = lifeline();
    let started = check_oom_score(options.oom_score_adj)
        .and_then(|()| memfd(options.bytes).map_err(Error::file("make", "a memfd".as_ref())));
    let file = started.inspect_err(|error| report_not_ready(&error.to_string()))?;
    let held = inflate(&file, options)?;
    report_ready::<Options>(&held);
    wait_for_end(lifeline.as_ref());
    Ok(())
}

/// The name of its mappings in `/proc`.
const MEMFD: &str = "/memfd:wringer-balloon";

fn memfd(bytes: u64) -> io::Result<File> {
    let file = File::from(rustix::fs::memfd_create("wringer-balloon", MemfdFlags::CLOEXEC)?);
    file.set_len(bytes)?;
    Ok(file)
}

fn inflate(file: &File, options: &Options) -> Result<Held, Error> {
    let started = Instant::now();
    let page = rustix::param::page_size() as u64;
    let mut held = Held { locked: Some(true), ..Held::default() };
    let start = map(file, options.bytes).map_err(Error::file("map", "a memfd".as_ref()))?;
    let mut done = 0;
    while done < options.bytes {
        let length = CHUNK_BYTES.min(options.bytes - done);
        if Room::of_own_cgroup(&Meminfo::now()?).available_bytes < options.floor_bytes + length {
            held.stopped = Some(format!("floor: less than {} are available", Bytes(options.floor_bytes)));
            break;
        }
        if started.elapsed() > options.deadline {
            held.stopped = Some("deadline: touching memory took longer".into());
            break;
        }
        // SAFETY: the mapping and the file are `options.bytes` long, and the chunk does not extend beyond that.
        let touched = unsafe { touch(start, done, length, page) };
        let locked = touched.map_err(Error::file("touch", "a memfd".as_ref()))?;
        held.locked = held.locked.map(|all| all && locked);
        done += length;
    }
    held.reserved_pages = done / page;
    held.elapsed_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    Ok(held)
}

/// Maps the file in one piece: with a mapping for each chunk, 1 TiB would reach the limit of mappings (`vm.max_map_count`, 65530).
fn map(file: &File, bytes: u64) -> io::Result<*mut u8> {
    let length = usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses; only the end of the process unmaps it.
    let address = unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, file, 0) }?;
    Ok(address.cast())
}

/// Writes to each page of one chunk, and locks it if that is allowed. Returns whether it is locked.
///
/// # Safety
/// `start` is the beginning of a mapping, and the chunk lies in it, and in the file's size.
unsafe fn touch(start: *mut u8, offset: u64, length: u64, page: u64) -> io::Result<bool> {
    let number = |value| usize::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory));
    let (offset, length, page) = (number(offset)?, number(length)?, number(page)?);
    // SAFETY: within the mapping, as the caller promises.
    unsafe {
        let chunk = start.add(offset);
        for at in (0..length).step_by(page) {
            // Not zero, so that the kernel cannot treat the page as empty.
            chunk.add(at).write_volatile(1);
        }
        Ok(rustix::mm::mlock(chunk.cast(), length).is_ok())
    }
}

/// The memory of this process's balloon now; 0 if its smaps may not be read.
pub fn resident_bytes(pid: u32) -> u64 {
    let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps"));
    resident_of(&smaps.unwrap_or_default(), MEMFD)
}

/// The sum of `Rss` over the mappings of one file (kernel, filesystems/proc.rst). Not the `RssShmem` of the process: that includes
/// its program if the program file is in memory.
fn resident_of(smaps: &str, file: &str) -> u64 {
    let (mut of_file, mut kib) = (false, 0);
    for line in smaps.lines() {
        let name = line.split_ascii_whitespace().next().unwrap_or_default();
        if !name.ends_with(':') {
            of_file = line.contains(file);
        } else if of_file && name == "Rss:" {
            kib += line.split_ascii_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    kib * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_balloons_own_file_counts() {
        let smaps = "\
5555-6666 r-xp 00000000 00:02 17 /bin/wringer
Size:               5000 kB
Rss:                5000 kB
7f00-7f01 rw-s 00000000 00:01 1025 /memfd:wringer-balloon (deleted)
Size:              16384 kB
Rss:               16384 kB
Pss:               16384 kB
7f02-7f03 rw-s 01000000 00:01 1025 /memfd:wringer-balloon (deleted)
Rss:                   4 kB
7f04-7f05 rw-p 00000000 00:00 0 [heap]
Rss:                  99 kB
";
        assert_eq!(resident_of(smaps, MEMFD), (16384 + 4) * 1024);
    }
}
