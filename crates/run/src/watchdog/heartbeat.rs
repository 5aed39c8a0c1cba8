// SPDX-License-Identifier: Apache-2.0
//! The controller's signs of life: a thread writes a byte into the watchdog's lifeline at intervals.
//!
//! A stopped process writes no byte. No byte is written either while the thread that started the heartbeat hangs: it waits uninterruptibly, for a
//! disk or a file system, and has used no CPU since the last look.

use crate::Error;
use host::process::ThreadLook;
use rustix::fd::OwnedFd;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Writes signs of life until it is dropped; the lifeline ends then.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    _stop: Sender<()>,
}

impl Heartbeat {
    /// Starts a heartbeat for the calling thread. `lifeline` must not block.
    pub(crate) fn start(lifeline: OwnedFd, every: Duration) -> Result<Self, Error> {
        let (stop, stopped) = channel();
        let tid = rustix::thread::gettid();
        let mut before = ThreadLook::at(tid);
        let body = move || {
            host::namespace::raise_thread_priority();
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let now = ThreadLook::at(tid);
                if !hangs(before, now) {
                    let _ = rustix::io::write(&lifeline, &[0]);
                }
                before = now;
            }
        };
        let started = std::thread::Builder::new().name("heartbeat".into()).spawn(body);
        started.map_err(|source| host::Error::call("start the heartbeat", source))?;
        Ok(Self { _stop: stop })
    }
}

fn hangs(before: Option<ThreadLook>, now: Option<ThreadLook>) -> bool {
    now.is_some_and(|now| now.state == b'D' && before == Some(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_hangs_that_waits_and_does_not_move() {
        let look = |state, cpu_ticks| Some(ThreadLook { state, cpu_ticks });
        assert!(hangs(look(b'D', 7), look(b'D', 7)));
        assert!(!hangs(look(b'D', 7), look(b'D', 8)), "it came on in between");
        assert!(!hangs(look(b'S', 7), look(b'S', 7)), "it waits for something that may be long");
        assert!(!hangs(None, None));
    }
}
