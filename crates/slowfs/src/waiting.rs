// SPDX-License-Identifier: Apache-2.0
//! Finds out which reads a thread waits for, and which reads are read-ahead of the kernel.
//!
//! FUSE does not tell: a page that a query needs and a page that the kernel reads ahead arrive as the same request. But the request names the thread
//! that sent it, and `/proc/<thread>/syscall` shows the system call of that thread. If the thread sleeps in a read of this range of this file, it
//! waits for the request. If it runs, waits for its client, or sleeps in a read of another range, it has its data, and the request is read-ahead. The
//! thread is inspected when the backing file has answered and the delay begins: a thread that needs the pages later waits for less than a whole read.
//!
//! Only requests through the page cache are inspected: the kernel does not read ahead for `O_DIRECT`.

mod call;

use call::{Call, Range, Waits};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// One read request, with the thread that may wait for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// The thread's id in the layer's pid namespace. 0: the thread is outside of it.
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
    /// No thread waits: read-ahead.
    Ahead,
    /// The thread could not be inspected.
    Unseen,
}

/// Inspects the threads that send requests. Inspecting a thread inside `execve` blocks, and that thread may itself wait for a reply
/// of this layer. So at most half of the layer's threads inspect at the same time.
#[derive(Debug)]
pub(crate) struct Looker {
    looking: AtomicUsize,
    at_once: usize,
}

impl Looker {
    /// `threads`: the number of threads that take requests from the kernel.
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

/// A thread that has just sent the request may not sleep yet: a running thread is inspected again, after others had their turn.
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
