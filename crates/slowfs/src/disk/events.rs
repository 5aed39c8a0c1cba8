// SPDX-License-Identifier: Apache-2.0
//! What the keeper of a slow disk waits for.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The event that the keeper must handle.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) term: bool,
    pub(super) usr1: bool,
    pub(super) died: bool,
    pub(super) line: bool,
    pub(super) client: bool,
    pub(super) lifeline: bool,
}

impl Events {
    /// Waits for one of these, at most `longest`. `of_keeper`: SIGTERM, SIGUSR1, the socket; `of_worker`: its end, its messages.
    pub(super) fn wait(
        of_keeper: [BorrowedFd<'_>; 3],
        of_worker: [BorrowedFd<'_>; 2],
        lifeline: Option<&OwnedFd>,
        longest: Duration,
    ) -> Self {
        let [term, usr1, own] = of_keeper;
        let [died, line] = of_worker;
        let fds = [term, usr1, died, line, own].into_iter().chain(lifeline.map(AsFd::as_fd));
        let mut set: Vec<PollFd<'_>> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        if poll(&mut set, Timespec::try_from(longest).ok().as_ref()).is_err() {
            return Self::default();
        }
        let is = |at: usize| set.get(at).is_some_and(|fd| !fd.revents().is_empty());
        Self { term: is(0), usr1: is(1), died: is(2), line: is(3), client: is(4), lifeline: is(5) }
    }
}

pub(super) fn drain(pipe: &OwnedFd) {
    while rustix::io::read(pipe, &mut [0; 64]).is_ok_and(|length| length > 0) {}
}

/// Whether the lifeline has ended.
pub(super) fn ended(lifeline: Option<&OwnedFd>) -> bool {
    lifeline.is_some_and(|lifeline| rustix::io::read(lifeline, &mut [0; 64]).is_ok_and(|length| length == 0))
}
