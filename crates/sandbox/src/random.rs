// SPDX-License-Identifier: Apache-2.0
//! Names and passwords that nobody can guess.

use crate::Error;
use std::fs::File;
use std::io::Read as _;

/// 128 random bits, as 32 hexadecimal digits.
pub(crate) fn hex() -> Result<String, Error> {
    let mut bytes = [0_u8; 16];
    let path = "/dev/urandom";
    File::open(path)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|source| Error::path("read", path, source))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
