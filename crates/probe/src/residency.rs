// SPDX-License-Identifier: Apache-2.0
//! How much of a file is in the page cache: cachestat(2) where the kernel has it (Linux 6.5), else mincore(2) over windows of a
//! mapping. Neither reads the file. Of a file on an overlay file system cachestat tells nothing, because its pages belong to the file below: mincore does.

use crate::Error;
use rustix::mm::{MapFlags, ProtFlags};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The system call that was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Cachestat,
    Mincore,
}

/// In pages, as the kernel counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Residency {
    pub page_bytes: u64,
    /// The pages of the whole file.
    pub pages: u64,
    pub cached_pages: u64,
    /// Changed and not yet written. `None`: mincore cannot tell.
    pub dirty_pages: Option<u64>,
    pub source: Source,
}

impl Residency {
    pub fn cached_bytes(&self) -> u64 {
        self.cached_pages * self.page_bytes
    }

    /// 0 to 1; 0 for an empty file.
    pub fn share(&self) -> f64 {
        if self.pages == 0 { 0.0 } else { (self.cached_pages as f64 / self.pages as f64).min(1.0) }
    }
}

/// The number is the same on every architecture (since Linux 6.5); some libcs do not define it.
const SYS_CACHESTAT: libc::c_long = 451;
/// OVERLAYFS_SUPER_MAGIC of include/uapi/linux/magic.h.
const OVERLAY: rustix::fs::FsWord = 0x794c_7630;
/// Bytes mapped at a time: 16384 pages of 4 KiB, with a vector of 16 KiB.
const WINDOW_BYTES: u64 = 64 << 20;

/// Asks the kernel about a whole file.
///
/// # Errors
/// [`Error::NotOwner`]: the kernel does not tell, or (mincore, Linux 5.2 and later) reports every page as cached.
pub fn residency(file: &File, path: &Path) -> Result<Residency, Error> {
    if is_on_overlay(file) {
        return by_mincore(file, path);
    }
    match by_cachestat(file, path) {
        Err(Error::File { source, .. }) if is_missing_call(&source) => by_mincore(file, path),
        other => other,
    }
}

fn is_on_overlay(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|it| it.f_type == OVERLAY)
}

/// Whether the kernel lacks the call. EPERM from a sandbox's filter does not count: that is `NotOwner`.
fn is_missing_call(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EOPNOTSUPP))
}

pub(crate) fn by_cachestat(file: &File, path: &Path) -> Result<Residency, Error> {
    #[repr(C)]
    struct Range {
        offset: u64,
        length: u64,
    }
    #[repr(C)]
    #[derive(Default)]
    struct Counts {
        cache: u64,
        dirty: u64,
        writeback: u64,
        evicted: u64,
        recently_evicted: u64,
    }
    // Length 0: to the end of the file.
    let (range, mut counts) = (Range { offset: 0, length: 0 }, Counts::default());
    // SAFETY: both structs have the layout of include/uapi/linux/mman.h, and live during the call.
    let result = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &range, &mut counts, 0) };
    if result < 0 {
        let source = io::Error::last_os_error();
        return Err(match source.raw_os_error() {
            Some(libc::EPERM) if may_look(file) => {
                Error::File { operation: "ask for the cached pages of", path: path.to_owned(), source: enosys() }
            }
            Some(libc::EPERM) => Error::NotOwner { path: path.to_owned() },
            _ => Error::File { operation: "ask for the cached pages of", path: path.to_owned(), source },
        });
    }
    let page_bytes = page_bytes();
    Ok(Residency {
        page_bytes,
        pages: size_of(file, path)?.div_ceil(page_bytes),
        cached_pages: counts.cache,
        dirty_pages: Some(counts.dirty + counts.writeback),
        source: Source::Cachestat,
    })
}

fn enosys() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOSYS)
}

