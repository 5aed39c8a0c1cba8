// SPDX-License-Identifier: Apache-2.0
//! What a watch saw, handed out for a recording: each wait once, when it is known to be over and was judged or left out.

use super::kept::Kept;
use super::server_stalls::Whole;
use super::side_evidence::Sung;
use super::track::{LEAST_SAMPLES, Wait};

#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// A client's wait that was not judged: it is too short to be told.
    Wait(Wait),
    /// A call of the probed function.
    Call(Wait),
    Judged {
        kept: Box<Kept>,
        /// Whether it became a part of a stall.
        is_victim: bool,
    },
    /// A stall of the whole server in which no client is known to have waited.
    Whole(Whole),
    /// What the canary's query showed while a stall lasted.
    Sung(Sung),
}

/// Empty unless somebody wants them.
#[derive(Debug, Default)]
pub struct SeenWaits {
    is_wanted: bool,
    seen: Vec<Seen>,
}

impl SeenWaits {
    pub fn keep(&mut self) {
        self.is_wanted = true;
    }

    /// A wait in fewer looks is left out.
    pub(super) fn wait(&mut self, wait: &Wait) {
        if wait.samples >= LEAST_SAMPLES {
            self.push(|| Seen::Wait(*wait));
        }
    }

    pub(super) fn call(&mut self, call: &Wait) {
        self.push(|| Seen::Call(*call));
    }

    pub(super) fn judged(&mut self, kept: Kept, is_victim: bool) {
        self.push(|| Seen::Judged { kept: Box::new(kept), is_victim });
    }

    pub(super) fn whole(&mut self, whole: Whole) {
        self.push(|| Seen::Whole(whole));
    }

    pub(super) fn sung(&mut self, sung: Option<Sung>) {
        sung.into_iter().for_each(|sung| self.push(|| Seen::Sung(sung)));
    }

    fn push(&mut self, seen: impl FnOnce() -> Seen) {
        if self.is_wanted {
            self.seen.push(seen());
        }
    }

    /// What was seen since the last call, in the order in which it was known to be over.
    pub fn take(&mut self) -> Vec<Seen> {
        std::mem::take(&mut self.seen)
    }
}
