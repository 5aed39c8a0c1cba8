// SPDX-License-Identifier: Apache-2.0
//! Unpacks an archive that somebody else made, and writes nothing outside the given folder: no path upwards, no absolute path, no link that leads
//! out, no device, no set-user-id. `xz`, `gzip` and `zstd` decompress; an archive that is cut short is noticed.

use crate::space::require_cache_space;
use crate::{Error, Progress};
use host::tool;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek as _};
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Stdio};
use tar::EntryType;

/// The space that must stay free on the disk.
const RESERVE_BYTES: u64 = 256 << 20;
/// Offset of `ustar` in the header of a tar file (pax, IEEE Std 1003.1).
const MAGIC_OFFSET: usize = 257;

/// The compression of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    Plain,
    Gzip,
    Xz,
    Zstd,
}

/// Unpacks `archive`, which is called `name` in messages, below `tree`, an empty folder of ours.
pub(crate) fn unpack(name: &Path, archive: &mut File, tree: &Path, progress: &mut dyn Progress) -> Result<(), Error> {
    let bad = |why: String| Error::Archive { path: name.into(), why };
    let packing = packing(archive).map_err(|source| Error::path("read", name, source))?;
    let packing = packing.ok_or_else(|| bad("it is no tar file, plain or packed by xz, gzip or zstd".into()))?;
    archive.rewind().map_err(|source| Error::path("read", name, source))?;
    let total_bytes = archive.metadata().map_err(|source| Error::path("look at", name, source))?.len();
    let (reader, child) = reader(packing, archive, name)?;
    let mut position = archive.try_clone().map_err(|source| Error::path("read", name, source))?;
    let look = move |progress: &mut dyn Progress| {
        // the file position is shared with the program that decompresses
        progress.bytes(position.stream_position().unwrap_or(0), total_bytes);
    };
    let unpacked = unpack_entries(reader, name, tree, look, progress);
    // an error of the decompressing program comes first: it tells that the archive is cut short
    match child.map(|child| finish(child, unpacked.is_ok())).transpose() {
        _ if host::interrupt::requested() => Err(Error::Interrupted),
        Ok(Some(Some(why))) => Err(bad(format!("it is damaged: {why}"))),
        Err(source) => Err(Error::path("read", name, source)),
        Ok(_) => unpacked.and_then(|()| links_stay_in(name, tree, tree)),
    }
}

fn packing(file: &mut File) -> io::Result<Option<Packing>> {
    let mut head = Vec::new();
    file.rewind()?;
    file.take(512).read_to_end(&mut head)?;
    Ok(match head.as_slice() {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Packing::Xz),
        [0x1f, 0x8b, ..] => Some(Packing::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Packing::Zstd),
        head if head.get(MAGIC_OFFSET..).is_some_and(|rest| rest.starts_with(b"ustar")) => Some(Packing::Plain),
        _ => None,
    })
}

fn reader(packing: Packing, archive: &File, name: &Path) -> Result<(Box<dyn Read>, Option<Child>), Error> {
    let file = archive.try_clone().map_err(|source| Error::path("read", name, source))?;
    let (program, package) = match packing {
        Packing::Plain => return Ok((Box::new(file), None)),
        Packing::Gzip => ("gzip", "gzip"),
        Packing::Xz => ("xz", "xz-utils, or xz"),
        Packing::Zstd => ("zstd", "zstd"),
    };
    if tool::find(program).is_none() {
        return Err(Error::NoTool { program, package, what: format!("unpack {}", name.display()) });
    }
    let mut command = tool::command(program);
    command.args(["-q", "-dc"]).env("LC_ALL", "C").stdin(file).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|source| Error::path("start", program, source))?;
    let stdout: Box<dyn Read> = match child.stdout.take() {
        Some(stdout) => Box::new(stdout),
        None => Box::new(io::empty()),
    };
    Ok((stdout, Some(child)))
}

/// Why the decompressing program failed, in its own words. A failure because its output was not read to the end does not count.
fn finish(mut child: Child, was_read: bool) -> io::Result<Option<String>> {
    let mut words = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let mut bytes = Vec::new();
        stderr.read_to_end(&mut bytes)?;
        words = String::from_utf8_lossy(&bytes).trim().to_owned();
    }
    let status = child.wait()?;
    let is_complaint = !status.success() && (was_read || !words.is_empty());
    Ok(is_complaint.then(|| if words.is_empty() { format!("{status}") } else { words }))
}