pub(crate) fn by_mincore(file: &File, path: &Path) -> Result<Residency, Error> {
    if !may_look(file) {
        return Err(Error::NotOwner { path: path.to_owned() });
    }
    let (page_bytes, size) = (page_bytes(), size_of(file, path)?);
    let mut cached_pages = 0;
    for start in (0..size).step_by(usize::try_from(WINDOW_BYTES).unwrap_or(usize::MAX)) {
        let length = WINDOW_BYTES.min(size - start);
        cached_pages += window(file, start, length, page_bytes).map_err(Error::file("map", path))?;
    }
    Ok(Residency {
        page_bytes,
        pages: size.div_ceil(page_bytes),
        cached_pages,
        dirty_pages: None,
        source: Source::Mincore,
    })
}

/// The cached pages of one window. The mapping is never touched, so a file that shrinks meanwhile is no SIGBUS.
fn window(file: &File, start: u64, length: u64, page_bytes: u64) -> io::Result<u64> {
    let too_large = |_| io::Error::from(io::ErrorKind::OutOfMemory);
    let (pages, length) = (length.div_ceil(page_bytes), usize::try_from(length).map_err(too_large)?);
    let mut vector = vec![0_u8; usize::try_from(pages).map_err(too_large)?];
    // SAFETY: a new shared mapping at an address of the kernel's choice, unmapped below; nothing reads or writes through it, and
    // `vector` has one byte for each of its pages.
    unsafe {
        let address = rustix::mm::mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, start)?;
        let result = libc::mincore(address, length, vector.as_mut_ptr());
        let error = io::Error::last_os_error();
        rustix::mm::munmap(address, length)?;
        if result < 0 {
            return Err(error);
        }
    }
    Ok(vector.iter().map(|page| u64::from(page & 1)).sum())
}

/// The kernel's rule (mm/mincore.c, can_do_mincore): the owner, or a user who may write the file.
fn may_look(file: &File) -> bool {
    let me = rustix::process::geteuid();
    let owner = file.metadata().is_ok_and(|metadata| metadata.uid() == me.as_raw());
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    me.is_root() || owner || rustix::fs::access(link, rustix::fs::Access::WRITE_OK).is_ok()
}

pub(crate) fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

fn size_of(file: &File, path: &Path) -> Result<u64, Error> {
    file.metadata().map(|metadata| metadata.len()).map_err(Error::file("look at", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    /// A file of a little more than 5 MiB. All its pages are cached, because they were just written; and they stay cached, because they are locked.
    #[test]
    fn both_calls_agree() {
        const BYTES: usize = (5 << 20) + 100;
        let mut file = tempfile::NamedTempFile::new_in(".").expect("a file");
        file.write_all(&vec![7; BYTES]).expect("writes");
        let pages = (BYTES as u64).div_ceil(page_bytes());
        // SAFETY: a new shared mapping that nobody reads or writes through; it stays until the process ends.
        unsafe {
            let (protection, file) = (ProtFlags::READ, file.as_file());
            let start = rustix::mm::mmap(std::ptr::null_mut(), BYTES, protection, MapFlags::SHARED, file, 0);
            // an ordinary user may not lock this much memory on every machine
            let _ = rustix::mm::mlock(start.expect("maps"), BYTES);
        }
        let mincore = by_mincore(file.as_file(), file.path()).expect("asks");
        assert_eq!((mincore.pages, mincore.cached_pages), (pages, pages));
        assert!((mincore.share() - 1.0).abs() < 1e-9);
        match by_cachestat(file.as_file(), file.path()) {
            Ok(cachestat) => assert_eq!((cachestat.pages, cachestat.cached_pages), (pages, pages)),
            Err(error) => assert!(matches!(&error, Error::File { source, .. } if is_missing_call(source)), "{error}"),
        }
        assert_eq!(residency(file.as_file(), file.path()).expect("asks").cached_pages, pages);
    }

    #[test]
    fn an_empty_file_has_no_share() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let empty = by_mincore(file.as_file(), file.path()).expect("asks");
        assert_eq!((empty.pages, empty.cached_pages), (0, 0));
        assert!(empty.share().abs() < 1e-9);
    }
}
