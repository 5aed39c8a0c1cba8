// SPDX-License-Identifier: Apache-2.0
//! Inspects everything below a folder, in bounded memory: one file after the other, and only the largest entries are kept. Links
//! are not followed, other file systems are not entered, and a file with several names counts once.

use crate::Error;
use crate::residency::{Residency, Source, residency};
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs::{self, File, ReadDir};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub path: PathBuf,
    pub size_bytes: u64,
    pub residency: Residency,
}

/// The inspected files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    pub files: u64,
    pub folders: u64,
    pub size_bytes: u64,
    pub cached_bytes: u64,
    /// If the kernel tells it (cachestat).
    pub dirty_bytes: u64,
    pub source: Option<Source>,
    pub skipped: Skipped,
}

/// The skipped entries, and how many.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    pub links: u64,
    /// Devices, sockets, pipes.
    pub special: u64,
    pub other_file_systems: u64,
    /// Further names of a file that is already counted.
    pub hard_links: u64,
    pub unreadable: u64,
    /// The first reasons, at most [`REASONS`].
    pub reasons: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cached {
    /// Most cached bytes first, at most as many as were asked for.
    pub entries: Vec<Entry>,
    pub totals: Totals,
    pub interrupted: bool,
}

const REASONS: usize = 5;
/// The most open folders at a time; the usual limit of open files is 1024.
const DEEPEST: usize = 900;

/// How much of these files, and of all files below these folders, is cached. A link among the given paths is followed, no other.
///
/// # Errors
/// A given path does not exist. Files below it that cannot be read are counted.
pub fn cached(paths: &[PathBuf], keep: usize, progress: &mut dyn FnMut(&Totals)) -> Result<Cached, Error> {
    let (mut totals, mut entries, mut seen) = (Totals::default(), Vec::new(), BTreeSet::new());
    for path in paths {
        let path = path.canonicalize().map_err(Error::file("look at", path))?;
        walk(&path, &mut |step| {
            totals.count(step, &mut seen, &mut entries);
            if entries.len() >= keep.saturating_mul(2).max(1024) {
                keep_first(&mut entries, keep);
            }
            progress(&totals);
            !host::interrupt::requested()
        });
    }
    keep_first(&mut entries, keep);
    Ok(Cached { entries, totals, interrupted: host::interrupt::requested() })
}

fn keep_first(entries: &mut Vec<Entry>, keep: usize) {
    entries.sort_by(|a, b| {
        let rank = |entry: &Entry| (Reverse(entry.residency.cached_pages), Reverse(entry.size_bytes));
        rank(a).cmp(&rank(b)).then_with(|| a.path.cmp(&b.path))
    });
    entries.truncate(keep);
}

/// The largest ordinary file below a folder.
///
/// # Errors
/// There is no file that is not empty.
pub fn largest(folder: &Path) -> Result<PathBuf, Error> {
    let mut best: Option<(u64, PathBuf)> = None;
    walk(folder, &mut |step| {
        if let Step::File(path) = step
            && let Ok(size) = fs::symlink_metadata(&path).map(|metadata| metadata.len())
            && size > best.as_ref().map_or(0, |(size, _)| *size)
        {
            best = Some((size, path));
        }
        !host::interrupt::requested()
    });
    let hint = "name a file, or add --create SIZE";
    best.map(|(_, path)| path).ok_or_else(|| Error::unfit(folder, "there is no file below it to read", hint))
}

impl Totals {
    fn count(&mut self, step: Step, seen: &mut BTreeSet<(u64, u64)>, entries: &mut Vec<Entry>) {
        match step {
            Step::Folder => self.folders += 1,
            Step::Link => self.skipped.links += 1,
            Step::Special => self.skipped.special += 1,
            Step::OtherFileSystem => self.skipped.other_file_systems += 1,
            Step::Unreadable(error) => self.skipped.unreadable(&error),
            Step::File(path) => match look(&path, seen) {
                Ok(None) => self.skipped.hard_links += 1,
                Ok(Some(entry)) => {
                    self.files += 1;
                    self.size_bytes += entry.size_bytes;
                    self.cached_bytes += entry.residency.cached_bytes();
                    self.dirty_bytes += entry.residency.dirty_pages.unwrap_or(0) * entry.residency.page_bytes;
                    self.source = Some(entry.residency.source);
                    entries.push(entry);
                }
                Err(error) => self.skipped.unreadable(&error),
            },
        }
    }
}

impl Skipped {
    fn unreadable(&mut self, error: &Error) {
        self.unreadable += 1;
        if self.reasons.len() < REASONS {
            let because = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
            self.reasons.push(format!("{error}{because}"));
        }
    }
}

/// `None`: another name of a file that is already counted.
fn look(path: &Path, seen: &mut BTreeSet<(u64, u64)>) -> Result<Option<Entry>, Error> {
    // Only an owner may use NOATIME. Without it the access time does not change either, because nothing is read.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = opened.map(File::from).map_err(|errno| Error::file("open", path)(errno.into()))?;
    let metadata = file.metadata().map_err(Error::file("look at", path))?;
    if metadata.nlink() > 1 && !seen.insert((metadata.dev(), metadata.ino())) {
        return Ok(None);
    }
    let residency = residency(&file, path)?;
    Ok(Some(Entry { path: path.to_owned(), size_bytes: metadata.len(), residency }))
}

