// SPDX-License-Identifier: Apache-2.0
//! Servers from the distribution: its package, or a package of another suite, and the libraries that this machine lacks.

use super::cache::{self, Part};
use super::{Offer, not_offered};
use crate::apt::{Age, Apt, Package};
use crate::installation::{trouble, unpacked};
use crate::space::require_cache_space;
use crate::{Error, Flavour, Installation, Progress, Request, Source, Version, suite};
use capability::{Capability, any_words, words};
use host::files;
use host::places::Places;
use std::path::{Path, PathBuf};

/// A version that a suite has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Packaged {
    flavour: Flavour,
    version: Version,
    package: String,
    package_version: String,
    /// The suite of the machine's archive, when it is not the machine's own suite.
    suite: Option<String>,
}

impl Packaged {
    fn source(&self) -> Source {
        let (name, version, suite) = (self.package.clone(), self.package_version.clone(), self.suite.clone());
        Source::Package { name, version, suite }
    }
}

/// The versions in the machine's own suite, or, if it has none, in the suite that the catalogue names.
pub(super) fn offers(flavour: Flavour, places: &Places, progress: &mut dyn Progress) -> Result<Vec<Offer>, Error> {
    if any_words(Capability::ServerPackage, flavour).is_empty() {
        return Ok(Vec::new());
    }
    let apt = Apt::open(flavour, places)?;
    update(&apt, flavour, Age::Hours, progress)?;
    let mut found = offers_in(&apt, flavour);
    apt.drop_indexes()?;
    if found.as_ref().is_ok_and(Vec::is_empty)
        && let Some(other) = other_suite(&apt, flavour, progress)?
    {
        found = offers_in(&other, flavour);
        other.drop_indexes()?;
    }
    let offer = |one: Packaged| Offer { flavour, source: one.source(), version: one.version };
    Ok(found?.into_iter().map(offer).collect())
}

pub(super) fn fetch(request: &Request, places: &Places, progress: &mut dyn Progress) -> Result<Installation, Error> {
    if any_words(Capability::ServerPackage, request.flavour).is_empty() {
        return Err(not_offered(request, Vec::new()));
    }
    let apt = Apt::open(request.flavour, places)?;
    update(&apt, request.flavour, Age::Hours, progress)?;
    let has_other = !any_words(Capability::OtherSuite, request.flavour).is_empty();
    match fetch_twice(&apt, request, places, !has_other, progress) {
        Err(error @ Error::NotOffered { .. }) if has_other => {
            let other = other_suite(&apt, request.flavour, progress)?.ok_or(error)?;
            fetch_twice(&other, request, places, true, progress)
        }
        done => done,
    }
}

/// Fetches, and tries once more with new lists when the archive may have changed since the lists were read.
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
        failed if outdated && update(apt, request.flavour, Age::Minutes, progress)? => {
            drop(failed);
            fetch_with(apt, request, places, progress)
        }
        other => other,
    };
    apt.drop_indexes()?;
    fetched
}

/// The client for the other suite, with the lists of that suite; `None` for this flavour or machine.
fn other_suite(machine: &Apt, flavour: Flavour, progress: &mut dyn Progress) -> Result<Option<Apt>, Error> {
    let Some(other) = suite::open(machine, flavour)? else { return Ok(None) };
    update(&other, flavour, Age::Hours, progress)?;
    Ok(Some(other))
}

/// Refreshes the lists. A suite that cannot be read is a source that is absent: another source may have the server.
fn update(apt: &Apt, flavour: Flavour, most: Age, progress: &mut dyn Progress) -> Result<bool, Error> {
    apt.update(most, progress).map_err(|error| unreachable(error, flavour, apt.suite.as_ref()))
}

fn unreachable(error: Error, flavour: Flavour, suite: Option<&String>) -> Error {
    match (error, suite) {
        (Error::Program { log, .. }, None) => Error::ListsUnreachable { flavour, log },
        (Error::Program { log, .. }, Some(suite)) => Error::SuiteUnreachable { flavour, suite: suite.clone(), log },
        (other, _) => other,
    }
}

