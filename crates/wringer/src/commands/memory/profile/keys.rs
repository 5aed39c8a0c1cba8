// SPDX-License-Identifier: Apache-2.0
//! Notices when the user presses Enter on the terminal.

use std::io::{IsTerminal as _, stdin};
use std::sync::mpsc::{Receiver, channel};

/// Receives a message for each line that is typed. The thread that reads the lines ends with the program.
pub(super) struct Keys(Option<Receiver<()>>);

impl Keys {
    pub(super) fn of_terminal() -> Self {
        if !stdin().is_terminal() {
            return Self(None);
        }
        let (tell, told) = channel();
        let read = move || {
            let mut line = String::new();
            while stdin().read_line(&mut line).is_ok_and(|read| read > 0) && tell.send(()).is_ok() {
                line.clear();
            }
        };
        Self(std::thread::Builder::new().name("keys".into()).spawn(read).ok().map(|_| told))
    }

    pub(super) fn are_there(&self) -> bool {
        self.0.is_some()
    }

    /// Whether Enter was pressed since the last call. Several presses count as one.
    pub(super) fn was_pressed(&self) -> bool {
        self.0.as_ref().is_some_and(|told| told.try_iter().count() > 0)
    }
}
