// SPDX-License-Identifier: Apache-2.0
//! Copies of somebody else's files into Wringer's own folders. The original is opened only for reading, and never through a link.

use crate::Error;
use rustix::fs::{Mode, OFlags, SeekFrom, copy_file_range, ftruncate, ioctl_ficlone, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// How a file was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copied {
    /// The two share their blocks until one of them is written (FICLONE, ioctl_ficlone(2)).
    Shared,
    /// The number of copied bytes; holes are holes in the copy, too.
    Bytes(u64),
}

/// This many bytes are copied between two calls of `progress`.
const PIECE_BYTES: u64 = 64 << 20;

/// Copies `from`, a regular file, to the new file `to`, and gives it to `owner` (uid, gid); it is on the disk then. `progress` gets the number of
/// copied bytes, and returns false to end the copy.
///
/// # Errors
/// `from` is no regular file, or a link; it became longer or shorter meanwhile; the name `to` is taken; the disk is full. An incomplete copy stays.
pub fn copy(
    from: &Path,
    to: &Path,
    mode: u32,
    owner: Option<(u32, u32)>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Copied, Error> {
    // O_NONBLOCK: the open does not wait if there is a FIFO instead of a file
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let source = rustix::fs::open(from, flags, Mode::empty()).map_err(|errno| Error::path("read", from, errno))?;
    let (copied, target) = copy_opened(&File::from(source), from, to, mode, owner, progress)?;
    target.sync_all().map_err(|source| Error::path("sync", to, source))?;
    Ok(copied)
}

/// As [`copy`], for a file that is open already; `from` is its name for messages. The new file is not on the disk yet: it is returned.
///
/// # Errors
/// As [`copy`].
pub fn copy_opened(
    source: &File,
    from: &Path,
    to: &Path,
    mode: u32,
    owner: Option<(u32, u32)>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<(Copied, File), Error> {
    let metadata = source.metadata().map_err(|source| Error::path("look at", from, source))?;
    if !metadata.is_file() {
        return Err(Error::path("copy", from, Errno::INVAL));
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target =
        rustix::fs::open(to, flags, Mode::from_raw_mode(0o600)).map_err(|errno| Error::path("make", to, errno))?;
    let target = File::from(target);
    let copied = match ioctl_ficlone(&target, source) {
        Ok(()) => Copied::Shared,
        Err(_) => {
            Copied::Bytes(copy_data(source, &target, metadata.len(), progress).map_err(|failed| match failed {
                Errno::INTR => Error::Interrupted,
                errno => Error::path("write", to, errno),
            })?)
        }
    };
    let after = source.metadata().map_err(|source| Error::path("look at", from, source))?;
    if after.len() != metadata.len() {
        let what = format!("it had {} bytes, and now {}: somebody writes it", metadata.len(), after.len());
        return Err(Error::path("copy", from, std::io::Error::other(what)));
    }
    rustix::fs::fchmod(&target, Mode::from_raw_mode(mode))
        .map_err(|errno| Error::path("set the mode of", to, errno))?;
    if let Some((uid, gid)) = owner {
        let (uid, gid) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
        rustix::fs::fchown(&target, Some(uid), Some(gid))
            .map_err(|errno| Error::path("change the owner of", to, errno))?;
    }
    Ok((copied, target))
}

/// Copies each range of data, and skips each hole.
fn copy_data(source: &File, target: &File, length: u64, progress: &mut dyn FnMut(u64) -> bool) -> Result<u64, Errno> {
    ftruncate(target, length)?;
    let (mut at, mut copied) = (0, 0);
    while at < length {
        let data = match seek(source, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            // the file system does not know about holes
            Err(_) => at,
        };
        let end = seek(source, SeekFrom::Hole(data)).unwrap_or(length).min(length);
        at = data;
        while at < end {
            let piece = (end - at).min(PIECE_BYTES);
            let count = copy_piece(source, target, at, piece)?;
            if count == 0 {
                return Ok(copied);
            }
            (at, copied) = (at + count, copied + count);
            if !progress(count) {
                return Err(Errno::INTR);
            }
        }
    }
    Ok(copied)
}

fn copy_piece(source: &File, target: &File, at: u64, bytes: u64) -> Result<u64, Errno> {
    let (mut from, mut to) = (at, at);
    match copy_file_range(source, Some(&mut from), target, Some(&mut to), usize::try_from(bytes).unwrap_or(1 << 20)) {
        Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        other => return other.map(|count| count as u64),
    }
    let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let mut buffer = vec![0; usize::try_from(bytes.min(1 << 20)).unwrap_or(1 << 20)];
    let count = source.read_at(&mut buffer, at).map_err(errno)?;
    target.write_all_at(&buffer[..count], at).map_err(errno)?;
    Ok(count as u64)
}

/// The first bytes of a regular file, as many as there are up to `limit`.
///
/// # Errors
/// It cannot be read.
pub fn head(path: &Path, limit: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit).read_to_end(&mut bytes).map(|_| bytes)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn a_copy_has_the_bytes_and_the_holes() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let file = File::create(&from).expect("makes");
        file.write_all_at(b"begin", 0).expect("writes");
        file.write_all_at(b"end", 8 << 20).expect("writes");
        let copied = copy(&from, &to, 0o640, None, &mut |_| true).expect("copies");
        assert_eq!(std::fs::read(&from).expect("reads"), std::fs::read(&to).expect("reads"));
        let (one, other) = (from.metadata().expect("is there"), to.metadata().expect("is there"));
        assert_eq!(other.mode() & 0o777, 0o640);
        assert!(other.blocks() <= one.blocks() + 16, "{} and {} blocks", one.blocks(), other.blocks());
        assert!(matches!(copied, Copied::Shared | Copied::Bytes(1..=100_000)), "{copied:?}");
    }

    #[test]
    fn a_source_that_shrinks_is_no_copy() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for (length, what) in [(1 << 20, "shorter"), (99 << 20, "longer")] {
            let file = File::create(&from).expect("makes");
            file.write_all_at(b"begin", 0).expect("writes");
            file.write_all_at(b"end", 65 << 20).expect("writes");
            let mut changed = false;
            let copied = copy(&from, &to, 0o600, None, &mut |_| {
                file.set_len(length).expect("cuts");
                changed = true;
                true
            });
            if copied.is_ok() && !changed {
                testkit::skip!("this file system shares blocks: nothing is copied");
            }
            let said = crate::chain(&copied.expect_err(what));
            assert!(said.contains("it had 68157443 bytes") && said.contains(&length.to_string()), "{said}");
            std::fs::remove_file(&to).expect("removes");
        }
    }

    #[test]
    fn a_link_or_a_taken_name_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, link, to) = (folder.path().join("from"), folder.path().join("link"), folder.path().join("to"));
        std::fs::write(&from, "x").expect("writes");
        std::os::unix::fs::symlink(&from, &link).expect("links");
        assert!(copy(&link, &to, 0o600, None, &mut |_| true).is_err() && !to.exists());
        std::fs::write(&to, "mine").expect("writes");
        assert!(copy(&from, &to, 0o600, None, &mut |_| true).is_err());
        assert_eq!(std::fs::read(&to).expect("reads"), b"mine");
        assert!(copy(folder.path(), &folder.path().join("other"), 0o600, None, &mut |_| true).is_err());
    }
}
