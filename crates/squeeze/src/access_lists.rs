// SPDX-License-Identifier: Apache-2.0
//! Finds POSIX access lists below a directory that the layer cannot keep. In a user namespace that does not know every user, the
//! kernel does not ask the layer for access lists, and their rules would silently be lost.

use crate::Error;
use rustix::fs::lgetxattr;
use rustix::io::Errno;
use std::fs::{self, FileType};
use std::path::{Path, PathBuf};

/// The most files and folders to inspect: that takes some seconds when the kernel has them in memory.
const MOST: usize = 1_000_000;

/// Call it before a layer is mounted over `directory`. `Some`: the files that could not be inspected.
///
/// # Errors
/// [`Error::Refused`]: there are access lists, and the layer would not keep them.
pub fn refuse(directory: &Path) -> Result<Option<String>, Error> {
    if slowfs::mount_rights::keeps_access_lists() {
        return Ok(None);
    }
    let looked = look(directory, MOST);
    let shown = directory.display();
    if let Some(first) = &looked.first {
        let what = format!(
            "{} has a POSIX access list, which would not hold below the layer: without root it is mounted in a user namespace, \
             which does not know the users of the list",
            first.display()
        );
        let hint = format!(
            "run it as root; or by a preloaded library, which keeps the directory as it is (docs/preload.md); or, if nobody needs the \
             lists, remove them: setfacl -R -b {shown}"
        );
        return Err(Error::Refused { what, hint });
    }
    let unread = looked.unread.first().map(|first| match looked.unread.len() {
        1 => format!("{} could not be read", first.display()),
        count => format!("{count} files and folders could not be read, the first is {}", first.display()),
    });
    let most = looked.is_cut.then(|| format!("only {MOST} of its files were looked at"));
    let why: Vec<String> = unread.into_iter().chain(most).collect();
    Ok((!why.is_empty()).then(|| {
        let why = why.join("; ");
        format!(
            "whether {shown} has POSIX access lists is not wholly known: {why}. Below this layer they would not hold"
        )
    }))
}

#[derive(Debug, Default, PartialEq)]
struct Looked {
    /// The first file with a list.
    first: Option<PathBuf>,
    unread: Vec<PathBuf>,
    /// There are more files than the most to inspect.
    is_cut: bool,
}

/// Ends at the first list. Follows no links.
fn look(directory: &Path, most: usize) -> Looked {
    let mut looked = Looked::default();
    let mut left = most;
    match has_list(directory) {
        Ok(true) => return Looked { first: Some(directory.to_owned()), ..looked },
        // The file system has no access lists.
        Err(Errno::OPNOTSUPP) => return looked,
        Ok(false) => {}
        Err(_) => looked.unread.push(directory.to_owned()),
    }
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            looked.unread.push(folder);
            continue;
        };
        for entry in entries {
            let Ok((path, kind)) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?))) else {
                looked.unread.push(folder.clone());
                break;
            };
            if left == 0 {
                looked.is_cut = true;
                return looked;
            }
            left -= 1;
            look_at(path, kind, &mut looked, &mut folders);
            if looked.first.is_some() {
                return looked;
            }
        }
    }
    looked
}

fn look_at(path: PathBuf, kind: FileType, looked: &mut Looked, folders: &mut Vec<PathBuf>) {
    // a symbolic link has no list of its own
    if kind.is_symlink() {
        return;
    }
    match has_list(&path) {
        Ok(true) => looked.first = Some(path),
        Ok(false) if kind.is_dir() => folders.push(path),
        // Removed meanwhile.
        Ok(false) | Err(Errno::NOENT) => {}
        Err(_) => looked.unread.push(path),
    }
}

/// Access to the file itself, or the default for new files below it.
fn has_list(path: &Path) -> Result<bool, Errno> {
    for name in [c"system.posix_acl_access", c"system.posix_acl_default"] {
        match lgetxattr(path, name, &mut [0_u8; 0]) {
            Ok(_) => return Ok(true),
            Err(Errno::NODATA) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::unwrap_used)] // tests lay out folders of their own
mod tests {
    use super::*;
    use rustix::fs::{XattrFlags, setxattr};
    use std::os::unix::fs::symlink;

    /// `u::rwx,u:12345:---,g::r-x,m::r-x,o::r-x` in the kernel's format (linux/posix_acl_xattr.h).
    fn list() -> Vec<u8> {
        let none = u32::MAX;
        let entries = [(0x01_u16, 7_u16, none), (0x02, 0, 12_345), (0x04, 5, none), (0x10, 5, none), (0x20, 5, none)];
        let bytes = |(tag, may, id): (u16, u16, u32)| {
            let words = [tag.to_le_bytes(), may.to_le_bytes()].concat();
            [words, id.to_le_bytes().to_vec()].concat()
        };
        [2_u32.to_le_bytes().to_vec(), entries.into_iter().flat_map(bytes).collect()].concat()
    }

    #[test]
    fn a_list_is_found_wherever_it_is_and_up_to_the_bound() {
        let tree = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = |name: &str| tree.path().join(name);
        fs::create_dir_all(path("one/two/three")).unwrap();
        fs::write(path("one/two/file"), "").unwrap();
        symlink("/nowhere", path("one/link")).unwrap();
        assert_eq!(look(tree.path(), 5), Looked::default(), "five entries, all of them looked at");
        assert_eq!(look(tree.path(), 4), Looked { is_cut: true, ..Looked::default() });
        for (name, which) in [
            ("one/two/file", "system.posix_acl_access"),
            ("one/two/three", "system.posix_acl_default"),
            ("", "system.posix_acl_default"),
        ] {
            match setxattr(path(name), which, &list(), XattrFlags::empty()) {
                Err(Errno::OPNOTSUPP) => testkit::skip!("/var/tmp has no POSIX access lists"),
                other => other.unwrap(),
            }
            assert_eq!(look(tree.path(), 5).first, Some(path(name)), "{which} of {name}");
            rustix::fs::removexattr(path(name), which).unwrap();
        }
        assert_eq!(look(&path("nothing"), 5).unread, [path("nothing"), path("nothing")]);
    }
}
