// SPDX-License-Identifier: Apache-2.0
//! Which reads somebody waits for, and which the kernel asks for ahead.
//!
//! FUSE does not say: a page that a query needs and a page that the kernel fetches because it may be needed arrive as the same request.
//! But the request names the thread that sent it, and `/proc/<thread>/syscall` says what that thread is doing. A thread that
//! sleeps in a read of this range of this file waits for the request; one that runs, waits for its client, or sleeps in a read of
//! another range has what it needs: then the request is read-ahead. The look is taken when the backing file has answered and the
//! delay begins: whoever comes to need the pages later waits for less than a read takes.
//!
//! Only requests through the page cache need a look: nothing reads ahead for `O_DIRECT`.

mod call;

use call::{Call, Range, Waits};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// One read request, as far as somebody may wait for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// As the layer's own pid namespace numbers it; 0: from outside of it.
    pub thread: u32,
    pub inode: u64,
    pub offset: u64,
    pub length: u32,
    /// The file is open with `O_DIRECT`.
    pub direct: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    Waits,
    /// Nobody waits: read-ahead.
    Ahead,
    /// The thread could not be looked at.
    Unseen,
}

/// Looks at the threads that ask. A look waits for a thread that is inside `execve`, which may itself wait for a reply of this layer:
/// so at most half of the layer's threads look at the same time.
#[derive(Debug)]
pub(crate) struct Looker {
    looking: AtomicUsize,
    at_once: usize,
}

impl Looker {
    /// `threads`: how many take requests from the kernel.
    pub(crate) fn new(threads: usize) -> Self {
        Self { looking: AtomicUsize::new(0), at_once: threads / 2 }
    }

    pub(crate) fn look(&self, asked: Asked) -> Seen {
        if asked.direct {
            return Seen::Waits;
        }
        if asked.thread == 0 {
            return Seen::Unseen;
        }
        let seen = if self.looking.fetch_add(1, Relaxed) < self.at_once { see(asked) } else { None };
        self.looking.fetch_sub(1, Relaxed);
        seen.unwrap_or(Seen::Unseen)
    }
}

const LOOKS_AGAIN: u32 = 3;

fn see(asked: Asked) -> Option<Seen> {
    let thread = asked.thread;
    let waits = match call_of(thread)?.waits() {
        Waits::No => false,
        Waits::Somehow => true,
        Waits::In(fd, range) => {
            let file = fs::read_to_string(format!("/proc/{thread}/fdinfo/{fd}")).ok()?;
            let field = |name: &str| file.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
            // kernels before 5.14 do not name the inode
            let same = field("ino:").is_none_or(|inode| inode == asked.inode);
            same && overlaps(range, field("pos:")?, thread, asked)
        }
    };
    Some(if waits { Seen::Waits } else { Seen::Ahead })
}

/// Who has just sent the request may still be on the way to its sleep: a thread that runs is looked at again, after others had their turn.
fn call_of(thread: u32) -> Option<Call> {
    let look = || Call::parse(&fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?);
    for _ in 0..LOOKS_AGAIN {
        match look()? {
            Call::Running => std::thread::yield_now(),
            asleep => return Some(asleep),
        }
    }
    look()
}

fn overlaps(range: Range, position: u64, thread: u32, asked: Asked) -> bool {
    let start = range.offset.unwrap_or(position);
    let end = start.saturating_add(range.length(thread));
    start < asked.offset + u64::from(asked.length) && asked.offset < end
}
