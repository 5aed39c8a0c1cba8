// SPDX-License-Identifier: Apache-2.0
//! SHA-256 of files, as hexadecimal digits.

use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;

/// # Errors
/// The file cannot be read.
pub fn sha256(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut reader = BufReader::with_capacity(1 << 20, File::open(path)?);
    loop {
        let bytes = reader.fill_buf()?;
        let count = bytes.len();
        if count == 0 {
            return Ok(in_hex(&hash.finalize()));
        }
        hash.update(bytes);
        reader.consume(count);
    }
}

pub(crate) fn in_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
