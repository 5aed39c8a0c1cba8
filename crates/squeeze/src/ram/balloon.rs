// SPDX-License-Identifier: Apache-2.0
//! The body of `wringer internal balloon`: touches memory of its own (a memfd), says so, and waits to be ended.
//!
//! It needs no right at all. What it has touched cannot be reclaimed on a host without swap; where it may, it also locks it
//! (mlock(2): CAP_IPC_LOCK, or RLIMIT_MEMLOCK), and then swap takes none of it either. In a container it counts against the
//! container's own limit. It ends as the holder does: SIGTERM, SIGKILL, or the end of its lifeline.

use crate::ram::holder::{Held, check_oom_score, wait_for_end};
use crate::ram::room::Room;
use crate::{Error, Meminfo};
use host::process::{lifeline, report_not_ready, report_ready};
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};
use units::Bytes;

#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub bytes: u64,
    pub deadline: Duration,
    /// Of what is available, in the host or in our cgroup, at which it stops.
    pub floor_bytes: u64,
    pub oom_score_adj: i32,
}

/// Touched between two looks at the clock and at what is left.
const CHUNK_BYTES: u64 = 16 << 20;

/// Returns when it is to end. Whatever it holds goes back with the process.
///
/// # Errors
/// `oom_score_adj` is not what was asked for, or there is no memfd: nothing was touched.
pub fn run(options: &Options) -> Result<(), Error> {
    let lifeline = lifeline();
    let started = check_oom_score(options.oom_score_adj)
        .and_then(|()| memfd(options.bytes).map_err(Error::file("make", "a memfd".as_ref())));
    let file = started.inspect_err(|error| report_not_ready(&error.to_string()))?;
    let held = inflate(&file, options)?;
    report_ready(&serde_json::json!(held));
    wait_for_end(lifeline.as_ref());
    Ok(())
}

/// As the kernel names its mappings.
pub(super) const MEMFD: &str = "/memfd:wringer-balloon";

fn memfd(bytes: u64) -> io::Result<File> {
    let file = File::from(rustix::fs::memfd_create("wringer-balloon", MemfdFlags::CLOEXEC)?);
    file.set_len(bytes)?;
    Ok(file)
}

fn inflate(file: &File, options: &Options) -> Result<Held, Error> {
    let started = Instant::now();
    let page = rustix::param::page_size() as u64;
    let mut held = Held { locked: Some(true), ..Held::default() };
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
        let locked = touch(file, done, length, page).map_err(Error::file("touch", "a memfd".as_ref()))?;
        held.locked = held.locked.map(|all| all && locked);
        done += length;
    }
    held.reserved_pages = done / page;
    held.elapsed_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    Ok(held)
}

/// Maps one chunk, writes to each page, and locks it if that is allowed. Returns whether it is locked. The mapping stays.
fn touch(file: &File, offset: u64, length: u64, page: u64) -> io::Result<bool> {
    let too_large = |_| io::Error::from(io::ErrorKind::OutOfMemory);
    let (length, page) = (usize::try_from(length).map_err(too_large)?, usize::try_from(page).map_err(too_large)?);
    let (protection, null) = (ProtFlags::READ | ProtFlags::WRITE, std::ptr::null_mut());
    // SAFETY: a new mapping at an address of the kernel's choice, `length` bytes within the file's size; written only here, below
    // that length, and never given back but by the end of the process.
    unsafe {
        let address = rustix::mm::mmap(null, length, protection, MapFlags::SHARED, file, offset)?.cast::<u8>();
        for at in (0..length).step_by(page) {
            // not zero, so that nothing can take the page for an empty one
            address.add(at).write_volatile(1);
        }
        Ok(rustix::mm::mlock(address.cast(), length).is_ok())
    }
}