enum Step {
    File(PathBuf),
    Folder,
    Link,
    Special,
    OtherFileSystem,
    Unreadable(Error),
}

/// Depth first, so that only the folders on the way down are open. `visit` returns whether to go on.
fn walk(root: &Path, visit: &mut dyn FnMut(Step) -> bool) {
    let device = match fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => metadata.dev(),
        other => {
            visit(single(root, other));
            return;
        }
    };
    let mut open: Vec<(PathBuf, ReadDir)> = Vec::new();
    if !enter(root, &mut open, visit) {
        return;
    }
    while let Some((folder, entries)) = open.last_mut() {
        let step = match entries.next() {
            None => {
                open.pop();
                continue;
            }
            Some(Err(source)) => Step::Unreadable(Error::file("list", folder)(source)),
            Some(Ok(entry)) => match kind(&entry, device) {
                Kind::Folder(path) => {
                    if !enter(&path, &mut open, visit) {
                        return;
                    }
                    continue;
                }
                Kind::Step(step) => step,
            },
        };
        if !visit(step) {
            return;
        }
    }
}

fn single(path: &Path, metadata: std::io::Result<fs::Metadata>) -> Step {
    match metadata {
        Ok(metadata) if metadata.is_file() => Step::File(path.to_owned()),
        Ok(_) => Step::Special,
        Err(source) => Step::Unreadable(Error::file("look at", path)(source)),
    }
}

enum Kind {
    Folder(PathBuf),
    Step(Step),
}

fn kind(entry: &fs::DirEntry, device: u64) -> Kind {
    let path = entry.path();
    match entry.file_type() {
        Err(source) => Kind::Step(Step::Unreadable(Error::file("look at", &path)(source))),
        Ok(kind) if kind.is_symlink() => Kind::Step(Step::Link),
        Ok(kind) if kind.is_file() => Kind::Step(Step::File(path)),
        Ok(kind) if kind.is_dir() => match entry.metadata() {
            Ok(metadata) if metadata.dev() == device => Kind::Folder(path),
            Ok(_) => Kind::Step(Step::OtherFileSystem),
            Err(source) => Kind::Step(Step::Unreadable(Error::file("look at", &path)(source))),
        },
        Ok(_) => Kind::Step(Step::Special),
    }
}

/// Returns whether to go on.
fn enter(folder: &Path, open: &mut Vec<(PathBuf, ReadDir)>, visit: &mut dyn FnMut(Step) -> bool) -> bool {
    let listed = if open.len() < DEEPEST {
        fs::read_dir(folder)
    } else {
        Err(std::io::Error::other(format!("more than {DEEPEST} folders deep")))
    };
    match listed {
        Ok(entries) => {
            open.push((folder.to_owned(), entries));
            visit(Step::Folder)
        }
        Err(source) => visit(Step::Unreadable(Error::file("list", folder)(source))),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Two files, one of them with a second name; a link to a file; a link to a folder above; a socket.
    fn tree() -> tempfile::TempDir {
        let top = tempfile::tempdir_in(".").expect("a folder");
        let path = |name: &str| top.path().join(name);
        fs::create_dir_all(path("a/b")).expect("makes folders");
        fs::write(path("a/large"), vec![1; 1 << 20]).expect("writes");
        fs::write(path("a/b/small"), vec![1; 5000]).expect("writes");
        fs::hard_link(path("a/large"), path("again")).expect("links");
        symlink(path("a/large"), path("link")).expect("links");
        symlink(top.path(), path("a/b/loop")).expect("links");
        std::os::unix::net::UnixListener::bind(path("socket")).expect("binds");
        top
    }

    #[test]
    fn a_tree_is_counted_once_and_links_are_not_followed() {
        let top = tree();
        let found = cached(&[top.path().to_owned()], 10, &mut |_| {}).expect("looks");
        let totals = &found.totals;
        assert_eq!((totals.files, totals.folders), (2, 3));
        assert_eq!(totals.size_bytes, (1 << 20) + 5000);
        let skipped = &totals.skipped;
        assert_eq!((skipped.links, skipped.hard_links, skipped.special, skipped.unreadable), (2, 1, 1, 0));
        // just written, so all of it is cached; but the kernel may drop pages at any moment, so a later count is never higher
        let left = ["a/large", "a/b/small"].map(|name| {
            let path = top.path().join(name);
            residency(&File::open(&path).expect("opens"), &path).expect("asks").cached_bytes()
        });
        let left: u64 = left.iter().sum();
        assert!((left..=(1 << 20) + 8192).contains(&totals.cached_bytes) && left > 1 << 19, "{totals:?}, then {left}");
        assert_eq!(found.entries[0].size_bytes, 1 << 20, "the most cached first");
        assert_eq!(largest(top.path()).expect("finds").metadata().expect("is there").len(), 1 << 20);
    }

    #[test]
    fn only_the_first_entries_are_kept() {
        let top = tree();
        let found = cached(&[top.path().to_owned()], 1, &mut |_| {}).expect("looks");
        assert_eq!((found.entries.len(), found.totals.files), (1, 2));
        assert_eq!(found.entries[0].size_bytes, 1 << 20);
    }

    #[test]
    fn a_folder_without_a_file_says_so() {
        let top = tempfile::tempdir().expect("a folder");
        assert!(largest(top.path()).expect_err("is empty").to_string().contains("no file"));
        assert!(cached(&[top.path().join("none")], 1, &mut |_| {}).is_err());
    }
}
