// SPDX-License-Identifier: Apache-2.0
//! Fetches a server: the distribution's package and the libraries that this machine lacks, unpacked into the cache.
//!
//! Layout: `<cache>/servers/<flavour>-<version>/{fetched.json, tree/}`. An entry appears by one rename, complete and tried, or
//! not at all.

use crate::apt::{Age, Apt, Package};
use crate::catalogue::{Capability, any_words, words};
use crate::deploy::require_space;
use crate::installation::{trouble, unpacked};
use crate::{Error, Flavour, Installation, Progress, Request, Source, Version, suite};
use host::files;
use host::places::Places;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A version that the distribution offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub flavour: Flavour,
    pub version: Version,
    pub package: String,
    pub package_version: String,
    /// Of the machine's archive, where it is not the machine's own.
    pub suite: Option<String>,
    /// Of the server's own package, without its libraries.
    pub download_bytes: u64,
}

/// One entry of the cache.
pub(crate) struct Entry {
    pub(crate) flavour: Flavour,
    pub(crate) tree: PathBuf,
    pub(crate) source: Source,
}

/// `fetched.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Fetched {
    schema: u32,
    flavour: Flavour,
    version: Version,
    source: Source,
    packages: Vec<Part>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Part {
    name: String,
    version: String,
    sha256: String,
    size_bytes: u64,
}

const SCHEMA: u32 = 1;

/// What the distribution offers, newest first.
///
/// # Errors
/// There is no package client, or its lists cannot be had.
pub fn offers(flavour: Flavour, places: &Places, progress: &mut dyn Progress) -> Result<Vec<Offer>, Error> {
    let _lock = lock(places)?;
    let apt = Apt::open(flavour, places)?;
    apt.update(Age::Hours, progress)?;
    let own = offers_in(&apt, flavour);
    apt.drop_indexes()?;
    if !own.as_ref().is_ok_and(Vec::is_empty) {
        return own;
    }
    let Some(other) = other_suite(&apt, flavour, progress)? else { return own };
    let offers = offers_in(&other, flavour);
    other.drop_indexes()?;
    offers
}

/// Fetches the newest version that meets `request`; at once when the cache has it. Where the machine's own suite does not offer it,
/// from the suite that the catalogue names.
///
/// # Errors
/// [`Error::NotOffered`]; [`Error::SuiteUnreachable`]; [`Error::DiskFull`]; [`Error::Program`] with the package client's words;
/// [`Error::Unusable`] when the server does not run on this machine.
pub fn fetch(request: &Request, places: &Places, progress: &mut dyn Progress) -> Result<Installation, Error> {
    let _lock = lock(places)?;
    let apt = Apt::open(request.flavour, places)?;
    clear_debris(places)?;
    apt.update(Age::Hours, progress)?;
    let has_other = !any_words(Capability::OtherSuite, request.flavour).is_empty();
    match fetch_twice(&apt, request, places, !has_other, progress) {
        Err(error @ Error::NotOffered { .. }) if has_other => {
            let other = other_suite(&apt, request.flavour, progress)?.ok_or(error)?;
            fetch_twice(&other, request, places, true, progress)
        }
        done => done,
    }
}

/// Once more with new lists when the archive may have moved on since they were read.
fn fetch_twice(
    apt: &Apt,
    request: &Request,
    places: &Places,
    may_be_offered: bool,
    progress: &mut dyn Progress,
) -> Result<Installation, Error> {
    let fetched = fetch_with(apt, request, places, progress);
    let outdated = match &fetched {
        Err(Error::Program { .. }) => true,
        Err(Error::NotOffered { .. }) => may_be_offered,
        _ => false,
    };
    let fetched = match fetched {
        failed if outdated && apt.update(Age::Minutes, progress)? => {
            drop(failed);
            fetch_with(apt, request, places, progress)
        }
        other => other,
    };
    apt.drop_indexes()?;
    fetched
}

