// SPDX-License-Identifier: Apache-2.0
//! Ctrl-C and `kill`: the first ends the work, the second cuts the waits of the undo, none skips the undo.

use host::interrupt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// From here on the signals that end a program are noted instead; the flag is true after the first.
///
/// # Errors
/// The kernel refuses the handler.
pub fn install() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let flag = Arc::clone(&stop);
        let note = move || {
            interrupt::note();
            flag.store(true, Ordering::SeqCst);
        };
        // SAFETY: the handler only touches atomics, which is async-signal-safe.
        unsafe { signal_hook::low_level::register(signal, note) }?;
    }
    Ok(stop)
}
