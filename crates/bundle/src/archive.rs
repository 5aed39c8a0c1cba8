// SPDX-License-Identifier: Apache-2.0
//! tar and gzip, in memory.

use crate::{Error, Files};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use std::io::{self, Read};
use tar::{Archive, Builder, EntryType, Header};

/// A server with a thousand processes needs far less than this.
const BYTES_MOST: u64 = 1 << 30;
/// The first bytes of gzip: RFC 1952.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Whether these bytes begin with the first bytes of an archive.
pub fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&GZIP)
}

/// The files as `.tar.gz`; only the owner may read each of them. `at_unix_s`: the time of change that each file gets.
///
/// # Errors
/// [`Error::Packing`]: a path is too long.
pub fn pack(files: &Files, at_unix_s: u64) -> Result<Vec<u8>, Error> {
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for (path, content) in files {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(at_unix_s);
        archive.append_data(&mut header, path, content.as_slice()).map_err(Error::Packing)?;
    }
    archive.into_inner().and_then(GzEncoder::finish).map_err(Error::Packing)
}

/// The files of a `.tar.gz`. It is read to its end, because only there gzip tells whether all of it is right.
///
/// # Errors
/// [`Error::Damaged`]; [`Error::TooLarge`].
pub fn unpack(bytes: &[u8]) -> Result<Files, Error> {
    let mut plain = Vec::new();
    let mut decoder = GzDecoder::new(bytes).take(BYTES_MOST + 1);
    decoder.read_to_end(&mut plain).map_err(|error| damaged(&error))?;
    if plain.len() as u64 > BYTES_MOST {
        return Err(Error::TooLarge(BYTES_MOST));
    }
    entries(&plain).map_err(|error| damaged(&error))
}

fn entries(plain: &[u8]) -> io::Result<Files> {
    let mut files = Files::new();
    for entry in Archive::new(plain).entries()? {
        let mut entry = entry?;
        if entry.header().entry_type() != EntryType::Regular {
            continue;
        }
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        // the header of a damaged archive may name any length, so no memory is reserved by it
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        files.insert(path, content);
    }
    Ok(files)
}

fn damaged(error: &io::Error) -> Error {
    let why = match error.kind() {
        io::ErrorKind::UnexpectedEof => "it is cut short".to_owned(),
        _ => error.to_string(),
    };
    Error::Damaged(why)
}
