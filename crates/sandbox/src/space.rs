// SPDX-License-Identifier: Apache-2.0
//! Whether a disk has room for what is about to be written, and whether programs can run from it.

use crate::Error;
use rustix::fs::StatVfsMountFlags;
use std::path::Path;

/// # Errors
/// [`Error::DiskFull`] when the disk that holds `path` has less room for ordinary users.
pub(crate) fn require_space(what: &'static str, path: &Path, need_bytes: u64) -> Result<(), Error> {
    require_space_in("WRINGER_HOME", what, path, need_bytes)
}

/// The same for the cache of servers, which may be on another disk.
pub(crate) fn require_cache_space(what: &'static str, path: &Path, need_bytes: u64) -> Result<(), Error> {
    require_space_in("WRINGER_CACHE", what, path, need_bytes)
}

/// `setting`: the variable that names another folder instead of this one.
fn require_space_in(setting: &'static str, what: &'static str, path: &Path, need_bytes: u64) -> Result<(), Error> {
    let disk = rustix::fs::statvfs(path).map_err(|errno| Error::path("look at the disk of", path, errno))?;
    let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free_bytes >= need_bytes {
        Ok(())
    } else {
        Err(Error::DiskFull { what, path: path.into(), need_bytes, free_bytes, setting })
    }
}

/// # Errors
/// [`Error::NoExecution`] when no program, and no library, on the disk that holds `path` can be executed.
pub(crate) fn require_execution(path: &Path) -> Result<(), Error> {
    let disk = rustix::fs::statvfs(path).map_err(|errno| Error::path("look at the disk of", path, errno))?;
    if disk.f_flag.contains(StatVfsMountFlags::NOEXEC) { Err(Error::NoExecution { path: path.into() }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_too_small_is_named() {
        let home = tempfile::tempdir().expect("a folder");
        assert!(require_space("a test", home.path(), 1).is_ok());
        let error = require_space("a test", home.path(), u64::MAX).expect_err("no disk is that large");
        assert!(matches!(&error, Error::DiskFull { path, .. } if path == home.path()) && error.is_missing(), "{error}");
        assert_eq!(error.hint().as_deref(), Some("set WRINGER_HOME to a folder on a larger disk"));
        let error = require_cache_space("a test", home.path(), u64::MAX).expect_err("no disk is that large");
        assert_eq!(error.hint().as_deref(), Some("set WRINGER_CACHE to a folder on a larger disk"));
    }

    #[test]
    fn a_disk_without_execution_is_named() {
        require_execution(Path::new("/usr")).expect("programs run from there");
        let error = Error::NoExecution { path: "/cache".into() };
        assert!(error.is_missing() && error.hint().is_some_and(|hint| hint.contains("WRINGER_CACHE")), "{error}");
        // most machines mount it so
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("reads");
        let is_noexec = |line: &str| line.contains(" /proc proc ") && line.contains("noexec");
        assert_eq!(require_execution(Path::new("/proc")).is_err(), mounts.lines().any(is_noexec));
    }
}
