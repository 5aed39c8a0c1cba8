// SPDX-License-Identifier: Apache-2.0
//! The guest's disk: a sparse raw file, mostly with an ext4 file system.

use crate::parts::Parts;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    read_only: bool,
    /// The file to which QEMU writes a log of the guest's writes, see [`crate::PowerCut`].
    log: Option<PathBuf>,
}

impl Disk {
    /// The disk `folder/name.raw` with an empty file system.
    pub fn make(parts: &Parts, folder: &Path, name: &str, mib: u64) -> Self {
        let disk = Self::blank(folder, name, mib);
        let made = Command::new(&parts.mke2fs)
            .args(["-q", "-t", "ext4", "-E", "lazy_itable_init=1,lazy_journal_init=1", "-F"])
            .arg(&disk.path)
            .status();
        assert!(made.expect("start mke2fs").success(), "mke2fs {}", disk.path.display());
        disk
    }

    /// A disk without a file system: it reads as zeros.
    pub fn blank(folder: &Path, name: &str, mib: u64) -> Self {
        let path = folder.join(format!("{name}.raw"));
        File::create(&path).and_then(|file| file.set_len(mib << 20)).expect("make a disk");
        Self { path, read_only: false, log: None }
    }

    /// Makes a file system with everything below `root`, and with `spare_mib` of free space.
    pub(crate) fn filled(parts: &Parts, path: &Path, root: &Path, spare_mib: u64, words: &[&str]) {
        let used = Command::new("du").args(["-s", "--apparent-size", "--block-size=1M"]).arg(root).output();
        let used = String::from_utf8_lossy(&used.expect("start du").stdout).into_owned();
        let used_mib: u64 = used.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a size");
        let file = File::create(path).expect("make a disk");
        // the file system itself needs a tenth of the size, and its journal
        file.set_len((used_mib * 11 / 10 + 24 + spare_mib) << 20).expect("make room");
        let made = Command::new(&parts.mke2fs)
            .args(["-q", "-t", "ext4", "-F"])
            .args(words)
            .arg("-d")
            .arg(root)
            .arg(path)
            .status();
        assert!(made.expect("start mke2fs").success(), "mke2fs {}", path.display());
    }

    /// The disk `folder/name.raw`, a copy of `from` as it is now.
    pub fn copy(from: &Path, folder: &Path, name: &str) -> Self {
        let path = folder.join(format!("{name}.raw"));
        let made = Command::new("cp").args(["--sparse=always", "--reflink=auto"]).arg(from).arg(&path).status();
        assert!(made.expect("start cp").success(), "copy {}", from.display());
        Self { path, read_only: false, log: None }
    }

    pub(crate) fn read_only(path: &Path) -> Self {
        Self { path: path.to_owned(), read_only: true, log: None }
    }

    pub(crate) fn logged(self, log: PathBuf) -> Self {
        Self { log: Some(log), ..self }
    }

    /// The argument of QEMU's `-drive`. When QEMU is killed, all data that the guest has written to the disk are kept, because this machine has them:
    /// so the flushes of the guest need not reach a real disk.
    pub(crate) fn drive(&self) -> String {
        let path = self.path.display();
        match &self.log {
            None if self.read_only => format!("file={path},if=virtio,format=raw,readonly=on"),
            None => format!("file={path},if=virtio,format=raw"),
            Some(log) => format!(
                "driver=blklogwrites,if=virtio,file.driver=file,file.filename={path},file.cache.no-flush=on,\
                 log.driver=file,log.filename={},log.cache.no-flush=on",
                log.display()
            ),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}