fn unpack_entries(
    reader: Box<dyn Read>,
    name: &Path,
    tree: &Path,
    mut look: impl FnMut(&mut dyn Progress),
    progress: &mut dyn Progress,
) -> Result<(), Error> {
    let bad = |why: String| Error::Archive { path: name.into(), why };
    let damaged = |error: io::Error| bad(format!("it is damaged: {error}"));
    let mut archive = tar::Archive::new(Interruptible(reader));
    archive.set_preserve_permissions(false);
    archive.set_preserve_ownerships(false);
    archive.set_mask(0o022);
    // an entry below a link would be written to the link's target
    let mut links: HashSet<PathBuf> = HashSet::new();
    let mut count = 0_u64;
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let path = entry.path().map_err(damaged)?.into_owned();
        let Some(inside) = inside(&path) else {
            return Err(bad(format!("'{}' in it leads out of the folder it is unpacked to", path.display())));
        };
        if inside.ancestors().any(|part| links.contains(part)) {
            return Err(bad(format!("'{}' in it goes through a link in it", path.display())));
        }
        let kind = entry.header().entry_type();
        let link = entry.link_name().map_err(damaged)?.map(std::borrow::Cow::into_owned);
        match (kind, &link) {
            (EntryType::XGlobalHeader, _) => continue,
            (EntryType::Directory, _) => {
                // not with the archive's mode: a read-only folder could neither be filled nor removed
                host::files::private_dir(&tree.join(&inside), 0o755)?;
                continue;
            }
            (EntryType::Symlink, Some(target)) if link_stays_in(&inside, target) => drop(links.insert(inside.clone())),
            (EntryType::Link, Some(target)) if is_plain(target, &links) => {}
            (EntryType::Symlink | EntryType::Link, target) => {
                let target = target.as_deref().unwrap_or(Path::new("")).display();
                return Err(bad(format!("the link '{}' in it leads out, to '{target}'", path.display())));
            }
            (EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse, _) => {}
            (other, _) => {
                return Err(bad(format!("'{}' in it is neither file, folder nor link ({other:?})", path.display())));
            }
        }
        require_cache_space("an unpacked server", tree, entry.size().saturating_add(RESERVE_BYTES))?;
        if let Err(error) = entry.unpack_in(tree) {
            return Err(match disk_error(&error) {
                Some(errno) => Error::path("write", tree.join(&inside), errno),
                None => bad(format!("'{}' in it: {}", path.display(), host::chain(&error))),
            });
        }
        count += 1;
        if count.is_multiple_of(16) || entry.size() > 1 << 20 {
            look(progress);
        }
    }
    if count == 0 {
        return Err(bad("it holds no files".into()));
    }
    // after the end of the archive come the padding, and the checksum of the packed file
    io::copy(&mut archive.into_inner(), &mut io::sink()).map(drop).map_err(damaged)
}

/// The kernel's error that caused this one; a fault of the archive has none.
fn disk_error(error: &io::Error) -> Option<rustix::io::Errno> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<io::Error>();
        if let Some(errno) = io.and_then(rustix::io::Errno::from_io_error) {
            return Some(errno);
        }
        next = match io {
            Some(io) => io.get_ref().map(|inner| inner as &(dyn std::error::Error + 'static)),
            None => error.source(),
        };
    }
    None
}

/// The path as one below a folder; `None` when it leads to any other place.
fn inside(path: &Path) -> Option<PathBuf> {
    path.components()
        .filter(|component| *component != Component::CurDir)
        .map(|component| if let Component::Normal(name) = component { Some(name) } else { None })
        .collect()
}

/// Whether a hard link may have this target: a file below the folder that is no symbolic link, and is not below one.
fn is_plain(target: &Path, links: &HashSet<PathBuf>) -> bool {
    inside(target).is_some_and(|target| !target.ancestors().any(|part| links.contains(part)))
}

/// Whether the target of a symbolic link at `link` stays below the folder, judged by its text alone.
fn link_stays_in(link: &Path, target: &Path) -> bool {
    let mut depth = link.components().count().saturating_sub(1);
    target.components().all(|component| match component {
        Component::CurDir => true,
        Component::Normal(_) => {
            depth += 1;
            true
        }
        Component::ParentDir if depth > 0 => {
            depth -= 1;
            true
        }
        _ => false,
    })
}

/// Checks all links below `folder` as the kernel resolves them: a target may lead through another link.
fn links_stay_in(name: &Path, folder: &Path, tree: &Path) -> Result<(), Error> {
    let whole = tree.canonicalize().map_err(|source| Error::path("look at", tree, source))?;
    for entry in std::fs::read_dir(folder).map_err(|source| Error::path("read", folder, source))?.flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            links_stay_in(name, &path, &whole)?;
        } else if kind.is_symlink() && path.canonicalize().is_ok_and(|real| !real.starts_with(&whole)) {
            let link = path.strip_prefix(&whole).or_else(|_| path.strip_prefix(tree)).unwrap_or(&path);
            return Err(Error::Archive {
                path: name.into(),
                why: format!("the link '{}' in it leads out", link.display()),
            });
        }
    }
    Ok(())
}

/// A reader that fails after the user has interrupted.
struct Interruptible<R>(R);

impl<R: Read> Read for Interruptible<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if host::interrupt::requested() {
            return Err(io::Error::other("interrupted by the user"));
        }
        self.0.read(buffer)
    }
}

#[cfg(test)]
#[path = "tarball_tests.rs"]
mod tests;
