// SPDX-License-Identifier: Apache-2.0
//! Finds tables and tablespaces of InnoDB whose files lie outside of the data directory: the copy's server would open, and change, the original's
//! files. MariaDB and MySQL 5.7 have a file `*.isl` for each such table, which holds the path. MySQL 8 and later keep the paths in their data dictionary,
//! `mysql.ibd`, as plain text between other bytes.

use super::{Origin, refusal};
use crate::Error;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The data dictionary of MySQL 8 and later.
const DICTIONARY: &str = "mysql.ibd";
/// The endings of tablespaces and of undo tablespaces.
const ENDINGS: [&[u8; 4]; 2] = [b".ibd", b".ibu"];
/// The longest path that is found.
const PATH_BYTES_MOST: usize = 1024;
/// This much of the dictionary is read at a time.
const PART_BYTES: u64 = 1 << 20;

/// Refuses a file of the origin that says that another file lies elsewhere. `name`: the file's path below the origin.
pub(super) fn refuse(origin: &Origin, file: &Path, name: &Path) -> Result<(), Error> {
    let place = if name == Path::new(DICTIONARY) {
        // O_NONBLOCK: the open does not wait if there is a FIFO instead of the file by now
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = rustix::fs::open(file, flags, Mode::empty()).map_err(|errno| Error::path("read", file, errno))?;
        existing_file(File::from(opened), file)?
    } else if file.extension().is_some_and(|ending| ending == "isl") {
        Some(PathBuf::from(fs::read_to_string(file).unwrap_or_default().trim()))
    } else {
        None
    };
    let Some(place) = place else { return Ok(()) };
    let why = format!("{} says that a table or a tablespace has its file at {}", file.display(), place.display());
    Err(refusal(&origin.path, why, "a sandbox must not touch the original's file: use a backup or a dump"))
}

/// The first path in the dictionary at which this host has a file. A path at which there is none, as in a backup from another host, does no harm.
fn existing_file(mut dictionary: impl Read, name: &Path) -> Result<Option<PathBuf>, Error> {
    let mut window = Vec::new();
    loop {
        // a path may begin at the end of the part before
        window.drain(..window.len().saturating_sub(PATH_BYTES_MOST));
        let known = window.len();
        let read = dictionary.by_ref().take(PART_BYTES).read_to_end(&mut window);
        if read.map_err(|source| Error::path("read", name, source))? == 0 {
            return Ok(None);
        }
        let is_new_end = |end: &usize| ENDINGS.iter().any(|ending| window[..*end].ends_with(*ending));
        let found = (known + 1..=window.len()).filter(is_new_end).find_map(|end| file_named_before(&window[..end]));
        if found.is_some() {
            return Ok(found);
        }
        if host::interrupt::requested() {
            return Err(Error::Interrupted);
        }
    }
}

/// A file of this host whose full path is the end of these bytes. Letters before the path are not told from the path: each `/` may be its beginning.
fn file_named_before(bytes: &[u8]) -> Option<PathBuf> {
    let is_text = |byte: &&u8| **byte >= b' ' && **byte != 0x7f;
    let length = bytes.iter().rev().take(PATH_BYTES_MOST).take_while(is_text).count();
    let text = &bytes[bytes.len() - length..];
    let begins = (0..length).filter(|at| text[*at] == b'/');
    let mut paths = begins.map(|at| Path::new(OsStr::from_bytes(&text[at..])));
    paths.find(|path| path.symlink_metadata().is_ok_and(|metadata| !metadata.is_dir())).map(Path::to_owned)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // tests lay out folders of their own
mod tests {
    use super::*;
    use crate::Flavour;
    use crate::origin::Kind;

    /// The outcome for a data directory with this dictionary.
    fn look(data: &Path, dictionary: &[u8]) -> Result<(), Error> {
        look_at(data, DICTIONARY, dictionary)
    }

    fn look_at(data: &Path, name: &str, content: &[u8]) -> Result<(), Error> {
        let origin = Origin {
            path: data.into(),
            kind: Kind::DataDirectory,
            flavour: Flavour::Mysql,
            version: None,
            why: String::new(),
            recovers: false,
        };
        fs::write(data.join(name), content).expect("writes");
        refuse(&origin, &data.join(name), Path::new(name))
    }

    #[test]
    fn a_dictionary_that_names_a_file_of_this_host_is_refused() {
        let (data, ext) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let ext = ext.path().canonicalize().expect("is there");
        let (table, undo, own) = (ext.join("größer than.ibd"), ext.join("u1.ibu"), data.path().join("own.ibd"));
        // as MySQL 9.7 writes them: other bytes stand directly before and after a path
        let of = |path: &Path| format!("\0\u{1})./mysql/x.ibd\0'x/){}id=2;\0", path.display()).into_bytes();
        for path in [&table, &undo, &own] {
            look(data.path(), &of(path)).expect("no such file");
            fs::write(path, "").expect("writes");
            let error = look(data.path(), &of(path)).expect_err("is there");
            assert!(error.is_missing() && error.to_string().contains(&path.display().to_string()), "{error}");
            fs::remove_file(path).expect("removes");
        }
        look(data.path(), &of(&ext.join("folder.ibd/x.ibd"))).expect("no such file");
        fs::create_dir(ext.join("folder.ibd")).expect("makes");
        look(data.path(), &of(&ext.join("folder.ibd"))).expect("a folder is no tablespace");
    }

    #[test]
    fn a_path_that_two_parts_share_is_found() {
        let (data, ext) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let table = ext.path().join("t.ibd");
        fs::write(&table, "").expect("writes");
        let path = table.as_os_str().as_bytes();
        let part = usize::try_from(PART_BYTES).expect("fits");
        for in_first_part in [0, 1, path.len() - 3, path.len() - 1, path.len()] {
            let dictionary = [&vec![0; part - in_first_part], path, &[0]].concat();
            assert!(look(data.path(), &dictionary).is_err(), "{in_first_part} bytes are in the first part");
        }
        look(data.path(), &vec![b'/'; part + 4096]).expect("names nothing");
    }

    #[test]
    fn a_file_that_holds_the_path_of_another_is_refused() {
        let data = tempfile::tempdir().expect("a folder");
        let error = look_at(data.path(), "t.isl", b"/ext/t.ibd\n").expect_err("lies elsewhere");
        assert!(error.to_string().ends_with("its file at /ext/t.ibd"), "{error}");
        look_at(data.path(), "t.ibd", b"/proc/self/exe.ibd").expect("is a table itself");
    }
}
