// SPDX-License-Identifier: Apache-2.0
//! How often the user asked us to stop. The first request ends the work. The second ends the waits of the undo, never the undo itself.

use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Counts one more request. Safe in a signal handler.
pub fn note() {
    COUNT.fetch_add(1, Ordering::SeqCst);
}

/// Somebody asked us to stop.
pub fn requested() -> bool {
    COUNT.load(Ordering::SeqCst) >= 1
}

/// Somebody asked twice: waits end now.
pub fn impatient() -> bool {
    COUNT.load(Ordering::SeqCst) >= 2
}
