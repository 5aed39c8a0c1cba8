// SPDX-License-Identifier: Apache-2.0
//! The guest's disk: a sparse raw file with an ext4 file system.

use crate::parts::Parts;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
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
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}
