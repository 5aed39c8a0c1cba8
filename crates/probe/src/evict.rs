// SPDX-License-Identifier: Apache-2.0
//! Making one file cold: posix_fadvise(2), `POSIX_FADV_DONTNEED`. It needs no root and touches no other file; the kernel takes it as
//! advice, so what is left is counted.

use crate::Error;
use crate::residency::{Residency, residency};
use rustix::fs::Advice;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// Dirty pages leave when they are written; pages that another program just read sit in a per-CPU list for a moment.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);

/// What is left in the page cache after the attempt. The advice starts the writing of dirty pages; it does not wait for it, so it is given
/// again until nothing is left, for two seconds.
///
/// # Errors
/// The kernel does not take the advice, or does not tell what is cached.
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

/// Why pages may stay, in words.
pub fn why_left(left: &Residency) -> String {
    match left.dirty_pages {
        Some(dirty) if dirty > 0 => format!("{dirty} pages wait to be written"),
        _ => "another program maps it, locks it or reads it".into(),
    }
}