fn offers_in(apt: &Apt, flavour: Flavour) -> Result<Vec<Packaged>, Error> {
    let mut packages = Vec::new();
    for pattern in any_words(Capability::ServerPackage, flavour) {
        let prefix = pattern.trim_end_matches('*');
        packages.extend(apt.names(prefix)?.into_iter().filter(|name| is_versioned(name, prefix)));
    }
    let found = if packages.is_empty() { Vec::new() } else { apt.versions(&packages)? };
    let offers = found.into_iter().filter_map(|package| offer(apt.suite.as_deref(), flavour, package));
    Ok(newest_first(offers.collect()))
}

/// Of the builds of one version the client lists the newest first, and that order stays.
fn newest_first(mut offers: Vec<Packaged>) -> Vec<Packaged> {
    offers.sort_by(|one, other| other.version.cmp(&one.version));
    offers.dedup_by(|one, other| one.package == other.package && one.package_version == other.package_version);
    offers
}

/// Whether the star in `prefix*` stands for a version, or for nothing.
fn is_versioned(name: &str, prefix: &str) -> bool {
    let rest = name.strip_prefix(prefix).map(|rest| rest.trim_start_matches('-'));
    rest.is_some_and(|rest| {
        rest.chars().all(|c| c.is_ascii_digit() || c == '.') && (!rest.is_empty() || !prefix.ends_with('-'))
    })
}

