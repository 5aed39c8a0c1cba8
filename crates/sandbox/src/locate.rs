// SPDX-License-Identifier: Apache-2.0
//! The installation for a request: an installed server, one that was fetched earlier, or one that is fetched now.

use crate::installation::{installed, unpacked};
use crate::{Error, Flavour, Installation, Progress, Request, Source, fetch};
use host::places::Places;

/// A server that meets `request`: an installed one, else one that was fetched earlier, else one that is fetched now.
///
/// # Errors
/// No source has such a version; the package client is missing or fails; the disk is full.
pub fn locate(request: &Request, places: &Places, progress: &mut dyn Progress) -> Result<Installation, Error> {
    match present(request, places) {
        Some(found) => Ok(found),
        None => fetch::fetch(request, places, progress),
    }
}

/// The server that [`locate`] finds without fetching: an installed one, else one that was fetched earlier.
pub fn present(request: &Request, places: &Places) -> Option<Installation> {
    let here = installed(request.flavour).into_iter().chain(fetched(request.flavour, places));
    here.filter(|found| request.is_met_by(&found.version)).max_by_key(Installation::preference)
}

/// The newest fetched server that meets `request` and is newer than `taken`, the installed server that [`locate`] preferred.
pub fn newer_fetched(request: &Request, taken: &Installation, places: &Places) -> Option<Installation> {
    let others = if taken.source == Source::Installed { fetched(request.flavour, places) } else { Vec::new() };
    others.into_iter().find(|other| request.is_met_by(&other.version) && other.version > taken.version)
}

/// The servers of this flavour in Wringer's cache that run, newest first.
pub fn fetched(flavour: Flavour, places: &Places) -> Vec<Installation> {
    let mut found: Vec<Installation> = fetch::entries(places)
        .into_iter()
        .filter(|entry| entry.flavour == flavour)
        .filter_map(|entry| unpacked(flavour, &entry.tree, &entry.source))
        .collect();
    found.sort_by(|one, other| other.version.cmp(&one.version));
    found
}