/// With its lists; none for this flavour or machine.
fn other_suite(machine: &Apt, flavour: Flavour, progress: &mut dyn Progress) -> Result<Option<Apt>, Error> {
    let Some(other) = suite::open(machine, flavour)? else { return Ok(None) };
    match other.update(Age::Hours, progress) {
        Ok(_) => Ok(Some(other)),
        Err(Error::Program { log, .. }) => {
            Err(Error::SuiteUnreachable { flavour, suite: other.suite.unwrap_or_default(), log })
        }
        Err(error) => Err(error),
    }
}

/// The entries of the cache whose record can be read.
pub(crate) fn entries(places: &Places) -> Vec<Entry> {
    let folders = fs::read_dir(servers(places)).into_iter().flatten().flatten().map(|entry| entry.path());
    let visible = folders.filter(|path| path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.')));
    visible
        .filter_map(|folder| {
            let text = fs::read_to_string(folder.join("fetched.json")).ok()?;
            let fetched: Fetched = serde_json::from_str(&text).ok()?;
            let tree = folder.join("tree").canonicalize().ok()?;
            (fetched.schema == SCHEMA).then_some(Entry { flavour: fetched.flavour, tree, source: fetched.source })
        })
        .collect()
}

fn servers(places: &Places) -> PathBuf {
    places.cache.join("servers")
}

/// One fetch at a time: a second one waits, and then finds what the first one fetched.
fn lock(places: &Places) -> Result<fs::File, Error> {
    files::private_dir(&places.cache, 0o755)?;
    files::private_dir(&servers(places), 0o755)?;
    let path = servers(places).join(".lock");
    let lock = files::open_lock(&path)?;
    loop {
        match rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(lock),
            Err(rustix::io::Errno::WOULDBLOCK) if host::interrupt::requested() => return Err(Error::Interrupted),
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(200)),
            Err(errno) => return Err(Error::path("lock", &path, errno)),
        }
    }
}

/// What a killed fetch left. To be called under the lock.
fn clear_debris(places: &Places) -> Result<(), Error> {
    for entry in fs::read_dir(servers(places)).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(".new-") {
            files::remove_tree(&entry.path())?;
        }
    }
    Ok(())
}

fn offers_in(apt: &Apt, flavour: Flavour) -> Result<Vec<Offer>, Error> {
    let mut packages = Vec::new();
    for pattern in any_words(Capability::ServerPackage, flavour) {
        let prefix = pattern.trim_end_matches('*');
        packages.extend(apt.names(prefix)?.into_iter().filter(|name| is_versioned(name, prefix)));
    }
    let found = if packages.is_empty() { Vec::new() } else { apt.versions(&packages)? };
    let mut offers: Vec<Offer> = found.into_iter().filter_map(|package| offer(apt, flavour, package)).collect();
    offers.sort_by(|one, other| other.version.cmp(&one.version).then(other.package_version.cmp(&one.package_version)));
    offers.dedup_by(|one, other| one.package == other.package && one.package_version == other.package_version);
    Ok(offers)
}

/// Whether the star in `prefix*` stands for a version or for nothing.
fn is_versioned(name: &str, prefix: &str) -> bool {
    let rest = name.strip_prefix(prefix).map(|rest| rest.trim_start_matches('-'));
    rest.is_some_and(|rest| {
        rest.chars().all(|c| c.is_ascii_digit() || c == '.') && (!rest.is_empty() || !prefix.ends_with('-'))
    })
}

fn offer(apt: &Apt, flavour: Flavour, package: Package) -> Option<Offer> {
    Some(Offer {
        flavour,
        version: Version::of_package(&package.version)?,
        package: package.name,
        package_version: package.version,
        suite: apt.suite.clone(),
        download_bytes: package.size_bytes,
    })
}

