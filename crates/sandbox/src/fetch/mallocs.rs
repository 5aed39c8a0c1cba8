// SPDX-License-Identifier: Apache-2.0
//! Libraries that replace malloc, from the distribution's packages: `<cache>/mallocs/<entry>/{fetched.json, tree/}`, under the lock of the
//! fetched servers. An entry appears by one rename, complete, or not at all; nothing is installed.

use super::cache::{self, Part};
use super::packages::{unpack, with_libraries};
use crate::apt::{Age, Apt, Package};
use crate::libraries::Libraries;
use crate::{Error, Flavour, Progress};
use capability::MallocKind;
use host::files::{self, check_usable_file};
use host::places::Places;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

const SCHEMA: u32 = 1;
const FOLDER: &str = "mallocs";

/// The content of `fetched.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Fetched {
    schema: u32,
    malloc: String,
    packages: Vec<Part>,
}

/// The library, if it was fetched earlier.
pub(crate) fn fetched_malloc(kind: MallocKind, places: &Places) -> Option<PathBuf> {
    let folder = places.cache.join(FOLDER);
    files::check_usable(&folder).ok()?;
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.sort();
    folders.iter().rev().find_map(|folder| read(kind, folder))
}

/// The library from the machine's suite.
///
/// # Errors
/// [`Error::Unwrappable`]: no package has it; the package client fails; the disk is full.
pub(crate) fn malloc(kind: MallocKind, places: &Places, progress: &mut dyn Progress) -> Result<PathBuf, Error> {
    let _lock = cache::lock(places)?;
    let folder = places.cache.join(FOLDER);
    files::usable_dir(&folder)?;
    cache::clear_unfinished(&folder)?;
    if let Some(found) = fetched_malloc(kind, places) {
        return Ok(found);
    }
    let apt = Apt::open(Flavour::Mysql, places).map_err(|error| match error {
        Error::NoPackageClient { program, .. } => none(kind, &format!(", and without '{program}' none can be fetched")),
        other => other,
    })?;
    apt.update(Age::Hours, progress)?;
    let made = match make(kind, &apt, &folder, progress) {
        // the archive may have changed since the lists were read
        Err(Error::Program { .. } | Error::Unwrappable { .. }) if apt.update(Age::Minutes, progress)? => {
            make(kind, &apt, &folder, progress)
        }
        done => done,
    };
    apt.drop_indexes()?;
    made
}

/// The folders of further libraries that a fetched library needs and this machine lacks. Empty for a library that was not fetched, or that needs no
/// others.
pub(crate) fn folders_of_malloc(library: &Path) -> Vec<PathBuf> {
    let trees = library.ancestors().filter(|path| path.file_name().is_some_and(|name| name == "tree"));
    let of_cache = |tree: &&Path| tree.parent().is_some_and(|entry| entry.join("fetched.json").is_file());
    let Some(tree) = trees.into_iter().find(of_cache) else { return Vec::new() };
    let text = fs::read_to_string(tree.with_file_name("fetched.json")).unwrap_or_default();
    let fetched: Option<Fetched> = serde_json::from_str(&text).ok();
    let has_more = fetched.is_some_and(|fetched| fetched.packages.len() > 1);
    if has_more { Libraries::below(tree).folders } else { Vec::new() }
}

fn read(kind: MallocKind, folder: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(folder.join("fetched.json")).ok()?;
    let fetched: Fetched = serde_json::from_str(&text).ok()?;
    let is_it = fetched.schema == SCHEMA && fetched.malloc == kind.name();
    library_in(kind, &cache::usable_tree(folder).filter(|_| is_it)?)
}

fn library_in(kind: MallocKind, tree: &Path) -> Option<PathBuf> {
    let folders = Libraries::below(tree).folders;
    let named = kind.libraries().iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let mut files = named.filter_map(|path| path.canonicalize().ok().filter(|path| check_usable_file(path).is_ok()));
    files.find(|path| malloc::Elf::open(path).is_some_and(|library| library.kind() == Some(kind)))
}

fn none(kind: MallocKind, why: &str) -> Error {
    let what = format!("--malloc: this machine has no {}{why}", kind.libraries().join(", "));
    let package = kind.packages().first().copied().unwrap_or_default();
    Error::Unwrappable { what, hint: Some(format!("install its package ({package}), or name the file of a library")) }
}

fn make(kind: MallocKind, apt: &Apt, folder: &Path, progress: &mut dyn Progress) -> Result<PathBuf, Error> {
    let lacks = || none(kind, ", and its distribution offers none");
    let mut known = Vec::new();
    for name in kind.packages() {
        known.extend(apt.names(name)?.into_iter().filter(|known| known == name));
    }
    let offered = if known.is_empty() { Vec::new() } else { apt.versions(&known[..1])? };
    // the client lists the newest version first
    let package = offered.into_iter().next().ok_or_else(lacks)?;
    progress.doing(&format!("fetch {} ({} {})", kind.name(), package.name, package.version));
    let packages = with_libraries(apt, vec![format!("{}={}", package.name, package.version)])?;
    let (entry, _) = cache::add_entry(folder, |new| {
        let name = format!("{}-{}", package.name, package.version.replace(':', "%3a"));
        Ok((name, fill(kind, apt, &packages, new, progress)?))
    })?;
    read(kind, &entry).ok_or_else(|| none(kind, ", and the one of its distribution cannot be read"))
}

/// Fills the folder of an entry; returns the entry's record.
fn fill(
    kind: MallocKind,
    apt: &Apt,
    packages: &[Package],
    new: &Path,
    progress: &mut dyn Progress,
) -> Result<Fetched, Error> {
    let tree = unpack(apt, packages, new, "a fetched malloc", 4 << 20, progress)?;
    library_in(kind, &tree).ok_or_else(|| none(kind, ", and the one of its distribution cannot be read"))?;
    Ok(Fetched { schema: SCHEMA, malloc: kind.name().into(), packages: packages.iter().map(Part::of).collect() })
}
