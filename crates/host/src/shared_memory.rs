// SPDX-License-Identifier: Apache-2.0
//! Shared memory that has a name and outlives its processes: System V segments (shmget(2)) and POSIX segments (shm_overview(7)). A look never writes
//! to a segment. A segment is removed only while nobody uses it, and only if it belongs to the owner that the caller names.

use crate::Error;
use crate::process::mapped_by;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The folder in which the C library keeps POSIX segments.
const POSIX: &str = "/dev/shm";

/// A System V segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemV {
    pub id: i32,
    pub key: i32,
    pub owner: u32,
    /// When it was made, in seconds since 1970.
    pub created: i64,
    pub size_bytes: usize,
    /// How often it is attached, by processes of every namespace.
    pub attached: u64,
}

/// What was done with a segment that was to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removal {
    Removed,
    /// There was no such segment.
    Missing,
    /// It was left, for this reason.
    Left(String),
}

/// The C libraries have different names for this field. For musl, the crate libc announces that it will take glibc's name: then the build for musl
/// fails, and this function can go.
#[cfg_attr(target_env = "musl", allow(deprecated))]
fn key_of(permissions: &libc::ipc_perm) -> i32 {
    #[cfg(target_env = "musl")]
    return permissions.__ipc_perm_key;
    #[cfg(not(target_env = "musl"))]
    return permissions.__key;
}

impl SystemV {
    /// `None`: there is no segment with this number that we may read.
    ///
    /// # Errors
    /// The kernel gives an error.
    pub fn with_id(id: i32) -> Result<Option<Self>, Error> {
        // SAFETY: all fields of the structure are integers
        let mut stat: libc::shmid_ds = unsafe { std::mem::zeroed() };
        // SAFETY: IPC_STAT fills the structure that it is given, and changes nothing
        if unsafe { libc::shmctl(id, libc::IPC_STAT, &raw mut stat) } == 0 {
            return Ok(Some(Self {
                id,
                key: key_of(&stat.shm_perm),
                owner: stat.shm_perm.uid,
                created: stat.shm_ctime,
                size_bytes: stat.shm_segsz,
                attached: stat.shm_nattch,
            }));
        }
        let error = std::io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINVAL | libc::EIDRM | libc::EACCES | libc::ENOSYS) => Ok(None),
            _ => Err(Error::call(format!("look at System V shared memory {id}"), error)),
        }
    }

    /// The first bytes of the segment, at most `count`.
    ///
    /// # Errors
    /// The segment cannot be attached for reading.
    pub fn head(&self, count: usize) -> Result<Vec<u8>, Error> {
        let fail =
            || Error::call(format!("attach System V shared memory {}", self.id), std::io::Error::last_os_error());
        // SAFETY: the kernel chooses an address that nothing else has
        let address = unsafe { libc::shmat(self.id, std::ptr::null(), libc::SHM_RDONLY) };
        if address as isize == -1 {
            return Err(fail());
        }
        let length = count.min(self.size_bytes);
        let mut head = vec![0; length];
        // SAFETY: a segment never changes its size, and `length` is within it
        unsafe { std::ptr::copy_nonoverlapping(address.cast::<u8>(), head.as_mut_ptr(), length) };
        // SAFETY: the segment was attached here, and nothing refers to its memory any more
        if unsafe { libc::shmdt(address) } != 0 {
            return Err(fail());
        }
        Ok(head)
    }

    /// Removes the segment, unless it is attached, or its number belongs to another segment by now.
    ///
    /// # Errors
    /// The segment cannot be removed.
    pub fn remove(&self) -> Result<Removal, Error> {
        let Some(now) = Self::with_id(self.id)? else { return Ok(Removal::Missing) };
        if now.attached > 0 {
            return Ok(Removal::Left(format!("it is attached {} times", now.attached)));
        }
        if now != (Self { attached: 0, ..*self }) {
            return Ok(Removal::Left("it is another one by now".to_owned()));
        }
        // SAFETY: IPC_RMID takes no structure
        if unsafe { libc::shmctl(self.id, libc::IPC_RMID, std::ptr::null_mut()) } == 0 {
            return Ok(Removal::Removed);
        }
        let error = std::io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINVAL | libc::EIDRM) => Ok(Removal::Missing),
            _ => Err(Error::call(format!("remove System V shared memory {}", self.id), error)),
        }
    }
}

pub fn posix_path(name: &str) -> PathBuf {
    Path::new(POSIX).join(name)
}

/// The content of a POSIX segment of this owner. `None`: there is no such segment, or it belongs to somebody else, or it is longer than
/// `limit_bytes`.
///
/// # Errors
/// The segment cannot be read.
pub fn read_posix(name: &str, owner: u32, limit_bytes: u64) -> Result<Option<Vec<u8>>, Error> {
    let path = posix_path(name);
    let fail = |source: std::io::Error| Error::path("read", &path, source);
    let Some((file, stat)) = open_posix(name)? else { return Ok(None) };
    let length = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
    if stat.st_uid != owner || length > limit_bytes {
        return Ok(None);
    }
    let mut content = Vec::new();
    file.take(limit_bytes).read_to_end(&mut content).map_err(fail)?;
    Ok(Some(content))
}