fn offer(suite: Option<&str>, flavour: Flavour, package: Package) -> Option<Packaged> {
    Some(Packaged {
        flavour,
        version: Version::of_package(&package.version)?,
        package: package.name,
        package_version: package.version,
        suite: suite.map(str::to_owned),
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
        let mut offered: Vec<String> = offers.iter().map(|offer| offer.version.to_string()).collect();
        offered.dedup();
        return Err(not_offered(request, offered));
    };
    if let Some(found) = cache::find(offer.flavour, &offer.version, places) {
        return Ok(found);
    }
    progress.doing(&format!("fetch {} {}", offer.flavour, offer.version));
    let packages = packages_for(apt, offer)?;
    cache::make(places, |new| fill_entry(apt, offer, &packages, new, progress))
}

/// The server's package, its companion packages, and the libraries that this machine lacks. Other dependencies are only needed for an installation:
/// users, services, configuration.
fn packages_for(apt: &Apt, offer: &Packaged) -> Result<Vec<Package>, Error> {
    let major = offer.version.major().to_string();
    let mut wanted = vec![format!("{}={}", offer.package, offer.package_version)];
    for word in words(Capability::CompanionPackage, offer.flavour, &offer.version) {
        let word = word.replace("{major}", &major).replace("{star}", star(offer));
        wanted.push(format!("{word}={}", offer.package_version));
    }
    with_libraries(apt, wanted)
}

/// These packages, written `name=version`, with the libraries that they need and this machine lacks.
pub(super) fn with_libraries(apt: &Apt, mut wanted: Vec<String>) -> Result<Vec<Package>, Error> {
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

/// The text for which the star in the pattern of this offer's package stands.
fn star(offer: &Packaged) -> &str {
    let patterns = any_words(Capability::ServerPackage, offer.flavour);
    let rest = |pattern: &&str| offer.package.strip_prefix(pattern.trim_end_matches('*'));
    patterns.iter().find_map(rest).unwrap_or_default()
}

fn is_library(name: &str) -> bool {
    let others = ["-dev", "-perl", "-doc", "-dbg", "-common", "-data", "-bin", "-modules"];
    (name.starts_with("lib") || name == "zlib1g")
        && !is_c_library(name)
        && (!name.starts_with("libc-") || name.starts_with("libc-ares"))
        && !name.starts_with("libperl")
        && !others.iter().any(|end| name.ends_with(end))
}

/// Whether the package is the C library. A second C library beside the machine's own only works with its own dynamic loader; the servers of other
/// suites have that loader.
fn is_c_library(name: &str) -> bool {
    name == "libc6"
}

/// Downloads packages and unpacks them below `new`; returns the folder of their files. Refused if the disk has no room for them and for `spare_bytes`
/// more.
pub(super) fn unpack(
    apt: &Apt,
    packages: &[Package],
    new: &Path,
    what: &'static str,
    spare_bytes: u64,
    progress: &mut dyn Progress,
) -> Result<PathBuf, Error> {
    let need_bytes = packages.iter().map(|package| package.size_bytes + package.unpacked_bytes).sum::<u64>();
    require_cache_space(what, new, need_bytes + spare_bytes)?;
    let (archive, tree) = (new.join("packages"), new.join("tree"));
    files::private_dir(&archive, 0o755)?;
    files::private_dir(&tree, 0o755)?;
    apt.download(packages, &archive, progress)?;
    progress.doing("unpack");
    for package in packages {
        apt.unpack(package, &archive, &tree)?;
    }
    files::remove_tree(&archive)?;
    Ok(tree)
}

fn fill_entry(
    apt: &Apt,
    offer: &Packaged,
    packages: &[Package],
    new: &Path,
    progress: &mut dyn Progress,
) -> Result<(Installation, Vec<Part>), Error> {
    let tree = unpack(apt, packages, new, "a fetched server", 16 << 20, progress)?;
    let installation = unpacked(offer.flavour, &tree, &offer.source()).ok_or_else(|| Error::Unusable {
        flavour: offer.flavour,
        version: offer.version.clone(),
        why: trouble(offer.flavour, &tree),
    })?;
    Ok((installation, packages.iter().map(Part::of).collect()))
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
            let offer = Packaged { flavour, version, package, package_version, suite: None };
            assert_eq!(star(&offer), expected);
        }
    }

    #[test]
    fn of_two_builds_of_one_version_the_newer_is_taken() {
        let build = |package_version: &str| Package {
            name: "mariadb-server-core".into(),
            version: package_version.into(),
            sha256: String::new(),
            size_bytes: 0,
            unpacked_bytes: 0,
        };
        let listed = ["1:10.11.6-0+deb12u10", "1:10.11.6-0+deb12u9", "1:10.11.6-0+deb12u9", "1:10.11.14-0+deb12u1"];
        let offers = listed.map(|version| offer(None, Flavour::Mariadb, build(version)).expect("has a version"));
        let sorted = newest_first(offers.into());
        let sorted: Vec<&str> = sorted.iter().map(|offer| offer.package_version.as_str()).collect();
        assert_eq!(sorted, [listed[3], listed[0], listed[1]]);
    }

    #[test]
    fn another_source_is_asked_where_the_lists_cannot_be_read() {
        let failed = || {
            let (program, status) = ("apt-get".to_owned(), "exit status: 100".to_owned());
            Error::Program { program, doing: "reading the package lists", status, log: vec!["E: no such host".into()] }
        };
        for suite in [None, Some("sid".to_owned())] {
            let error = unreachable(failed(), Flavour::Mariadb, suite.as_ref());
            assert!(error.is_absent_source() && error.is_missing(), "{error}");
            assert!(error.to_string().ends_with("no such host"), "{error}");
        }
        assert!(matches!(unreachable(Error::Interrupted, Flavour::Mariadb, None), Error::Interrupted));
    }

    #[test]
    fn which_dependencies_are_unpacked() {
        for yes in
            ["liburing2", "libssl3", "libicu72", "libllvm14", "libstdc++6", "libldap-2.5-0", "libc-ares2", "zlib1g"]
        {
            assert!(is_library(yes), "{yes}");
        }
        for no in
            ["libc6", "libc-l10n", "libpq-dev", "libjson-perl", "ucf", "openssl", "libsasl2-modules", "libperl5.42"]
        {
            assert!(!is_library(no), "{no}");
        }
    }
}
