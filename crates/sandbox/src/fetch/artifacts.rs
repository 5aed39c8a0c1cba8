// SPDX-License-Identifier: Apache-2.0
//! Servers that others have put into Maven's repository: whole trees of programs, for tests of Java programs.

use super::archive::root;
use super::cache::{self, Part};
use super::modes::open_to_all;
use super::{Offer, not_offered};
use crate::installation::{trouble, unpacked};
use crate::maven::Maven;
use crate::space::require_cache_space;
use crate::{Error, Flavour, Installation, Progress, Request, Source, Version, tarball};
use capability::{Capability, any_words, first_since, words};
use host::files;
use host::places::Places;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A version that an artifact has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Made {
    flavour: Flavour,
    version: Version,
    artifact: &'static str,
    /// The version as the repository writes it: `18.4.0`, `10.5.0-1`.
    artifact_version: String,
}

/// The space that such an entry takes on the disk: MariaDB 11.4 has 167 MiB of jar, and 350 MiB unpacked.
const NEED_BYTES: u64 = 600 << 20;

pub(super) fn offers(flavour: Flavour, places: &Places, progress: &mut dyn Progress) -> Result<Vec<Offer>, Error> {
    let Some(artifact) = artifact(flavour) else { return Ok(Vec::new()) };
    let maven = Maven::open(flavour, "", places)?;
    let offer = |made: Made| Offer { flavour, source: made.source(), version: made.version };
    Ok(made(flavour, artifact, &maven, progress)?.into_iter().map(offer).collect())
}

pub(super) fn fetch(request: &Request, places: &Places, progress: &mut dyn Progress) -> Result<Installation, Error> {
    let flavour = request.flavour;
    let artifact = artifact(flavour).filter(|_| may_have(request));
    let Some(artifact) = artifact else { return Err(not_offered(request, Vec::new())) };
    let maven = Maven::open(flavour, &request.wanted(), places)?;
    let offers = made(flavour, artifact, &maven, progress)?;
    let Some(offer) = offers.iter().find(|offer| request.is_met_by(&offer.version)) else {
        let offered = newest_of_each_series(&offers).map(|offer| offer.version.to_string());
        return Err(not_offered(request, offered.collect()));
    };
    if let Some(found) = cache::find(flavour, &offer.version, places) {
        return Ok(found);
    }
    progress.doing(&format!("fetch {flavour} {}", offer.version));
    cache::make(places, |new| fill_entry(&maven, offer, new, progress))
}

impl Made {
    fn source(&self) -> Source {
        Source::Artifact { name: self.artifact.into(), version: self.artifact_version.clone() }
    }
}

/// The artifact for this machine's architecture.
fn artifact(flavour: Flavour) -> Option<&'static str> {
    let words = any_words(Capability::Artifact, flavour);
    words
        .iter()
        .filter_map(|word| word.split_once(' '))
        .find(|(arch, _)| *arch == std::env::consts::ARCH)
        .map(|it| it.1)
}

/// Whether the repository must be asked: it is not asked for a version older than all that it has.
fn may_have(request: &Request) -> bool {
    let since = first_since(Capability::Artifact, request.flavour);
    let Some(wanted) = &request.version else { return true };
    since.is_some_and(|since| *wanted >= since.first(wanted.count()))
}

/// The versions of the artifact, newest first; of several builds of one version, the last.
fn made(
    flavour: Flavour,
    artifact: &'static str,
    maven: &Maven,
    progress: &mut dyn Progress,
) -> Result<Vec<Made>, Error> {
    let since = first_since(Capability::Artifact, flavour);
    let mut found: Vec<(Version, u32, Made)> = Vec::new();
    for text in maven.versions(artifact, progress)? {
        let (numbers, build) = text.split_once('-').map_or((text.as_str(), "0"), |(numbers, build)| (numbers, build));
        let (Ok(full), Ok(build)) = (numbers.parse::<Version>(), build.parse::<u32>()) else { continue };
        let count = words(Capability::VersionNumbers, flavour, &full).first().and_then(|word| word.parse().ok());
        let version = full.first(count.unwrap_or(usize::MAX));
        if since.as_ref().is_some_and(|since| version >= *since) {
            found.push((full, build, Made { flavour, version, artifact, artifact_version: text.clone() }));
        }
    }
    found.sort_by(|one, other| (&other.0, other.1).cmp(&(&one.0, one.1)));
    let mut made: Vec<Made> = found.into_iter().map(|(_, _, made)| made).collect();
    made.dedup_by(|one, other| one.version == other.version);
    Ok(made)
}

fn newest_of_each_series(offers: &[Made]) -> impl Iterator<Item = &Made> {
    let is_first = |index: usize, offer: &Made| {
        let series = super::series(offer.flavour, &offer.version);
        !offers[..index].iter().any(|earlier| super::series(earlier.flavour, &earlier.version) == series)
    };
    offers.iter().enumerate().filter(move |(index, offer)| is_first(*index, offer)).map(|(_, offer)| offer)
}

fn fill_entry(
    maven: &Maven,
    offer: &Made,
    new: &Path,
    progress: &mut dyn Progress,
) -> Result<(Installation, Vec<Part>), Error> {
    require_cache_space("a fetched server", new, NEED_BYTES)?;
    let (outer, tree) = (new.join("unpacked"), new.join("tree"));
    files::private_dir(&outer, 0o755)?;
    let jar = maven.unpack(offer.artifact, &offer.artifact_version, &outer, progress)?;
    let outer = match packed_tree(&outer) {
        Some(packed) => {
            progress.doing("unpack");
            let inner = new.join("inner");
            files::private_dir(&inner, 0o755)?;
            let mut file = File::open(&packed).map_err(|source| Error::path("open", &packed, source))?;
            tarball::unpack(&packed, &mut file, &inner, progress)?;
            files::remove_tree(&outer)?;
            inner
        }
        None => outer,
    };
    let unusable = |why: String| Error::Unusable { flavour: offer.flavour, version: offer.version.clone(), why };
    let root = root(&outer).ok_or_else(|| unusable("the artifact holds no server program".into()))?;
    set_run_bits(&root.join("bin"))?;
    files::rename(&root, &tree)?;
    if root != outer {
        files::remove_tree(&outer)?;
    }
    open_to_all(&tree)?;
    let found = unpacked(offer.flavour, &tree, &offer.source());
    let installation = found.ok_or_else(|| unusable(trouble(offer.flavour, &tree)))?;
    let (name, version) = (offer.artifact.to_owned(), offer.artifact_version.clone());
    Ok((installation, vec![Part { name, version, sha256: jar.sha256, size_bytes: jar.size_bytes }]))
}

/// The tar file in the jar that holds the tree, if there is one.
fn packed_tree(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|extension| extension == "txz"))
}

/// Makes the files executable: a jar keeps no modes.
fn set_run_bits(folder: &Path) -> Result<(), Error> {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            files::set_mode(&entry.path(), 0o755)?;
        }
    }
    Ok(())
}
