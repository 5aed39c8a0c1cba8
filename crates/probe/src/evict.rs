// SPDX-License-Identifier: Apache-2.0
//! Makes one file cold: posix_fadvise(2), `POSIX_FADV_DONTNEED`. This needs no root and affects no other file. The kernel may
//! ignore the advice, so the remaining pages are counted.

use crate::Error;
use crate::residency::{Residency, residency};
use rustix::fs::Advice;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// For how long to repeat the advice: dirty pages leave when they are written, and pages that were just read stay in a list of a CPU for a moment.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);

/// Evicts the file; returns what is left in the page cache. The advice starts the writing of dirty pages without waiting for it, so
/// it is repeated until nothing is left, for two seconds at most.
///
/// # Errors
/// The kernel refuses the advice, or does not tell what is cached.
pub fn evict(file: &File, path: &Path) -> Result<Residency, Error> {
    let end = Instant::now() + PATIENCE;
    loop {
        rustix::fs::fadvise(file, 0, None, Advice::DontNeed)
            .map_err(|errno| Error::file("evict from the page cache", path)(errno.into()))?;
        let left = residency(file, path)?;
        if left.cached_pages == 0 || Instant::now() > end || host::interrupt::requested() {
            return Ok(left);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Why pages may stay, for people.
pub fn why_left(left: &Residency) -> String {
    match left.dirty_pages {
        Some(dirty) if dirty > 0 => format!("{dirty} pages wait to be written"),
        _ => "another program maps it, locks it or reads it".into(),
    }
}
