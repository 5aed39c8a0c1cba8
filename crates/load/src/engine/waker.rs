// SPDX-License-Identifier: Apache-2.0
//! Lets the conductor wake a worker that waits for the server. A worker of a closed loop waits without a timeout, because a timer
//! for each wait would cost the kernel as much as the wait itself.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A descriptor in a worker's poller. It is edge-triggered, so it is never read.
pub(super) struct Waker(OwnedFd);

impl Waker {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Ends the worker's wait.
    pub(super) fn wake(&self) {
        // It fails when the counter is full, after 2^64 calls.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
