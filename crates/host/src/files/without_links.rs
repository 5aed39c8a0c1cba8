// SPDX-License-Identifier: Apache-2.0
//! Opens what a canonical path names, and follows no link on the way: an ordinary user who owns a part of the path can put a link there after a check.

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, fstat, open, openat};
use std::io;
use std::path::{Component, Path};

const PLACE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a place (`O_PATH`): nothing is read, and no device is opened. It goes name by name, because that works on every kernel and in every container.
///
/// # Errors
/// There is nothing at the path; a part of the path is a symbolic link; the path is not absolute, or has a `..` in it.
pub fn open_without_links(path: &Path) -> io::Result<OwnedFd> {
    let mut parts = path.components();
    if parts.next() != Some(Component::RootDir) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not absolute"));
    }
    let mut place = open("/", PLACE, Mode::empty())?;
    for part in parts {
        let Component::Normal(name) = part else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not canonical"));
        };
        place = openat(&place, name, PLACE, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&place)?.st_mode) == FileType::Symlink {
            let what = format!("{} in this path is a symbolic link by now", name.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
    }
    Ok(place)
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::disallowed_methods)] // tests lay out folders of their own
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_anywhere_in_the_path_is_refused() {
        let home = tempfile::tempdir().expect("a folder");
        let home = home.path().canonicalize().expect("is there");
        let folder = home.join("real/data");
        fs::create_dir_all(&folder).expect("makes");
        symlink(home.join("real"), home.join("link")).expect("links");
        symlink(&folder, home.join("last")).expect("links");
        let opened = open_without_links(&folder).expect("opens");
        let (seen, meant) = (fstat(&opened).expect("looks"), rustix::fs::stat(&folder).expect("looks"));
        assert_eq!((seen.st_dev, seen.st_ino), (meant.st_dev, meant.st_ino));
        for path in ["link/data", "last", "real/../real/data"] {
            let error = open_without_links(&home.join(path)).expect_err(path);
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path}: {error}");
        }
        let error = open_without_links(&home.join("nothing")).expect_err("nothing there");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(open_without_links(Path::new("real")).is_err(), "relative");
    }
}
