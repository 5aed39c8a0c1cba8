// SPDX-License-Identifier: Apache-2.0
//! The modes of an unpacked tree. The server's own user must be able to read it, whatever the umask and the archive say.

use crate::Error;
use host::files;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Opens `folder` and all below it to everybody's reading: folders are 0755, files can be read, and executed where their owner can do that. No link is
/// followed. Nobody but the owner may write.
pub(super) fn open_to_all(folder: &Path) -> Result<(), Error> {
    files::set_mode(folder, 0o755)?;
    for entry in std::fs::read_dir(folder).map_err(|source| Error::path("read", folder, source))?.flatten() {
        let (path, metadata) = (entry.path(), entry.metadata());
        let metadata = metadata.map_err(|source| Error::path("look at", &path, source))?;
        if metadata.is_dir() {
            open_to_all(&path)?;
        } else if metadata.is_file() {
            files::set_mode(&path, for_all(metadata.permissions().mode()))?;
        }
    }
    Ok(())
}

fn for_all(mode: u32) -> u32 {
    let run = if mode & 0o100 == 0 { 0 } else { 0o111 };
    mode & 0o700 | 0o444 | run
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // tests lay out folders of their own
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::symlink;

    #[test]
    fn a_tree_that_the_umask_has_closed_is_open_and_what_its_links_lead_to_is_not() {
        let home = tempfile::tempdir().expect("a folder");
        let (tree, outside) = (home.path().join("tree"), home.path().join("outside"));
        fs::create_dir_all(tree.join("usr/bin")).expect("makes");
        let files = [("usr/bin/server", 0o700), ("usr/messages", 0o640), ("usr/library", 0o775)]
            .map(|(name, mode)| (tree.join(name), mode));
        for (path, mode) in files.iter().chain([&(outside.clone(), 0o600)]) {
            fs::write(path, "").expect("writes");
            fs::set_permissions(path, Permissions::from_mode(*mode)).expect("sets");
        }
        for folder in ["usr/bin", "usr", ""] {
            fs::set_permissions(tree.join(folder), Permissions::from_mode(0o700)).expect("sets");
        }
        symlink(&outside, tree.join("usr/link")).expect("links");
        open_to_all(&tree).expect("opens");
        let mode = |path: &Path| fs::metadata(path).expect("is there").permissions().mode() & 0o7777;
        assert_eq!(files.map(|(path, _)| mode(&path)), [0o755, 0o644, 0o755]);
        assert_eq!(["", "usr", "usr/bin"].map(|name| mode(&tree.join(name))), [0o755; 3]);
        assert_eq!(mode(&outside), 0o600);
    }
}
