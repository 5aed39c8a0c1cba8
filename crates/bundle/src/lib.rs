// SPDX-License-Identifier: Apache-2.0
//! A bundle: what was read about a server's memory, as files for people and programs, in one `.tar.gz`.
//!
//! In: files. Out: the bytes of an archive, and the files of an archive. The file [`MANIFEST`] has the length and the CRC-32C of every other file, so
//! that damage is found, also in a bundle that was unpacked into a folder.
//!
//! This crate reads no server and writes no file. No I/O, no clock.

mod archive;

pub use archive::{is_packed, pack, unpack};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The file that lists all other files of a bundle.
pub const MANIFEST: &str = "manifest.json";
/// The file from which everything is computed again.
pub const INVENTORY: &str = "inventory.json";

/// The files by their paths in the bundle (`proc/4711/status`).
pub type Files = BTreeMap<String, Vec<u8>>;

/// The reason why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the bundle is damaged: {0}")]
    Damaged(String),
    #[error("the bundle holds more than {0} bytes: that is none of memory")]
    TooLarge(u64),
    #[error("the bundle cannot be packed")]
    Packing(#[source] std::io::Error),
}

/// The entry of one file in [`MANIFEST`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    bytes: u64,
    crc32c: u32,
}

impl Entry {
    fn of(content: &[u8]) -> Self {
        Self { bytes: content.len() as u64, crc32c: crc32c::crc32c(content) }
    }
}

/// Adds the manifest, with an entry for each file.
///
/// # Errors
/// [`Error::Packing`].
pub fn seal(mut files: Files) -> Result<Files, Error> {
    let entries: BTreeMap<&str, Entry> =
        files.iter().map(|(path, content)| (path.as_str(), Entry::of(content))).collect();
    let text = serde_json::to_vec_pretty(&entries).map_err(|error| Error::Packing(error.into()))?;
    files.insert(MANIFEST.to_owned(), text);
    Ok(files)
}

/// The paths that a manifest lists.
///
/// # Errors
/// [`Error::Damaged`]: the bytes are no manifest, or a path leads out of the bundle.
pub fn paths(manifest: &[u8]) -> Result<Vec<String>, Error> {
    let paths: Vec<String> = entries(manifest)?.into_keys().collect();
    match paths.iter().find(|path| !is_inside(path)) {
        Some(path) => Err(Error::Damaged(format!("{path:?} leads out of it"))),
        None => Ok(paths),
    }
}

/// Compares all files with the manifest, which is one of `files`.
///
/// # Errors
/// [`Error::Damaged`]: there is no manifest, or a file is missing, or a file is not as it was.
pub fn verify(files: &Files) -> Result<(), Error> {
    let manifest = files.get(MANIFEST).ok_or_else(|| Error::Damaged(format!("there is no {MANIFEST} in it")))?;
    for (path, entry) in entries(manifest)? {
        let found = files.get(&path).ok_or_else(|| Error::Damaged(format!("{path} is missing")))?;
        if Entry::of(found) != entry {
            return Err(Error::Damaged(format!("{path} is not as it was written")));
        }
    }
    Ok(())
}

fn entries(manifest: &[u8]) -> Result<BTreeMap<String, Entry>, Error> {
    serde_json::from_slice(manifest).map_err(|error| Error::Damaged(format!("{MANIFEST}: {error}")))
}

/// Whether the path has only plain names, with slashes between them.
fn is_inside(path: &str) -> bool {
    path.split('/').all(|part| !part.is_empty() && part != "." && part != ".." && !part.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Files {
        let files = [("inventory.json", "{}"), ("proc/7/status", "VmRSS: 4 kB\n")];
        seal(files.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec())).into()).unwrap()
    }

    #[test]
    fn what_is_packed_comes_back_and_is_verified() {
        let packed = pack(&files(), 1_700_000_000).unwrap();
        assert!(is_packed(&packed) && !is_packed(b"{}"));
        let back = unpack(&packed).unwrap();
        assert_eq!(back, files());
        verify(&back).unwrap();
        assert_eq!(paths(&back[MANIFEST]).unwrap(), ["inventory.json", "proc/7/status"]);
        assert_eq!(packed, pack(&files(), 1_700_000_000).unwrap(), "the same files are the same bytes");
    }

    /// The archive may be cut at any place, and any one of its bytes may be changed.
    #[test]
    fn every_damage_is_found() {
        let packed = pack(&files(), 0).unwrap();
        let is_whole = |bytes: &[u8]| unpack(bytes).is_ok_and(|files| verify(&files).is_ok());
        assert!(is_whole(&packed));
        for end in 0..packed.len() {
            assert!(!is_whole(&packed[..end]), "cut at {end}");
        }
        // bytes 4 to 9 of gzip's header tell when and where the archive was made
        for at in (0..packed.len()).filter(|at| !(4..10).contains(at)) {
            let mut bytes = packed.clone();
            bytes[at] ^= 1;
            let same = unpack(&bytes).is_ok_and(|back| back == files());
            assert!(same || !is_whole(&bytes), "byte {at}");
        }
    }

    #[test]
    fn a_folder_without_a_file_or_with_another_one_is_damaged() {
        let said = |files: &Files| verify(files).map_err(|error| error.to_string()).expect_err("damaged");
        let mut some = files();
        some.insert("inventory.json".into(), b"{ }".to_vec());
        assert!(said(&some).contains("inventory.json is not as it was written"));
        some.remove("inventory.json");
        assert!(said(&some).contains("inventory.json is missing"));
        assert!(said(&Files::new()).contains("no manifest.json"));
        for path in ["../x", "/etc/passwd", "a//b", "", "a/./b"] {
            let manifest = format!("{{{path:?}: {{\"bytes\": 0, \"crc32c\": 0}}}}");
            assert!(paths(manifest.as_bytes()).is_err(), "{path}");
        }
    }
}
