// SPDX-License-Identifier: Apache-2.0
//! How much all kept directories together may take on the disk.

use crate::Error;
use crate::copying::free_bytes;
use std::path::Path;
use units::Bytes;

/// The environment variable for another limit: a size, such as `40G`. `0`: nothing is kept, and no kept directory is used.
pub const LIMIT_VARIABLE: &str = "WRINGER_FILLS_LIMIT";

/// The most that is kept when the user sets no limit; on a small disk [`PART_OF_FREE`] gives less.
const DEFAULT_BYTES: u64 = 20 << 30;
/// When the user sets no limit: the free space, counted as if nothing were kept, is divided by this number.
const PART_OF_FREE: u64 = 10;

/// The limit that the user sets. `None`: none is set.
pub(crate) fn asked() -> Result<Option<u64>, Error> {
    let Some(value) = std::env::var_os(LIMIT_VARIABLE).filter(|value| !value.is_empty()) else { return Ok(None) };
    let value = value.to_string_lossy().into_owned();
    let bytes: Result<Bytes, _> = value.trim().parse();
    match bytes {
        Ok(bytes) => Ok(Some(bytes.0)),
        Err(error) => Err(Error::Limit { variable: LIMIT_VARIABLE, value, why: error.to_string() }),
    }
}

/// The limit for the disk of `folder`, in which the entries take `kept_bytes` now.
pub(crate) fn bytes(asked: Option<u64>, folder: &Path, kept_bytes: u64) -> Result<u64, Error> {
    let by_disk = || Ok(free_bytes(folder)?.saturating_add(kept_bytes) / PART_OF_FREE);
    asked.map_or_else(|| by_disk().map(|part: u64| part.min(DEFAULT_BYTES)), Ok)
}
