// SPDX-License-Identifier: Apache-2.0
//! pgBouncer, from the distribution's package: `<cache>/poolers/<entry>/{fetched.json, tree/}`, under the lock of the fetched servers. An entry
//! appears by one rename, when it is complete and was tried, or not at all.

use super::cache::{self, Part};
use super::packages::{unpack, with_libraries};
use crate::apt::{Age, Apt, Package};
use crate::pooler::{PoolerProgram, unpacked};
use crate::{Error, Flavour, Progress, Source};
use host::files;
use host::places::Places;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

const PACKAGE: &str = "pgbouncer";
const FOLDER: &str = "poolers";
const SCHEMA: u32 = 1;

/// The content of `fetched.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Fetched {
    schema: u32,
    source: Source,
    packages: Vec<Part>,
}

/// The newest pgBouncer that was fetched earlier, or, if there is none, the newest in the machine's suite.
pub(crate) fn pooler(places: &Places, progress: &mut dyn Progress) -> Result<PoolerProgram, Error> {
    let _lock = cache::lock(places)?;
    let folder = places.cache.join(FOLDER);
    files::usable_dir(&folder)?;
    cache::clear_unfinished(&folder)?;
    if let Some(found) = newest(&folder) {
        return Ok(found);
    }
    let apt = Apt::open(Flavour::Postgresql, places).map_err(without_client)?;
    apt.update(Age::Hours, progress)?;
    let made = match make(&apt, &folder, progress) {
        // the archive may have changed since the lists were read
        Err(Error::Program { .. } | Error::NoPooler { .. }) if apt.update(Age::Minutes, progress)? => {
            make(&apt, &folder, progress)
        }
        done => done,
    };
    apt.drop_indexes()?;
    made
}

fn without_client(error: Error) -> Error {
    match error {
        Error::NoPackageClient { program, .. } => {
            Error::NoPooler { why: format!("this machine has none, and without '{program}' none can be fetched") }
        }
        other => other,
    }
}

/// The newest pgBouncer that was fetched earlier.
pub(crate) fn fetched_pooler(places: &Places) -> Option<PoolerProgram> {
    newest(&places.cache.join(FOLDER))
}

fn newest(folder: &Path) -> Option<PoolerProgram> {
    entries(folder).into_iter().max_by(|one, other| one.version.cmp(&other.version))
}

fn entries(folder: &Path) -> Vec<PoolerProgram> {
    if files::check_usable(folder).is_err() {
        return Vec::new();
    }
    let folders = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    folders.filter_map(|folder| read(&folder)).collect()
}

fn read(folder: &Path) -> Option<PoolerProgram> {
    let text = fs::read_to_string(folder.join("fetched.json")).ok()?;
    let fetched: Fetched = serde_json::from_str(&text).ok()?;
    let tree = cache::usable_tree(folder)?;
    unpacked(&tree, &fetched.source).filter(|_| fetched.schema == SCHEMA)
}

fn make(apt: &Apt, folder: &Path, progress: &mut dyn Progress) -> Result<PoolerProgram, Error> {
    let none = || Error::NoPooler { why: "this machine has none, and its distribution offers none".into() };
    let offered = if apt.names(PACKAGE)?.iter().any(|name| name == PACKAGE) {
        apt.versions(&[PACKAGE.to_owned()])?
    } else {
        Vec::new()
    };
    // the client lists the newest version first
    let package = offered.into_iter().next().ok_or_else(none)?;
    progress.doing(&format!("fetch pgBouncer ({PACKAGE} {})", package.version));
    let packages = with_libraries(apt, vec![format!("{}={}", package.name, package.version)])?;
    let (entry, _) = cache::add_entry(folder, |new| {
        let name = format!("{}-{}", package.name, package.version.replace(':', "%3a"));
        Ok((name, fill(apt, package, &packages, new, progress)?))
    })?;
    read(&entry).ok_or_else(unfit)
}

fn unfit() -> Error {
    Error::NoPooler { why: "this machine has none, and the one of its distribution does not run".into() }
}

/// Fills the folder of an entry; returns the entry's record.
fn fill(
    apt: &Apt,
    package: Package,
    packages: &[Package],
    new: &Path,
    progress: &mut dyn Progress,
) -> Result<Fetched, Error> {
    let tree = unpack(apt, packages, new, "a fetched pgBouncer", 4 << 20, progress)?;
    let source = Source::Package { name: package.name, version: package.version, suite: None };
    unpacked(&tree, &source).ok_or_else(unfit)?;
    Ok(Fetched { schema: SCHEMA, source, packages: packages.iter().map(Part::of).collect() })
}
