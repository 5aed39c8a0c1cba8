// SPDX-License-Identifier: Apache-2.0
//! The process that measures the way. It is not a thread of the layer: a process that waits for its own answer cannot be killed,
//! because the kernel gives up on the layer only when its last descriptor is closed.

use super::{BLOCK, BLOCK_BYTES, LENGTHS, NAME, ROUNDS, Way};
use crate::clock::{MonotonicNs, now};
use host::process::{Forked, fork};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsRawFd as _, OwnedFd, RawFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{pread, read, write};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::path::Path;
use std::time::Duration;

/// On a host that answers at all, the measurement ends within this time.
const PATIENCE: Duration = Duration::from_secs(3);
/// When each length has been measured once, no further measurement begins after this time.
const LONGEST_NS: u64 = 600_000_000;
const GO: &[u8] = b"go";
const ANSWER_BYTES: usize = 64 << 10;

/// A process that is ready to measure.
#[derive(Debug)]
pub(crate) struct Looker {
    process: Forked,
    line: OwnedFd,
}

impl Looker {
    /// Must be called before this process starts a thread. `root` names the file system's root as soon as there is one. `nice` is
    /// the nice value of a database. `closed` are the layer's descriptors, which the process must not hold.
    pub(crate) fn start(root: &Path, nice: i32, closed: &[RawFd]) -> Result<Self, String> {
        let (line, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(|errno| errno.to_string())?;
        let (file, own) = (root.join(NAME), line.as_raw_fd());
        let parent = rustix::process::getpid();
        let process = fork(|| {
            for number in closed.iter().copied().chain([own]) {
                // SAFETY: they belong to the parent, and this forked process uses none of them.
                unsafe { libc::close(number) };
            }
            let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
            let _ = rustix::process::setpriority_process(None, nice);
            let mut word = [0; GO.len()];
            if rustix::process::getppid() != Some(parent) || read(&theirs, &mut word).is_ok_and(|length| length == 0) {
                return 1;
            }
            let way = look(&file).unwrap_or_else(|error| Way::not_measured(error.to_string()));
            let text = serde_json::to_vec(&way).unwrap_or_default();
            i32::from(write(&theirs, &text).is_err())
        });
        process.map(|process| Self { process, line }).map_err(|error| host::chain(&error))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Measures, when the file system is served. On return the process has ended, or is about to end.
    pub(crate) fn look(self) -> Way {
        let answer = self.ask();
        if answer.is_err() {
            self.process.signal(rustix::process::Signal::KILL);
        } else {
            self.process.reap();
        }
        answer.unwrap_or_else(Way::not_measured)
    }

    fn ask(&self) -> Result<Way, String> {
        write(&self.line, GO).map_err(|errno| errno.to_string())?;
        let mut set = [PollFd::new(&self.line, PollFlags::IN)];
        let heard = poll(&mut set, Timespec::try_from(PATIENCE).ok().as_ref()).map_err(|errno| errno.to_string())?;
        if heard == 0 {
            return Err(format!("no answer within {} s", PATIENCE.as_secs()));
        }
        let mut text = vec![0; ANSWER_BYTES];
        let length = read(&self.line, &mut text).map_err(|errno| errno.to_string())?;
        serde_json::from_slice(&text[..length]).map_err(|_| "the process that looks ended by itself".to_owned())
    }
}

/// All measurements, in rounds over all lengths.
fn look(file: &Path) -> rustix::io::Result<Way> {
    let file = open(file, OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty())?;
    let began = now();
    let mut looks = vec![Vec::new(); LENGTHS.len()];
    // The first read asks for the attributes, too, and finds all caches cold.
    one(&file, 0)?;
    for round in 0..ROUNDS {
        for (number, length) in LENGTHS.iter().enumerate() {
            for _ in 0..length.looks {
                if round > 0 && now().saturating_sub(began) > LONGEST_NS {
                    return Ok(Way::of(&looks));
                }
                looks[number].push(one(&file, number)?);
            }
        }
    }
    Ok(Way::of(&looks))
}

/// How long this process waited, and how long the layer had the request, in nanoseconds.
fn one(file: &OwnedFd, number: usize) -> rustix::io::Result<(MonotonicNs, MonotonicNs)> {
    let mut memory = [0; 2 * BLOCK_BYTES];
    let aligned = memory.as_ptr().align_offset(BLOCK_BYTES);
    let block = &mut memory[aligned..aligned + BLOCK_BYTES];
    let began = now();
    let length = pread(file, &mut *block, number as u64 * BLOCK)?;
    let waited = now().saturating_sub(began);
    let mut inside = [0; 8];
    inside.copy_from_slice(&block[..8]);
    if length < BLOCK_BYTES {
        return Err(rustix::io::Errno::IO);
    }
    Ok((waited, u64::from_ne_bytes(inside)))
}
