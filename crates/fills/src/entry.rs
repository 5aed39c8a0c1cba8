// SPDX-License-Identifier: Apache-2.0
//! One kept directory: the files of its folder, and how it is cloned.

use crate::copying::{Cloned, Copying, Owner};
use crate::manifest::{self, Row};
use crate::{Error, Key};
use host::files;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

pub(crate) const DATA: &str = "data";
pub(crate) const RECORD: &str = "entry.json";
pub(crate) const SECRET: &str = "secret";
pub(crate) const USED: &str = "used";
pub(crate) const LOCK: &str = "lock";

/// The version of `entry.json`.
const SCHEMA: u32 = 1;

/// `entry.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub schema: u32,
    pub key: Key,
    /// Seconds since 1970.
    pub made: u64,
    /// What it takes on the disk, shared blocks counted.
    pub taken_bytes: u64,
    /// A value of the caller's own, returned with each clone.
    pub note: Value,
    pub files: Vec<Row>,
    /// The file with the password. `None`: an earlier version of Wringer made the entry, which did not look at that file again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Row>,
}

impl Record {
    pub(crate) fn new(key: Key, taken_bytes: u64, note: Value, files: Vec<Row>) -> Self {
        Self { schema: SCHEMA, key, made: host::clock::unix_seconds(), taken_bytes, note, files, secret: None }
    }

    /// `None`: there is no such file, or it has another version.
    pub(crate) fn read(folder: &Path) -> Option<Self> {
        let mut text = String::new();
        files::open_safe(&folder.join(RECORD), false).ok()?.read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok().filter(|record: &Self| record.schema == SCHEMA)
    }
}

/// A kept directory whose files are as they were kept. Nobody removes it as long as this value lives.
#[derive(Debug)]
pub struct Entry {
    pub(crate) folder: PathBuf,
    pub(crate) record: Record,
    /// The content of the file with the password.
    pub(crate) secret: String,
    pub(crate) _lock: File,
}

impl Entry {
    /// The entry's name.
    pub fn id(&self) -> String {
        self.record.key.id()
    }

    pub fn key(&self) -> &Key {
        &self.record.key
    }

    /// Seconds since 1970.
    pub fn made(&self) -> u64 {
        self.record.made
    }

    /// The note of the caller who kept it.
    pub fn note(&self) -> &Value {
        &self.record.note
    }

    /// The password of the account that is in the data.
    pub fn secret(&self) -> &str {
        self.secret.trim()
    }

    /// Length of all its files.
    pub fn bytes(&self) -> u64 {
        self.record.files.iter().map(|file| file.size_bytes).sum()
    }

    /// Makes a copy in `to`, an empty folder of the caller's own with mode 0700. `owner` gets the files and, at the very end, the folders. `stop` is
    /// asked between pieces.
    ///
    /// # Errors
    /// [`Error::NoRoom`] before anything is written; [`Error::Changed`] when the files were changed while they were copied.
    pub fn clone_into(&self, to: &Path, owner: Owner, stop: &(dyn Fn() -> bool + Sync)) -> Result<Cloned, Error> {
        let data = self.folder.join(DATA);
        let what = "a clone of the kept data";
        let from = &data;
        let cloned = Copying { what, from, to, owner, leave_out: &[], keep_free_bytes: 0, stop }.run()?;
        match manifest::difference(&data, &self.record.files)? {
            None => Ok(cloned),
            Some(why) => Err(Error::Changed { path: self.folder.clone(), why }),
        }
    }

    /// What has changed since it was kept, in words, as far as sizes, inodes and times show it; of the file with the password, also its content. `None`:
    /// nothing has.
    pub(crate) fn difference(&self) -> Result<Option<String>, Error> {
        let secret = self.record.secret.as_ref();
        let changed = secret.map(|row| manifest::difference_of_one(&self.folder, self.secret.as_bytes(), row));
        match changed.transpose()?.flatten() {
            None => manifest::difference(&self.folder.join(DATA), &self.record.files),
            changed => Ok(changed),
        }
    }

    /// Reads every file, and says in words what has changed since it was kept. `None`: nothing has.
    ///
    /// # Errors
    /// A file cannot be read; interrupted.
    pub fn verify(&self, stop: &(dyn Fn() -> bool + Sync)) -> Result<Option<String>, Error> {
        manifest::difference_in_content(&self.folder.join(DATA), &self.record.files, stop)
    }
}
