// SPDX-License-Identifier: Apache-2.0
//! Random file operations through the layer and on a plain directory must give the same results, step by step, and leave the same
//! files behind.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // tests make their own processes and files

mod common;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Few names, so that operations meet.
const NAMES: [&str; 6] = ["a", "b", "d", "d/a", "d/e", "d/e/a"];
const HANDLES: usize = 3;

#[derive(Debug, Clone)]
enum Operation {
    Open { slot: usize, name: usize, create: bool, exclusive: bool, truncate: bool, append: bool },
    Close { slot: usize },
    Write { slot: usize, offset: u64, length: usize, byte: u8 },
    Append { slot: usize, length: usize, byte: u8 },
    Read { slot: usize, offset: u64, length: usize },
    Truncate { slot: usize, length: u64 },
    Sync { slot: usize, data_only: bool },
    HandleSize { slot: usize },
    TruncateByName { name: usize, length: u64 },
    Stat { name: usize },
    List { name: usize },
    Remove { name: usize },
    MakeFolder { name: usize },
    RemoveFolder { name: usize },
    Rename { from: usize, to: usize },
    Exchange { from: usize, to: usize, flags: u32 },
    Link { from: usize, to: usize },
    Symlink { to: usize, name: usize },
    ReadLink { name: usize },
    Mode { name: usize, mode: u32 },
    Times { slot: usize, seconds: u64 },
    Fifo { name: usize },
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation as O;
    let slot = || 0..HANDLES;
    let name = || 0..NAMES.len();
    // Aligned and unaligned, over the ends of pages, some far away.
    let offset =
        || prop_oneof![0u64..20_000, (0u64..8).prop_map(|page| page * 4096), (0u64..40).prop_map(|block| block * 512)];
    let length = || prop_oneof![1usize..9_000, (1usize..5).prop_map(|pages| pages * 4096), Just(512)];
    prop_oneof![
        6 => (slot(), name(), any::<[bool; 4]>()).prop_map(|(slot, name, [create, exclusive, truncate, append])| O::Open {
            slot, name, create, exclusive: exclusive && create, truncate, append
        }),
        1 => slot().prop_map(|slot| O::Close { slot }),
        6 => (slot(), offset(), length(), any::<u8>()).prop_map(|(slot, offset, length, byte)| O::Write { slot, offset, length, byte }),
        2 => (slot(), length(), any::<u8>()).prop_map(|(slot, length, byte)| O::Append { slot, length, byte }),
        6 => (slot(), offset(), length()).prop_map(|(slot, offset, length)| O::Read { slot, offset, length }),
        2 => (slot(), offset()).prop_map(|(slot, length)| O::Truncate { slot, length }),
        2 => (slot(), any::<bool>()).prop_map(|(slot, data_only)| O::Sync { slot, data_only }),
        2 => slot().prop_map(|slot| O::HandleSize { slot }),
        1 => (name(), offset()).prop_map(|(name, length)| O::TruncateByName { name, length }),
        3 => name().prop_map(|name| O::Stat { name }),
        2 => name().prop_map(|name| O::List { name }),
        2 => name().prop_map(|name| O::Remove { name }),
        3 => name().prop_map(|name| O::MakeFolder { name }),
        1 => name().prop_map(|name| O::RemoveFolder { name }),
        3 => (name(), name()).prop_map(|(from, to)| O::Rename { from, to }),
        1 => (name(), name(), 1u32..3).prop_map(|(from, to, flags)| O::Exchange { from, to, flags }),
        2 => (name(), name()).prop_map(|(from, to)| O::Link { from, to }),
        1 => (name(), name()).prop_map(|(to, name)| O::Symlink { to, name }),
        1 => name().prop_map(|name| O::ReadLink { name }),
        1 => (name(), 0u32..0o1000).prop_map(|(name, mode)| O::Mode { name, mode }),
        1 => (slot(), 1u64..2_000_000_000).prop_map(|(slot, seconds)| O::Times { slot, seconds }),
        1 => name().prop_map(|name| O::Fifo { name }),
    ]
}

/// One directory and the handles that are open below it.
struct World {
    root: PathBuf,
    handles: [Option<File>; HANDLES],
}

impl World {
    fn new(root: &Path) -> Self {
        fs::create_dir_all(root).unwrap();
        Self { root: root.to_owned(), handles: Default::default() }
    }

    fn path(&self, name: usize) -> PathBuf {
        self.root.join(NAMES[name])
    }

    /// What the operation gave, in words that do not depend on where the directory is.
    fn apply(&mut self, operation: &Operation) -> Result<String, i32> {
        self.try_apply(operation).map_err(|error| error.raw_os_error().unwrap_or(0))
    }

