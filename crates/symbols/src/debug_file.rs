// SPDX-License-Identifier: Apache-2.0
//! Where the debug information of a build is. It is looked for as gdb does (its manual, "Debugging Information in Separate Files").

use crate::elf::Elf;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Packages of debug symbols put their files below it.
const DEBUG: &str = "/usr/lib/debug";

/// The file with the debug information of this build, below one of the folders or in the system's folder.
pub(crate) fn of_build(id: &[u8], folders: &[PathBuf]) -> Option<PathBuf> {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = hex.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())?;
    let name = format!(".build-id/{first}/{rest}.debug");
    let places = folders.iter().flat_map(|it| [it.join(&name), it.join("usr/lib/debug").join(&name)]);
    places.chain([Path::new(DEBUG).join(&name)]).find(|it| it.is_file())
}

/// The file that a debug file shares with others of its package.
pub(crate) fn shared(debug_file: &Path, elf: &Elf, folders: &[PathBuf]) -> Option<PathBuf> {
    let (name, id) = elf.shared.as_ref()?;
    // a link of `.build-id` leads to the place that the name is relative to
    let whole = debug_file.canonicalize().ok()?;
    let named = whole.parent()?.join(OsStr::from_bytes(name));
    let is_of_build = |it: &PathBuf| Elf::read(it).is_ok_and(|elf| elf.build_id.as_deref() == Some(id));
    Some(named).filter(is_of_build).or_else(|| of_build(id, folders))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_without_a_debug_file() {
        for id in [&[][..], &[1], &[0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 1]] {
            assert_eq!(of_build(id, &[PathBuf::from("/nowhere")]), None);
        }
    }
}
