// SPDX-License-Identifier: Apache-2.0
//! Fetches a server into the cache: the distribution's package, a package of another suite, or an artifact of Maven's repository; or unpacks an
//! archive that the user has. The sources are asked in this order; from a source, the newest version that fits is taken.

mod archive;
mod artifacts;
mod cache;
mod checksums;
mod mallocs;
mod modes;
mod packages;
mod pooler;

pub use archive::{Archive, unpack};
pub(crate) use cache::entries;
pub(crate) use mallocs::{fetched_malloc, folders_of_malloc, malloc};
pub(crate) use pooler::{fetched_pooler, pooler};

use crate::installation::trouble;
use crate::{Error, Flavour, Installation, Progress, Request, Source, Version};
use capability::{Capability, words};
use host::places::Places;
use std::path::Path;

/// A version that can be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub flavour: Flavour,
    pub version: Version,
    pub source: Source,
}

/// The versions that can be fetched, newest first within each source; and why a source could not be asked.
pub fn offers(flavour: Flavour, places: &Places, progress: &mut dyn Progress) -> (Vec<Offer>, Vec<Error>) {
    let _lock = match cache::lock(places) {
        Ok(lock) => lock,
        Err(error) => return (Vec::new(), vec![error]),
    };
    let (mut found, mut troubles) = (Vec::new(), Vec::new());
    for offers in [packages::offers(flavour, places, progress), artifacts::offers(flavour, places, progress)] {
        match offers {
            Ok(offers) => found.extend(offers),
            Err(error) => troubles.push(error),
        }
    }
    (found, troubles)
}

/// Fetches the newest version that meets `request` from the first source that has one. Only a source knows which version is the newest. When
/// `request` names a whole version and the cache has that version, no source is asked.
///
/// # Errors
/// [`Error::NotOffered`]; [`Error::NoPackageClient`], [`Error::NoArtifactClient`], [`Error::SuiteUnreachable`], [`Error::ListsUnreachable`],
/// [`Error::RepositoryUnreachable`] when a source that could have the version cannot be asked; [`Error::DiskFull`], [`Error::NoExecution`];
/// [`Error::Program`] with a client's words; [`Error::Unusable`] when the server does not run on this machine.
pub fn fetch(request: &Request, places: &Places, progress: &mut dyn Progress) -> Result<Installation, Error> {
    let _lock = cache::lock(places)?;
    if let Some(wanted) = &request.version
        && let Some(found) = cache::find(request.flavour, wanted, places)
    {
        return Ok(found);
    }
    let (mut offered, mut trouble) = (Vec::new(), None);
    for from in [packages::fetch, artifacts::fetch] {
        match from(request, places, progress) {
            Err(Error::NotOffered { offered: here, .. }) => offered.extend(here),
            Err(error) if error.is_absent_source() => trouble = trouble.or(Some(error)),
            done => return done,
        }
    }
    Err(trouble.unwrap_or_else(|| not_offered(request, offered)))
}

/// The series to which a version belongs: for PostgreSQL one number, for the others two.
fn series(flavour: Flavour, version: &Version) -> Version {
    let count = words(Capability::SeriesNumbers, flavour, version).first().and_then(|word| word.parse().ok());
    version.first(count.unwrap_or(1))
}

/// The newest version of each series of each source, among the versions that can be fetched.
pub fn newest(offers: &[Offer]) -> Vec<&Offer> {
    let kind = |offer: &Offer| (std::mem::discriminant(&offer.source), series(offer.flavour, &offer.version));
    let is_first = |index: usize, offer: &Offer| !offers[..index].iter().any(|earlier| kind(earlier) == kind(offer));
    offers.iter().enumerate().filter(|(index, offer)| is_first(*index, offer)).map(|(_, offer)| offer).collect()
}

fn not_offered(request: &Request, offered: Vec<String>) -> Error {
    Error::NotOffered { flavour: request.flavour, wanted: request.wanted(), offered }
}

fn unusable(fetched: &cache::Fetched, tree: &Path) -> Error {
    let (flavour, version) = (fetched.flavour, fetched.version.clone());
    Error::Unusable { flavour, version, why: trouble(flavour, tree) }
}
