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
    /// Where QEMU writes down what the guest writes, see [`crate::PowerCut`].
    log: Option<PathBuf>,
}

impl Disk {
    /// `folder/name.raw`, empty.
    pub fn make(parts: &Parts, folder: &Path, name: &str, mib: u64) -> Self {
        let disk = Self::blank(folder, name, mib);
        let made = Command::new(&parts.mke2fs)
            .args(["-q", "-t", "ext4", "-E", "lazy_itable_init=1,lazy_journal_init=1", "-F"])
            .arg(&disk.path)
            .status();
        assert!(made.expect("start mke2fs").success(), "mke2fs {}", disk.path.display());
        disk
    }

    /// The same without a file system: it reads as zeros.
    pub fn blank(folder: &Path, name: &str, mib: u64) -> Self {
        let path = folder.join(format!("{name}.raw"));
        File::create(&path).and_then(|file| file.set_len(mib << 20)).expect("make a disk");
        Self { path, read_only: false, log: None }
    }

    /// A file system with what is below `root` in it, and `spare_mib` of room.
    pub(crate) fn filled(parts: &Parts, path: &Path, root: &Path, spare_mib: u64, words: &[&str]) {
        let used = Command::new("du").args(["-s", "--apparent-size", "--block-size=1M"]).arg(root).output();
        let used = String::from_utf8_lossy(&used.expect("start du").stdout).into_owned();
        let used_mib: u64 = used.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a size");
        let file = File::create(path).expect("make a disk");
        // the file system's own needs: a tenth, and its journal
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

    /// `folder/name.raw`, as `from` is now.
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

    /// The argument of QEMU's `-drive`. A kill of QEMU loses nothing that the guest gave to a disk, for this machine has it: its flushes
    /// need not reach a real disk.
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
