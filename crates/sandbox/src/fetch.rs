// SPDX-License-Identifier: Apache-2.0
//! Fetches a server: the distribution's package and the libraries that this machine lacks, unpacked into the cache.

use crate::{Error, Flavour, Installation, Progress, Request, Source, Version};
use host::places::Places;
use std::path::PathBuf;

pub(crate) struct Entry {
    pub(crate) flavour: Flavour,
    pub(crate) tree: PathBuf,
    pub(crate) source: Source,
}

pub struct Offer {
    pub flavour: Flavour,
    pub version: Version,
}

pub fn offers(_flavour: Flavour, _places: &Places, _progress: &mut dyn Progress) -> Result<Vec<Offer>, Error> {
    Ok(Vec::new())
}

pub(crate) fn entries(_places: &Places) -> Vec<Entry> {
    Vec::new()
}

pub(crate) fn fetch(request: &Request, _places: &Places, _progress: &mut dyn Progress) -> Result<Installation, Error> {
    Err(Error::NoPackageClient { flavour: request.flavour, program: "apt-get" })
}
