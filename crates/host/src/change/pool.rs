// SPDX-License-Identifier: Apache-2.0
//! The pool of huge pages: `/proc/sys/vm/nr_hugepages` (kernel, admin-guide/mm/hugetlbpage.rst). The kernel grants what it finds in one piece, so
//! less than was asked for is normal. Pages that somebody uses when the pool is made smaller become surplus: theirs until they let go, then free.

use super::value::{read_value, write};
use crate::Error;
use crate::permit::Permit;
use std::path::Path;

pub const POOL: &str = "/proc/sys/vm/nr_hugepages";

/// The size of the pool, without surplus pages.
pub fn pool_pages() -> Result<u64, Error> {
    read_pool(Path::new(POOL))
}

fn read_pool(path: &Path) -> Result<u64, Error> {
    let text = read_value(path)?;
    text.parse().map_err(|_| Error::path("read", path, std::io::Error::other(format!("'{text}' is no number"))))
}

/// Asks for a pool of `after` pages, and repeats that while `again`, given the present size, returns true. Returns the size.
///
/// # Errors
/// [`Error::Conflict`] when it is not `before` any more; nothing was written then.
pub fn grow_pool(_permit: &Permit, before: u64, after: u64, again: &mut dyn FnMut(u64) -> bool) -> Result<u64, Error> {
    let path = Path::new(POOL);
    let found = read_pool(path)?;
    if found != before {
        return Err(Error::Conflict { path: path.into(), expected: before.to_string(), found: found.to_string() });
    }
    loop {
        write(path, &after.to_string())?;
        let now = read_pool(path)?;
        if now >= after || !again(now) {
            return Ok(now);
        }
    }
}

/// How the pool came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shrunk {
    Restored,
    Already,
    /// Somebody else made it this large; it stays.
    Foreign(u64),
}

/// Makes the pool `before` again when its size is ours: `observed`, or, when the growing was cut, anything between.
pub fn shrink_pool(permit: &Permit, before: u64, after: u64, observed: Option<u64>) -> Result<Shrunk, Error> {
    shrink_at(permit, Path::new(POOL), before, after, observed)
}

fn shrink_at(_: &Permit, path: &Path, before: u64, after: u64, observed: Option<u64>) -> Result<Shrunk, Error> {
    let now = read_pool(path)?;
    let ours = observed.map_or((before..=after).contains(&now), |observed| now == observed);
    match (now == before, ours) {
        (true, _) => Ok(Shrunk::Already),
        (false, false) => Ok(Shrunk::Foreign(now)),
        (false, true) => write(path, &before.to_string()).map(|()| Shrunk::Restored),
    }
}

/// Moves pages together so that larger pieces become free: `/proc/sys/vm/compact_memory`, 1. Nothing to undo.
pub fn compact_memory(_permit: &Permit) -> Result<(), Error> {
    write(Path::new("/proc/sys/vm/compact_memory"), "1")
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    fn check(now: &str, observed: Option<u64>, expected: Shrunk, left: &str) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), now).expect("writes");
        let shrunk = shrink_at(&Permit::issue(1), file.path(), 10, 100, observed).expect("looks");
        assert_eq!((shrunk, read_value(file.path()).expect("reads").as_str()), (expected, left));
    }

    #[test]
    fn a_pool_is_given_back_as_far_as_it_is_ours() {
        check("10\n", Some(100), Shrunk::Already, "10");
        check("100\n", Some(100), Shrunk::Restored, "10");
        check("40\n", Some(40), Shrunk::Restored, "10");
        // cut while it grew: a part was granted, and its size was not recorded
        check("40\n", None, Shrunk::Restored, "10");
        check("100\n", None, Shrunk::Restored, "10");
        // somebody else's
        check("77\n", Some(100), Shrunk::Foreign(77), "77");
        check("120\n", None, Shrunk::Foreign(120), "120");
        check("5\n", None, Shrunk::Foreign(5), "5");
    }
}
