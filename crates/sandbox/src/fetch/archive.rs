// SPDX-License-Identifier: Apache-2.0
//! A server from an archive that the user has: a maker's tarball, or the user's own build. The server in the archive tells its flavour and version;
//! the name of the file does not matter.

use super::cache::{self, Part};
use super::checksums::{self, Kind, Published};
use super::modes::open_to_all;
use crate::client::{checksum, sha256};
use crate::elf;
use crate::installation::{programs, trouble, unpacked};
use crate::space::require_cache_space;
use crate::{Error, Flavour, Installation, Progress, Source, tarball};
use host::files;
use host::places::Places;
use std::fs::File;
use std::io::Seek as _;
use std::path::{Path, PathBuf};

/// An archive, and what its user knows about it.
#[derive(Debug, Clone, Default)]
pub struct Archive {
    pub path: PathBuf,
    /// The archive is refused when its server is of another flavour.
    pub flavour: Option<Flavour>,
    /// The checksum that its maker publishes, in hexadecimal digits; `None`: the checksums in files beside the archive count.
    pub sha256: Option<String>,
}

/// How many folders below the top the server's folder may be: five in a jar of MariaDB, one in a maker's tarball.
const DEPTH: usize = 5;

/// Unpacks the server in an archive into the cache. Nothing is unpacked when the cache has this archive already.
///
/// # Errors
/// [`Error::Checksum`]; [`Error::Archive`] when the archive is damaged, cut short, unsafe, for another architecture, or holds no server, or none of
/// the asked flavour; [`Error::DiskFull`]. Nothing is left behind then.
pub fn unpack(archive: &Archive, places: &Places, progress: &mut dyn Progress) -> Result<Installation, Error> {
    let mut file = open(&archive.path)?;
    progress.doing(&format!("compute the checksum of {}", archive.path.display()));
    let copy = file.try_clone().map_err(|source| Error::path("read", &archive.path, source))?;
    let sum = sha256(copy)?;
    match &archive.sha256 {
        Some(expected) => compare(archive, Kind::Sha256, &sum, expected, None)?,
        None => check_beside(archive, &sum, &file, progress)?,
    }
    let size_bytes = file.metadata().map_err(|source| Error::path("look at", &archive.path, source))?.len();
    let name = archive.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let source = Source::Archive { name: name.clone(), sha256: sum.clone() };
    let _lock = cache::lock(places)?;
    if let Some(found) = known(&sum, places) {
        return of_flavour(archive, found);
    }
    let part = Part { name, version: String::new(), sha256: sum, size_bytes };
    progress.doing(&format!("unpack {}", archive.path.display()));
    cache::make(places, |new| {
        require_cache_space("an unpacked server", new, size_bytes)?;
        let outer = new.join("unpacked");
        files::private_dir(&outer, 0o755)?;
        file.rewind().map_err(|source| Error::path("read", &archive.path, source))?;
        tarball::unpack(&archive.path, &mut file, &outer, progress)?;
        let tree = new.join("tree");
        let root = root(&outer).ok_or_else(|| {
            bad(archive, "it holds no server: no mariadbd, mysqld or postgres in a folder sbin or bin")
        })?;
        files::rename(&root, &tree)?;
        if root != outer {
            files::remove_tree(&outer)?;
        }
        open_to_all(&tree)?;
        let found = identify(archive, &tree, &source)?;
        Ok((of_flavour(archive, found)?, vec![part]))
    })
}

fn open(path: &Path) -> Result<File, Error> {
    let file = File::open(path).map_err(|error| Error::Archive { path: path.into(), why: error.to_string() })?;
    let metadata = file.metadata().map_err(|source| Error::path("look at", path, source))?;
    if metadata.is_file() { Ok(file) } else { Err(Error::Archive { path: path.into(), why: "it is no file".into() }) }
}

/// Checks the archive against the checksums in files beside it.
fn check_beside(archive: &Archive, sha256: &str, file: &File, progress: &mut dyn Progress) -> Result<(), Error> {
    for Published { file: said_by, kind, sum: expected } in checksums::beside(&archive.path)? {
        progress.doing(&format!("compare its {} with {}", kind.name(), said_by.display()));
        let found = match kind {
            Kind::Sha256 => sha256.to_owned(),
            Kind::Md5 => {
                let failed = |source| Error::path("read", &archive.path, source);
                let mut copy = file.try_clone().map_err(failed)?;
                copy.rewind().map_err(failed)?;
                checksum(kind.program(), copy)?
            }
        };
        compare(archive, kind, &found, &expected, Some(said_by))?;
    }
    Ok(())
}

fn compare(archive: &Archive, kind: Kind, found: &str, expected: &str, file: Option<PathBuf>) -> Result<(), Error> {
    if found.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    let (path, expected, found) = (archive.path.clone(), expected.to_owned(), found.to_owned());
    Err(Error::Checksum { path, kind: kind.name(), expected, found, file })
}

fn bad(archive: &Archive, why: impl Into<String>) -> Error {
    Error::Archive { path: archive.path.clone(), why: why.into() }
}

/// The server of a cache entry that was made from the same bytes.
fn known(sum: &str, places: &Places) -> Option<Installation> {
    let is_same = |source: &Source| matches!(source, Source::Archive { sha256, .. } if sha256 == sum);
    let entry = cache::entries(places).into_iter().find(|entry| is_same(&entry.source))?;
    unpacked(entry.flavour, &entry.tree, &entry.source)
}

fn of_flavour(archive: &Archive, found: Installation) -> Result<Installation, Error> {
    match archive.flavour {
        Some(wanted) if wanted != found.flavour => {
            Err(bad(archive, format!("the server in it is {} {}, not {wanted}", found.flavour, found.version)))
        }
        _ => Ok(found),
    }
}

/// The folder that has the server's own folders, nearest to the top.
pub(super) fn root(folder: &Path) -> Option<PathBuf> {
    let mut level = vec![folder.to_owned()];
    for _ in 0..=DEPTH {
        if let Some(root) = level.iter().find(|folder| !server_programs(folder).is_empty()) {
            return Some(root.clone());
        }
        level = level.iter().flat_map(|folder| subfolders(folder)).collect();
    }
    None
}

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut found: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// The server programs of any flavour, at the places where an unpacked tree has them.
fn server_programs(tree: &Path) -> Vec<PathBuf> {
    let prefixes = [tree.join("usr"), tree.to_owned()];
    prefixes.iter().flat_map(|prefix| Flavour::ALL.map(|flavour| programs(flavour, prefix))).flatten().collect()
}

/// The server in the tree, with the flavour and version that it reports.
fn identify(archive: &Archive, tree: &Path, source: &Source) -> Result<Installation, Error> {
    if let Some(found) = Flavour::ALL.into_iter().find_map(|flavour| unpacked(flavour, tree, source)) {
        return Ok(found);
    }
    for program in server_programs(tree) {
        if let Some(other) = elf::foreign_machine(&program) {
            let here = std::env::consts::ARCH;
            return Err(bad(archive, format!("the server in it is for {other}, and this machine is {here}")));
        }
    }
    let mut words: Vec<String> = Flavour::ALL.into_iter().map(|flavour| trouble(flavour, tree)).collect();
    words.retain(|words| !words.is_empty() && !words.contains("no server program"));
    words.dedup();
    let why = if words.is_empty() {
        "what looks like a server in it says no version that is known, or its share folder is missing".to_owned()
    } else {
        format!("the server in it does not run here: {}", words.join("; "))
    };
    Err(bad(archive, why))
}
