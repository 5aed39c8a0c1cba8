// SPDX-License-Identifier: Apache-2.0
//! Finds a pgBouncer program for this machine.

use super::program::{PoolerProgram, installed};
use crate::{Error, Progress, fetch};
use host::places::Places;

/// The program that [`locate`] finds without fetching.
pub fn present(places: &Places) -> Option<PoolerProgram> {
    installed().or_else(|| fetch::fetched_pooler(places))
}

/// An installed program, else one that was fetched earlier, else the distribution's package, which is fetched now.
///
/// # Errors
/// [`Error::NoPooler`]: no source has it; the package client fails; the disk is full.
pub fn locate(places: &Places, progress: &mut dyn Progress) -> Result<PoolerProgram, Error> {
    match installed() {
        Some(found) => Ok(found),
        None => fetch::pooler(places, progress),
    }
}
