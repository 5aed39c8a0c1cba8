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
use std::time::Duration;

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

    /// A thread that runs is inspected again: it may have sent the request and not sleep yet. The thread needs some time to wake the layer, most of
    /// all on a virtual machine. A layer that was woken on the thread's own processor gives the processor back by sleeping, not by a yield, because
    /// the layer's priority is higher.
    pub(crate) fn look(&self, asked: Asked) -> Seen {
        if asked.direct {
            return Seen::Waits;
        }
        if asked.thread == 0 {
            return Seen::Unseen;
        }
        for pause in PAUSES {
            match self.look_once(asked) {
                Some(Looked::Runs) => std::thread::sleep(pause),
                looked => return seen(looked),
            }
        }
        seen(self.look_once(asked))
    }

    /// `None`: the thread could not be inspected.
    fn look_once(&self, asked: Asked) -> Option<Looked> {
        let may_look = self.looking.fetch_add(1, Relaxed) < self.at_once;
        let looked = if may_look { inspect(asked) } else { None };
        self.looking.fetch_sub(1, Relaxed);
        looked
    }
}

/// The pauses before each further look at a thread that runs. They are short, because a read-ahead request is answered later by this time.
const PAUSES: [Duration; 2] = [Duration::from_micros(10), Duration::from_micros(50)];

enum Looked {
    Runs,
    Sleeps { for_this: bool },
}

fn seen(looked: Option<Looked>) -> Seen {
    match looked {
        Some(Looked::Sleeps { for_this: true }) => Seen::Waits,
        Some(Looked::Runs | Looked::Sleeps { for_this: false }) => Seen::Ahead,
        None => Seen::Unseen,
    }
}

fn inspect(asked: Asked) -> Option<Looked> {
    let thread = asked.thread;
    let call = Call::parse(&fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?)?;
    if call == Call::Running {
        return Some(Looked::Runs);
    }
    let for_this = match call.waits() {
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
    Some(Looked::Sleeps { for_this })
}

fn overlaps(range: Range, position: u64, thread: u32, asked: Asked) -> bool {
    let start = range.offset.unwrap_or(position);
    let end = start.saturating_add(range.length(thread));
    start < asked.offset + u64::from(asked.length) && asked.offset < end
}
