// SPDX-License-Identifier: Apache-2.0
//! The open connections of a replay. A thread that waits for an answer cannot look whether the replay should end: its socket is shut from outside.

use crate::admin::Connection;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

#[derive(Debug, Default)]
pub(super) struct OpenSessions {
    sockets: Mutex<BTreeMap<u64, RawFd>>,
    next: AtomicU64,
}

/// A connection whose socket [`OpenSessions::shut`] finds.
pub(super) struct Session<'a> {
    connection: Connection,
    number: u64,
    all: &'a OpenSessions,
}

impl OpenSessions {
    pub(super) fn hold(&self, connection: Connection) -> Session<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let socket = connection.socket().as_raw_fd();
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).insert(number, socket);
        Session { connection, number, all: self }
    }

    /// Ends every wait for an answer, as if the server had closed the connections.
    pub(super) fn shut(&self) {
        for socket in self.sockets.lock().unwrap_or_else(PoisonError::into_inner).values() {
            // SAFETY: a session takes its socket out of the map, under the same lock, before it closes the socket.
            let socket = unsafe { BorrowedFd::borrow_raw(*socket) };
            let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
        }
    }
}

impl Deref for Session<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for Session<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.all.sockets.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}
