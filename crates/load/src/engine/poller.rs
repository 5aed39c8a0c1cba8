// SPDX-License-Identifier: Apache-2.0
//! Waits for many sockets, with timeouts shorter than a millisecond.

use super::waker::Waker;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::time::Duration;

/// One wait reports at most this many sockets; the next wait reports the others.
const BATCH: usize = 256;

/// Edge-triggered: a socket is reported when data arrives. It must then be read until a read comes back short.
pub(super) struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, events: Vec::with_capacity(BATCH) })
    }

    /// The waker is reported as `key`.
    pub(super) fn woken_by(waker: &Waker, key: usize) -> io::Result<Self> {
        let poller = Self::new()?;
        poller.add(waker, key)?;
        Ok(poller)
    }

    pub(super) fn add(&self, socket: impl AsFd, key: usize) -> io::Result<()> {
        epoll::add(
            &self.epoll,
            socket,
            EventData::new_u64(key as u64),
            EventFlags::IN | EventFlags::RDHUP | EventFlags::ET,
        )?;
        Ok(())
    }

    pub(super) fn remove(&self, socket: impl AsFd) {
        // The socket is about to be closed, which removes it, too.
        let _ = epoll::delete(&self.epoll, socket);
    }

    /// Waits until a socket is readable or `timeout` is over (`None`: forever). Puts the keys of readable sockets into `ready`.
    #[inline]
    pub(super) fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<usize>) -> io::Result<()> {
        ready.clear();
        match timeout {
            None => self.wait_for_ever()?,
            Some(timeout) => match wait_precisely(&self.epoll, &mut self.events, timeout) {
                Ok(()) | Err(Errno::INTR) => {}
                Err(Errno::NOSYS) => self.wait_by_the_millisecond(timeout)?,
                Err(error) => return Err(error.into()),
            },
        }
        // Every key was made from a usize.
        #[allow(clippy::cast_possible_truncation)]
        ready.extend(self.events.drain(..).map(|event| event.data.u64() as usize));
        Ok(())
    }

    #[inline]
    fn wait_for_ever(&mut self) -> io::Result<()> {
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// For kernels before 5.11. Wakes up to a millisecond early, then sleeps for the rest without watching the sockets.
    #[cold]
    fn wait_by_the_millisecond(&mut self, timeout: Duration) -> io::Result<()> {
        let whole = Duration::from_millis(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        let timespec = rustix::event::Timespec::try_from(whole).map_err(io::Error::other)?;
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&timespec)) {
            Ok(0) if whole < timeout => std::thread::sleep(timeout - whole),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// `epoll_pwait2` (Linux 5.11), which takes nanoseconds.
#[inline]
fn wait_precisely(epoll: &OwnedFd, events: &mut Vec<Event>, timeout: Duration) -> Result<(), Errno> {
    let timeout = libc::timespec {
        // The name of its type is not used: libc has deprecated `time_t` for musl.
        tv_sec: timeout.as_secs().try_into().unwrap_or(i32::MAX.into()),
        tv_nsec: libc::c_long::from(timeout.subsec_nanos()),
    };
    events.clear();
    let room: &mut [MaybeUninit<Event>] = events.spare_capacity_mut();
    // SAFETY: `Event` has the layout of the kernel's epoll_event; the kernel writes at most `room.len()` of them there, reads
    // the timespec, and takes no signal mask.
    let count = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            room.as_mut_ptr(),
            room.len(),
            &raw const timeout,
            std::ptr::null::<libc::sigset_t>(),
            0_usize,
        )
    };
    match usize::try_from(count) {
        Ok(count) => {
            // SAFETY: the kernel has written `count` events from the start of an empty vector's room.
            unsafe { events.set_len(count) };
            Ok(())
        }
        Err(_) => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}
