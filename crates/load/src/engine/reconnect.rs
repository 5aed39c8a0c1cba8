// SPDX-License-Identifier: Apache-2.0
//! Makes broken connections again in a helper thread, so that the latencies of the other connections do not suffer.

use super::client::Ready;
use super::shared::Shared;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Scope};
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(50);

/// One helper thread for one worker, started when the first connection breaks.
pub(super) struct Reconnector<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    shared: &'env Shared<'env>,
    /// The worker has ended; set when this value is dropped.
    over: std::sync::Arc<AtomicBool>,
    helper: Option<Helper>,
    pub(super) pending: usize,
}

/// Numbers of clients go in, and their new connections come out.
type Helper = (Sender<usize>, Receiver<(usize, Ready)>);

impl<'scope, 'env> Reconnector<'scope, 'env> {
    pub(super) fn new(scope: &'scope Scope<'scope, 'env>, shared: &'env Shared<'env>) -> Self {
        Self { scope, shared, over: std::sync::Arc::default(), helper: None, pending: 0 }
    }

    pub(super) fn request(&mut self, client: usize) {
        let (scope, shared, over) = (self.scope, self.shared, &self.over);
        let (requests, _) = self.helper.get_or_insert_with(|| {
            let (requests, wanted) = channel();
            let (done, results) = channel();
            let over = over.clone();
            scope.spawn(move || reconnect(shared, &over, &wanted, &done));
            (requests, results)
        });
        if requests.send(client).is_ok() {
            self.pending += 1;
        }
    }

    pub(super) fn take(&mut self) -> Option<(usize, Ready)> {
        let done = self.helper.as_ref()?.1.try_recv().ok()?;
        self.pending -= 1;
        Some(done)
    }
}

impl Drop for Reconnector<'_, '_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn reconnect(shared: &Shared<'_>, over: &AtomicBool, wanted: &Receiver<usize>, done: &Sender<(usize, Ready)>) {
    for client in wanted {
        loop {
            if over.load(Ordering::Relaxed) || shared.should_stop() {
                return;
            }
            match Ready::open(shared) {
                Ok(ready) => {
                    let _ = done.send((client, ready));
                    break;
                }
                Err(error) => {
                    *shared.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    thread::sleep(PAUSE);
                }
            }
        }
    }
}
