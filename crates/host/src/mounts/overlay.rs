// SPDX-License-Identifier: Apache-2.0
//! The folders of which an overlay is made. The kernel keeps its own mounts of these folders, which are in no table: only the options of the overlay
//! name the folders, by the paths that they had when it was mounted.

use super::{MountEntry, unescape};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// The options of overlayfs that name folders; an option with a plus names one folder each time.
const FOLDERS: [&str; 5] = ["lowerdir", "lowerdir+", "datadir+", "upperdir", "workdir"];

impl MountEntry {
    /// The folders below an overlay, with the paths that were given when it was mounted. None for any other mount.
    pub(crate) fn overlay_folders(&self) -> Vec<PathBuf> {
        if self.fstype != "overlay" {
            return Vec::new();
        }
        let named =
            |option: &str| option.split_once('=').filter(|(name, _)| FOLDERS.contains(name)).map(|it| unescape(it.1));
        self.options.split(',').filter_map(named).flat_map(|value| folders(&value)).collect()
    }
}

/// Splits `one:two::data` into folders; a colon that belongs to a name has a backslash before it.
fn folders(value: &[u8]) -> Vec<PathBuf> {
    let mut names = vec![Vec::new()];
    let mut bytes = value.iter();
    while let Some(byte) = bytes.next() {
        let name = match byte {
            b':' => {
                names.push(Vec::new());
                continue;
            }
            b'\\' => bytes.next().unwrap_or(byte),
            plain => plain,
        };
        names.last_mut().into_iter().for_each(|last| last.push(*name));
    }
    names.into_iter().filter(|name| !name.is_empty()).map(|name| OsString::from_vec(name).into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folders_that_the_options_name() {
        let entry = |fstype: &str, options: &str| MountEntry {
            fstype: fstype.into(),
            options: options.into(),
            ..MountEntry::default()
        };
        let check = |options: &str, expected: &[&str]| {
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(entry("overlay", options).overlay_folders(), expected, "{options}");
        };
        check("rw,lowerdir=/a:/b::/c,upperdir=/u,workdir=/w,index=off", &["/a", "/b", "/c", "/u", "/w"]);
        check(
            r"ro,lowerdir=/a\134:b:l/RELATIVE,lowerdir+=/d\040e,datadir+=/f\054g",
            &["/a:b", "l/RELATIVE", "/d e", "/f,g"],
        );
        check("rw,userxattr", &[]);
        assert_eq!(entry("ext4", "rw,lowerdir=/a").overlay_folders(), Vec::<PathBuf>::new());
    }
}