fn fetch_with(
    apt: &Apt,
    request: &Request,
    places: &Places,
    progress: &mut dyn Progress,
) -> Result<Installation, Error> {
    let offers = offers_in(apt, request.flavour)?;
    let Some(offer) = offers.iter().find(|offer| request.is_met_by(&offer.version)) else {
        return Err(not_offered(request, &offers));
    };
    let entry = servers(places).join(format!("{}-{}", offer.flavour, offer.version));
    if let Some(found) = entries(places).into_iter().find(|found| found.tree.parent() == Some(&entry)) {
        match unpacked(offer.flavour, &found.tree, &found.source) {
            Some(installation) => return Ok(installation),
            // A library of the machine's that it used has gone: fetched anew.
            None => drop(files::remove_tree(&entry)?),
        }
    }
    make_entry(apt, offer, &entry, progress)
}

fn not_offered(request: &Request, offers: &[Offer]) -> Error {
    let mut versions: Vec<String> = offers.iter().map(|offer| offer.version.to_string()).collect();
    versions.dedup();
    let offered = if versions.is_empty() { "none".into() } else { versions.join(", ") };
    Error::NotOffered { flavour: request.flavour, wanted: request.wanted(), offered }
}

fn make_entry(apt: &Apt, offer: &Offer, entry: &Path, progress: &mut dyn Progress) -> Result<Installation, Error> {
    progress.doing(&format!("fetch {} {}", offer.flavour, offer.version));
    let packages = packages_for(apt, offer)?;
    let new = entry.with_file_name(format!(".new-{}-{}", offer.flavour, std::process::id()));
    files::private_dir(&new, 0o755)?;
    let made = fill_entry(apt, offer, &packages, &new, progress)
        .and_then(|()| files::remove_tree(entry).map_err(Error::from))
        .and_then(|_| Ok(files::rename(&new, entry)?));
    if let Err(error) = made {
        let _ = files::remove_tree(&new);
        return Err(error);
    }
    let tree = entry.join("tree").canonicalize().map_err(|source| Error::path("look at", entry, source))?;
    unpacked(offer.flavour, &tree, &source_of(offer)).ok_or_else(|| unusable(offer, &tree))
}

/// The server, what stands beside it, and the libraries that this machine lacks. Dependencies that are not libraries serve
/// installing: users, services, configuration.
fn packages_for(apt: &Apt, offer: &Offer) -> Result<Vec<Package>, Error> {
    let major = offer.version.major().to_string();
    let mut wanted = vec![format!("{}={}", offer.package, offer.package_version)];
    for word in words(Capability::CompanionPackage, offer.flavour, &offer.version) {
        let word = word.replace("{major}", &major).replace("{star}", star(offer));
        wanted.push(format!("{word}={}", offer.package_version));
    }
    let is_needed = |name: &str| is_library(name) || apt.suite.is_some() && is_c_library(name);
    let missing = apt.missing_with(&wanted)?.into_iter().filter(|(name, _)| is_needed(name));
    wanted.extend(missing.map(|(name, version)| format!("{name}={version}")));
    wanted.sort();
    wanted.dedup();
    let found = apt.versions(&wanted)?;
    let mut packages: Vec<Package> = Vec::new();
    for package in found {
        let is_wanted = wanted.contains(&format!("{}={}", package.name, package.version));
        if is_wanted && !packages.iter().any(|other| other.name == package.name) {
            packages.push(package);
        }
    }
    Ok(packages)
}

/// What the star in the pattern of this offer's package stood for.
fn star(offer: &Offer) -> &str {
    let patterns = any_words(Capability::ServerPackage, offer.flavour);
    let rest = |pattern: &&str| offer.package.strip_prefix(pattern.trim_end_matches('*'));
    patterns.iter().find_map(rest).unwrap_or_default()
}

fn is_library(name: &str) -> bool {
    let others = ["-dev", "-perl", "-doc", "-dbg", "-common", "-data", "-bin", "-modules"];
    (name.starts_with("lib") || name == "zlib1g")
        && !is_c_library(name)
        && !name.starts_with("libc-")
        && !name.starts_with("libperl")
        && !others.iter().any(|end| name.ends_with(end))
}