/// Removes a POSIX segment of this owner that no process has mapped.
///
/// # Errors
/// The segment cannot be looked at, or cannot be removed.
pub fn remove_posix(name: &str, owner: u32) -> Result<Removal, Error> {
    let Some((_file, stat)) = open_posix(name)? else { return Ok(Removal::Missing) };
    if stat.st_uid != owner {
        return Ok(Removal::Left(format!("it belongs to user {}", stat.st_uid)));
    }
    let path = posix_path(name);
    if let Some(user) = mapped_by(stat.st_dev, stat.st_ino).found.first() {
        return Ok(Removal::Left(format!("process {} has it mapped", user.pid)));
    }
    match unlinkat(rustix::fs::CWD, &path, AtFlags::empty()) {
        Ok(()) => Ok(Removal::Removed),
        Err(Errno::NOENT) => Ok(Removal::Missing),
        Err(errno) => Err(Error::path("remove", path, errno)),
    }
}

/// Opens a regular file of that name in the folder itself: anybody may put a link or a pipe there.
fn open_posix(name: &str) -> Result<Option<(File, Stat)>, Error> {
    let path = posix_path(name);
    let fail = |errno: Errno| Error::path("open", &path, errno);
    if name.contains('/') {
        return Err(fail(Errno::INVAL));
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(&path, flags, Mode::empty()) {
        Ok(file) => file,
        // not there; a link; another user's; a socket
        Err(Errno::NOENT | Errno::LOOP | Errno::ACCESS | Errno::NXIO) => return Ok(None),
        Err(errno) => return Err(fail(errno)),
    };
    let stat = rustix::fs::fstat(&file).map_err(fail)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    Ok(is_file.then(|| (File::from(file), stat)))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::files::own_uid;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::MetadataExt as _;
    use std::time::Duration;

    /// Waits, because a child that another test has forked shares the attached or mapped memory of this process for a moment.
    fn await_children(is_over: impl Fn() -> bool) {
        testkit::wait_until(Duration::from_secs(60), is_over);
    }

    #[test]
    fn a_segment_that_is_attached_stays() {
        // SAFETY: a new segment of our own
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, 0o600) };
        assert!(id >= 0);
        // SAFETY: the kernel chooses the address
        let address = unsafe { libc::shmat(id, std::ptr::null(), 0) };
        assert_ne!(address as isize, -1);
        // SAFETY: 4096 bytes are there
        unsafe { address.cast::<u32>().write(0xfeed) };
        let look = || SystemV::with_id(id).unwrap().unwrap();
        await_children(|| look().attached == 1);
        let segment = look();
        assert_eq!((segment.attached, segment.owner, segment.size_bytes), (1, own_uid(), 4096));
        assert_eq!(segment.head(4).unwrap(), 0xfeed_u32.to_ne_bytes());
        assert_eq!(segment.head(10_000).unwrap().len(), 4096);
        assert!(matches!(segment.remove().unwrap(), Removal::Left(_)));
        // SAFETY: not used any more
        unsafe { libc::shmdt(address) };
        await_children(|| look().attached == 0);
        let older = SystemV { created: segment.created - 1, ..segment };
        assert!(matches!(older.remove().unwrap(), Removal::Left(_)), "another one has its number");
        assert_eq!(segment.remove().unwrap(), Removal::Removed);
        assert_eq!(segment.remove().unwrap(), Removal::Missing);
        assert_eq!(SystemV::with_id(id).unwrap(), None);
    }

    /// The name of a segment; it is removed at the end of the test.
    struct Named(String);

    impl Drop for Named {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(posix_path(&self.0));
        }
    }

    #[test]
    fn a_posix_segment_that_is_mapped_or_not_the_owners_stays() {
        let named = Named(format!("wringer-test-{}", std::process::id()));
        let name = named.0.as_str();
        assert_eq!(remove_posix(name, own_uid()).unwrap(), Removal::Missing);
        std::fs::write(posix_path(name), [7; 100]).unwrap();
        assert_eq!(read_posix(name, own_uid(), 100).unwrap(), Some(vec![7; 100]));
        assert_eq!(read_posix(name, own_uid(), 99).unwrap(), None);
        assert_eq!(read_posix(name, own_uid() + 1, 100).unwrap(), None);
        assert!(matches!(remove_posix(name, own_uid() + 1).unwrap(), Removal::Left(_)));

        let file = File::open(posix_path(name)).unwrap();
        // SAFETY: the kernel chooses the address
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), 100, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        assert_ne!(address, libc::MAP_FAILED);
        assert!(matches!(remove_posix(name, own_uid()).unwrap(), Removal::Left(_)));
        // SAFETY: not used any more
        unsafe { libc::munmap(address, 100) };
        let it = file.metadata().unwrap();
        await_children(|| mapped_by(it.dev(), it.ino()).is_empty());
        assert_eq!(remove_posix(name, own_uid()).unwrap(), Removal::Removed);
    }

    #[test]
    fn what_is_no_file_of_that_folder_is_none() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("precious"), "1").unwrap();
        let named = Named(format!("wringer-test-link-{}", std::process::id()));
        std::os::unix::fs::symlink(home.path().join("precious"), posix_path(&named.0)).unwrap();
        assert_eq!(read_posix(&named.0, own_uid(), 100).unwrap(), None);
        assert_eq!(remove_posix(&named.0, own_uid()).unwrap(), Removal::Missing);
        assert!(posix_path(&named.0).is_symlink() && home.path().join("precious").exists());
        assert!(remove_posix("../shm/x", own_uid()).is_err());
    }
}
