// SPDX-License-Identifier: Apache-2.0
//! A data directory as a server leaves it, and how it is kept: for the programs of tests beside this folder.

use fills::{Entry, Error, Kept, Key, Looked, Store, ToKeep};
use serde_json::json;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

pub(crate) const HOLE_BYTES: u64 = 8 << 20;

pub(crate) fn never() -> bool {
    false
}

/// A home with a data directory as a server leaves it: folders, a file with a hole, and what is not kept.
pub(crate) fn filled(home: &Path) -> PathBuf {
    let data = home.join("server-data");
    fs::create_dir_all(data.join("sbtest")).unwrap();
    fs::write(data.join("ibdata1"), vec![7; 300_000]).unwrap();
    fs::write(data.join("auto.cnf"), "identity").unwrap();
    fs::set_permissions(data.join("ibdata1"), fs::Permissions::from_mode(0o640)).unwrap();
    let table = File::create(data.join("sbtest/sbtest1.ibd")).unwrap();
    table.set_len(HOLE_BYTES).unwrap();
    table.write_all_at(&[3; 4096], HOLE_BYTES - 4096).unwrap();
    table.sync_all().unwrap();
    data
}

pub(crate) fn key() -> Key {
    Key::new().with("test", "kept_directories")
}

pub(crate) fn keep_with(store: &Store, data: &Path, stop: &(dyn Fn() -> bool + Sync)) -> Result<Kept, Error> {
    store.keep(&ToKeep { key: key(), data, secret: "pass", note: json!({"rows": 5}), leave_out: &["auto.cnf"], stop })
}

pub(crate) fn keep(store: &Store, data: &Path) -> Kept {
    keep_with(store, data, &never).unwrap()
}

#[track_caller]
pub(crate) fn here(store: &Store) -> Box<Entry> {
    match store.find(&key(), false, &never).unwrap() {
        Looked::Here(entry) => entry,
        other => panic!("{other:?}"),
    }
}