/// One beside the machine's own works only together with its own dynamic loader, as the servers of other suites have it.
fn is_c_library(name: &str) -> bool {
    name == "libc6"
}

fn fill_entry(
    apt: &Apt,
    offer: &Offer,
    packages: &[Package],
    new: &Path,
    progress: &mut dyn Progress,
) -> Result<(), Error> {
    let need_bytes =
        packages.iter().map(|package| package.size_bytes + package.unpacked_bytes).sum::<u64>() + (16 << 20);
    require_space("a fetched server", new, need_bytes)?;
    let (archive, tree) = (new.join("packages"), new.join("tree"));
    files::private_dir(&archive, 0o755)?;
    files::private_dir(&tree, 0o755)?;
    apt.download(packages, &archive, progress)?;
    progress.doing("unpack");
    for package in packages {
        apt.unpack(package, &archive, &tree)?;
    }
    files::remove_tree(&archive)?;
    unpacked(offer.flavour, &tree, &source_of(offer)).ok_or_else(|| unusable(offer, &tree))?;
    write_record(offer, packages, new)?;
    sync(new)
}

fn source_of(offer: &Offer) -> Source {
    let (name, version, suite) = (offer.package.clone(), offer.package_version.clone(), offer.suite.clone());
    Source::Package { name, version, suite }
}

fn unusable(offer: &Offer, tree: &Path) -> Error {
    Error::Unusable { flavour: offer.flavour, version: offer.version.clone(), why: trouble(offer.flavour, tree) }
}

fn write_record(offer: &Offer, packages: &[Package], new: &Path) -> Result<(), Error> {
    let part = |package: &Package| Part {
        name: package.name.clone(),
        version: package.version.clone(),
        sha256: package.sha256.clone(),
        size_bytes: package.size_bytes,
    };
    let fetched = Fetched {
        schema: SCHEMA,
        flavour: offer.flavour,
        version: offer.version.clone(),
        source: source_of(offer),
        packages: packages.iter().map(part).collect(),
    };
    let text = format!("{:#}\n", serde_json::json!(fetched));
    Ok(files::write_atomic(&new.join("fetched.json"), text.as_bytes(), 0o644)?)
}

/// The tree is on the disk before its name says that it is complete.
fn sync(folder: &Path) -> Result<(), Error> {
    let opened = fs::File::open(folder).map_err(|source| Error::path("open", folder, source))?;
    rustix::fs::syncfs(&opened).map_err(|errno| Error::path("sync", folder, errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_packages_hold_a_server() {
        assert!(is_versioned("postgresql-15", "postgresql-"));
        assert!(!is_versioned("postgresql-15-pgvector", "postgresql-"));
        assert!(!is_versioned("postgresql-common", "postgresql-"));
        assert!(is_versioned("mariadb-server-core", "mariadb-server-core"));
        assert!(is_versioned("mariadb-server-core-10.5", "mariadb-server-core"));
    }

    #[test]
    fn a_companion_has_the_version_in_its_name_that_the_server_has() {
        for (package, expected) in [("mysql-server-core", ""), ("mysql-server-core-8.0", "-8.0")] {
            let version: Version = "8.0.36".parse().expect("a version");
            let (package, package_version) = (package.to_owned(), "8.0.36-1".to_owned());
            let flavour = Flavour::Mysql;
            let offer = Offer { flavour, version, package, package_version, suite: None, download_bytes: 1 };
            assert_eq!(star(&offer), expected);
        }
    }

    #[test]
    fn which_dependencies_are_unpacked() {
        for yes in ["liburing2", "libssl3", "libicu72", "libllvm14", "libstdc++6", "libldap-2.5-0", "zlib1g"] {
            assert!(is_library(yes), "{yes}");
        }
        for no in
            ["libc6", "libc-l10n", "libpq-dev", "libjson-perl", "ucf", "openssl", "libsasl2-modules", "libperl5.42"]
        {
            assert!(!is_library(no), "{no}");
        }
    }
}