    fn try_apply(&mut self, operation: &Operation) -> std::io::Result<String> {
        use Operation as O;
        let done = Ok(String::new());
        match *operation {
            O::Open { slot, name, create, exclusive, truncate, append } => {
                let mut options = File::options();
                options.read(true).write(!append).append(append).create(create).create_new(exclusive);
                // A folder cannot be written; a fifo would block until somebody opens the other end.
                if fs::metadata(self.path(name)).is_ok_and(|found| found.file_type().is_fifo()) {
                    return Ok("fifo".into());
                }
                self.handles[slot] = Some(options.truncate(truncate && !append && !exclusive).open(self.path(name))?);
                done
            }
            O::Close { slot } => {
                self.handles[slot] = None;
                done
            }
            O::Write { slot, offset, length, byte } => {
                self.with(slot, |file| file.write_all_at(&vec![byte; length], offset))
            }
            O::Append { slot, length, byte } => {
                self.with(slot, |mut file| std::io::Write::write_all(&mut file, &vec![byte; length]))
            }
            O::Read { slot, offset, length } => self.with(slot, |file| {
                let mut buffer = vec![0; length];
                let count = file.read_at(&mut buffer, offset)?;
                Ok((count, buffer))
            }),
            O::Truncate { slot, length } => self.with(slot, |file| file.set_len(length)),
            O::Sync { slot, data_only } => {
                self.with(slot, |file| if data_only { file.sync_data() } else { file.sync_all() })
            }
            O::HandleSize { slot } => self.with(slot, |file| file.metadata().map(|found| (found.len(), found.nlink()))),
            O::TruncateByName { name, length } => {
                if fs::metadata(self.path(name)).is_ok_and(|found| found.file_type().is_fifo()) {
                    return Ok("fifo".into());
                }
                rustix::fs::ftruncate(File::options().write(true).open(self.path(name))?, length)?;
                done
            }
            O::Stat { name } => Ok(describe(&self.path(name))?),
            O::List { name } => {
                let mut names: Vec<_> = fs::read_dir(self.path(name))?
                    .map(|entry| entry.map(|entry| (entry.file_name(), entry.file_type().unwrap())))
                    .collect::<Result<_, _>>()?;
                names.sort_by(|left, right| left.0.cmp(&right.0));
                Ok(format!("{names:?}"))
            }
            O::Remove { name } => fs::remove_file(self.path(name)).and(done),
            O::MakeFolder { name } => fs::create_dir(self.path(name)).and(done),
            O::RemoveFolder { name } => fs::remove_dir(self.path(name)).and(done),
            O::Rename { from, to } => fs::rename(self.path(from), self.path(to)).and(done),
            O::Exchange { from, to, flags } => {
                let flags = rustix::fs::RenameFlags::from_bits_retain(flags);
                let here = rustix::fs::CWD;
                rustix::fs::renameat_with(here, self.path(from), here, self.path(to), flags)?;
                done
            }
            O::Link { from, to } => fs::hard_link(self.path(from), self.path(to)).and(done),
            O::Symlink { to, name } => std::os::unix::fs::symlink(NAMES[to], self.path(name)).and(done),
            O::ReadLink { name } => Ok(format!("{:?}", fs::read_link(self.path(name))?)),
            O::Mode { name, mode } => {
                // Root opens what it likes, and the permissions of a symlink's target are the target's.
                fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode | 0o700)).and(done)
            }
            O::Times { slot, seconds } => self.with(slot, |file| {
                let time = UNIX_EPOCH + Duration::from_secs(seconds);
                file.set_times(fs::FileTimes::new().set_modified(time).set_accessed(time))?;
                Ok(file.metadata()?.modified()? == time)
            }),
            O::Fifo { name } => {
                let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
                rustix::fs::mknodat(rustix::fs::CWD, self.path(name), kind, mode, 0)?;
                done
            }
        }
    }

    fn with<T: std::fmt::Debug>(
        &self,
        slot: usize,
        work: impl FnOnce(&File) -> std::io::Result<T>,
    ) -> std::io::Result<String> {
        match &self.handles[slot] {
            Some(file) => work(file).map(|got| format!("{got:?}")),
            None => Ok("closed".into()),
        }
    }
}

/// All that two equal files have in common; the size of a folder belongs to its file system.
fn describe(path: &Path) -> std::io::Result<String> {
    let found = fs::symlink_metadata(path)?;
    let length = if found.is_dir() { 0 } else { found.len() };
    Ok(format!("{:?} {:o} {} {} {} {length}", found.file_type(), found.mode(), found.nlink(), found.uid(), found.gid()))
}

/// Every path below with what it is and holds.
fn tree(root: &Path) -> BTreeMap<PathBuf, (String, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            let content = if kind.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), (describe(&path).unwrap(), content));
            if kind.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

fn compare(mounted: &common::Mounted, cases: u32) {
    let plain_folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let counter = Cell::new(0);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let result = runner.run(&prop::collection::vec(operation(), 1..60), |operations| {
        let case = counter.replace(counter.get() + 1);
        let plain_root = plain_folder.path().join(case.to_string());
        let seen = mounted.inside(|folder| {
            let mut slow = World::new(&folder.join(case.to_string()));
            let mut plain = World::new(&plain_root);
            for (step, operation) in operations.iter().enumerate() {
                let (got, expected) = (slow.apply(operation), plain.apply(operation));
                prop_assert_eq!(got, expected, "step {} of {:#?}", step, operations);
            }
            Ok(tree(&slow.root))
        })?;
        prop_assert_eq!(seen, tree(&plain_root), "through the layer");
        mounted.inside(|folder| rustix::fs::syncfs(File::open(folder).unwrap()).unwrap());
        prop_assert_eq!(tree(&mounted.directory().join(case.to_string())), tree(&plain_root), "below the layer");
        Ok(())
    });
    result.unwrap();
}

#[test]
fn with_the_write_back_cache() {
    compare(&mount_or_skip!(), 60);
}

#[test]
fn without_the_write_back_cache() {
    compare(&mount_or_skip!(|options| options.writeback_cache = false), 40);
}

#[test]
fn through_the_page_cache_below() {
    compare(&mount_or_skip!(|options| options.direct = false), 20);
}
