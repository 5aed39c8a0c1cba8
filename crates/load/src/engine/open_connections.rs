// SPDX-License-Identifier: Apache-2.0
//! Connections that stay open after their load. PostgreSQL has a process for each connection: what this process keeps of its memory is gone with the
//! connection.

use super::client::Client;
use crate::transport::Link;
use std::sync::{Arc, Mutex, PoisonError};

/// The connections of a load that is over, without work. They close when the last copy of this is dropped.
#[derive(Clone, Default)]
pub struct Kept(Arc<Mutex<Vec<Link>>>);

impl Kept {
    pub fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Takes the open connections of clients that have no further work.
    pub(super) fn take(&self, clients: &mut [Client]) {
        let links = clients.iter_mut().filter_map(Client::take_link);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(links);
    }
}
