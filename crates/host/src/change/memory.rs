// SPDX-License-Identifier: Apache-2.0
//! Memory blocks: `/sys/devices/system/memory/memoryN` (kernel, admin-guide/mm/memory-hotplug.rst). A block whose pages cannot all be moved refuses
//! to go offline (EBUSY). It is brought back into its earlier zone with `online_kernel` or `online_movable`, because a plain `online` may choose
//! another zone.

use super::value::{read_value, write};
use crate::Error;
use crate::permit::Permit;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

pub const MEMORY: &str = "/sys/devices/system/memory";

/// The zone of a block, as far as it matters for bringing the block back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Zone {
    Kernel,
    Movable,
}

/// Block numbers, written as the kernel writes lists: `3,8-11`; an empty text where there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blocks(pub BTreeSet<u32>);

impl Blocks {
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() { Some(Self::default()) } else { units::parse_numbers(text, HIGHEST_BLOCK).map(Self) }
    }
}

impl std::fmt::Display for Blocks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        units::write_numbers(&self.0, formatter)
    }
}

/// x86-64 addresses 4 PiB at most, in blocks of 128 MiB or more.
const HIGHEST_BLOCK: u32 = (1 << 25) - 1;

/// The size of one block, in bytes. `None`: this kernel has no memory blocks, or they cannot be taken offline.
pub fn block_bytes() -> Option<u64> {
    let text = read_value(&Path::new(MEMORY).join("block_size_bytes")).ok()?;
    u64::from_str_radix(&text, 16).ok().filter(|bytes| *bytes > 0)
}

/// Whether this process could take blocks offline: /sys is often read-only in a container.
pub fn may_change() -> bool {
    let first = online_blocks().first().map(|(block, _)| file(*block, "state"));
    first.is_some_and(|path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok())
}

/// The present values that the kernel computes anew when a block comes or goes: the two reserves, if they are below their usual size, even if
/// somebody has set them (mm/mmap.c, `reserve_mem_notifier`), and the free memory to keep, if it was set lower (mm/page_alloc.c,
/// `init_per_zone_wmark_min`).
pub fn computed_values() -> Vec<(PathBuf, String)> {
    let paths = ["user_reserve_kbytes", "admin_reserve_kbytes", "min_free_kbytes"]
        .map(|name| Path::new("/proc/sys/vm").join(name));
    paths.into_iter().filter_map(|path| read_value(&path).ok().map(|value| (path, value))).collect()
}

/// The blocks that are online and lie in one zone: only these can go offline.
pub fn online_blocks() -> Vec<(u32, Zone)> {
    let names = std::fs::read_dir(MEMORY).into_iter().flatten().flatten();
    let numbers = names.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("memory")?.parse::<u32>().ok());
    let mut found: Vec<(u32, Zone)> =
        numbers.filter(|block| is_online(*block)).filter_map(|block| Some((block, zone_of(block)?))).collect();
    found.sort_unstable();
    found
}

fn file(block: u32, name: &str) -> PathBuf {
    Path::new(MEMORY).join(format!("memory{block}")).join(name)
}

pub fn is_online(block: u32) -> bool {
    read_value(&file(block, "state")).is_ok_and(|state| state == "online")
}

/// The zone of an online block: `valid_zones` names it, or says "none" when the block lies in several zones.
fn zone_of(block: u32) -> Option<Zone> {
    match read_value(&file(block, "valid_zones")).ok()?.as_str() {
        "none" | "" => None,
        "Movable" => Some(Zone::Movable),
        _ => Some(Zone::Kernel),
    }
}

/// Takes the block offline; returns whether it went offline within `patience`. Without this limit, one page that somebody pins, for direct I/O for
/// example, keeps the kernel trying until the page is free (mm/memory_hotplug.c, `offline_pages`), unless a signal comes; then the block stays
/// online.
///
/// # Errors
/// An error other than that its pages cannot be moved.
pub fn take_offline(_permit: &Permit, block: u32, patience: Duration) -> Result<bool, Error> {
    let path = file(block, "state");
    let fail = |source: io::Error| Error::path("write", &path, source);
    #[allow(clippy::disallowed_methods)] // this is the permitted change
    let state = File::options().write(true).open(&path).map_err(fail)?;
    match interrupted_after(patience, || rustix::io::write(&state, b"offline")).map_err(fail)? {
        Ok(_) => Ok(true),
        Err(Errno::BUSY | Errno::INVAL | Errno::INTR | Errno::NOMEM) => Ok(false),
        Err(errno) => Err(fail(errno.into())),
    }
}

/// Sends this thread a signal when `work` has not ended within `patience`, and repeats it until `work` ends: one signal may come before the system
/// call that it should interrupt.
fn interrupted_after<T>(patience: Duration, work: impl FnOnce() -> T) -> io::Result<T> {
    const AGAIN: Duration = Duration::from_millis(20);
    // SAFETY: a handler that does nothing; because there is a handler, the signal ends a system call.
    let handler = unsafe { signal_hook_registry::register(libc::SIGURG, || {}) }?;
    let (process, thread) = (std::process::id().cast_signed(), rustix::thread::gettid().as_raw_nonzero().get());
    let (working, ended) = mpsc::channel::<()>();
    let result = std::thread::scope(|scope| {
        std::thread::Builder::new().name("impatient".into()).spawn_scoped(scope, move || {
            let mut wait = patience;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                // SAFETY: a system call with integers only; the signalled thread waits for this one, so it exists.
                unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGURG) };
                wait = AGAIN;
            }
        })?;
        let result = work();
        drop(working);
        Ok(result)
    });
    signal_hook_registry::unregister(handler);
    result
}

/// Brings those of `blocks` that are offline online; returns whether there was one. Blocks that are online, or do not exist any more, are left alone.
///
/// # Errors
/// The first block that does not come online; the others are tried all the same.
pub fn bring_online(_permit: &Permit, blocks: &Blocks, zone: Zone) -> Result<bool, Error> {
    let word = if zone == Zone::Movable { "online_movable" } else { "online_kernel" };
    let (mut any, mut failed) = (false, None);
    for block in &blocks.0 {
        let path = file(*block, "state");
        if read_value(&path).is_ok_and(|state| state == "offline") {
            any = true;
            failed = failed.or(write(&path, word).err());
        }
    }
    failed.map_or(Ok(any), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_does_not_end_is_ended() {
        let (end, _other) = rustix::pipe::pipe().expect("a pipe");
        let (patience, started) = (Duration::from_millis(50), std::time::Instant::now());
        // no handler restarts poll(2) (signal(7)), as none restarts the kernel's offline_pages
        let poll = || {
            let mut set = [rustix::event::PollFd::new(&end, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut set, None)
        };
        assert_eq!(interrupted_after(patience, poll).expect("a thread"), Err(Errno::INTR));
        assert!(started.elapsed() >= patience);
    }

    #[test]
    fn lists_as_the_kernel_writes_them() {
        for text in ["", "3", "3-4", "0,3-5,9", "32-199"] {
            assert_eq!(Blocks::parse(text).expect("is a list").to_string(), text);
        }
        assert_eq!(Blocks::parse("1,2,3,7").expect("is a list").to_string(), "1-3,7");
        assert_eq!(Blocks::parse("1-x"), None);
    }
}
