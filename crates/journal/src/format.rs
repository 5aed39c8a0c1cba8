// SPDX-License-Identifier: Apache-2.0
//! The bytes of a journal: a header of 64 bytes, then records, then zeros. Numbers are little-endian. This module touches no file.

use crate::{Error, Record};
use serde_json::Value;
use std::path::Path;

/// This release and every later one may undo a journal of this version. The number is raised when an older release would undo the journal wrongly.
pub const FORMAT_VERSION: u32 = 2;

const MAGIC: &[u8; 8] = b"WRINGERJ";
pub(crate) const HEADER_BYTES: usize = 64;
/// The length of the two numbers before the JSON of a record: its length and its checksum.
const FRAME_BYTES: usize = 8;
/// Longer records are not written.
pub(crate) const RECORD_BYTES_MAX: usize = 32 << 10;
/// The bytes that are reserved when a run begins, and again whenever an intent would leave too few of them: the length of a journal is a multiple of
/// this.
pub(crate) const CHUNK_BYTES: u64 = 64 << 10;

/// The header: magic (8), version (4), boot id (36, ASCII), zeros (12), crc32c of the 60 bytes before it (4).
pub(crate) fn header(boot_id: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend(boot_id.bytes().chain(std::iter::repeat(0)).take(36));
    bytes.resize(60, 0);
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Version and boot id. `None`: there is no header, or it is damaged.
pub(crate) fn parse_header(bytes: &[u8]) -> Option<(u32, String)> {
    let header = bytes.get(..HEADER_BYTES)?;
    if !header.starts_with(MAGIC) || crc32c::crc32c(&header[..60]) != number(&header[60..]) {
        return None;
    }
    let boot_id = String::from_utf8_lossy(&header[12..48]).trim_end_matches('\0').to_owned();
    Some((number(&header[8..12]), boot_id))
}

/// A record as bytes: length of the JSON (4), crc32c of length and JSON (4), JSON.
///
/// # Errors
/// The record is too long, or [`decode`] would not read it back unchanged. `path` is for the message.
pub(crate) fn encode(record: &Record, path: &Path) -> Result<Vec<u8>, Error> {
    let unfit = |why: String| Error::Unwritable { path: path.to_owned(), why };
    let json = serde_json::to_string(record).map_err(|error| unfit(error.to_string()))?;
    let length = u32::try_from(json.len()).unwrap_or(u32::MAX).to_le_bytes();
    let crc = crc32c::crc32c_append(crc32c::crc32c(&length), json.as_bytes()).to_le_bytes();
    let bytes = [&length[..], &crc[..], json.as_bytes()].concat();
    match decode(&bytes) {
        Decoded::Known(back, _) if back == *record => Ok(bytes),
        Decoded::Bad if json.len() > RECORD_BYTES_MAX => {
            Err(unfit(format!("it has {} bytes, and the most is {RECORD_BYTES_MAX}", json.len())))
        }
        Decoded::Known(..) | Decoded::Foreign(..) | Decoded::Bad => {
            Err(unfit("it would not be read back as it is".to_owned()))
        }
    }
}

/// The meaning of the bytes at one place of a journal.
#[derive(Debug, PartialEq)]
pub(crate) enum Decoded {
    /// A record, with its length.
    Known(Record, usize),
    /// The checksum is right, but this release does not know everything in the record: the record's kind, and its length.
    Foreign(String, usize),
    /// The bytes are no record.
    Bad,
}

pub(crate) fn decode(bytes: &[u8]) -> Decoded {
    let Some(json) = checked(bytes) else { return Decoded::Bad };
    let length = FRAME_BYTES + json.len();
    let Ok(value) = serde_json::from_slice::<Value>(json) else {
        return Decoded::Foreign("without JSON".to_owned(), length);
    };
    match serde_json::from_value::<Record>(value.clone()) {
        // a record with a key that this release does not read would not be written again unchanged
        Ok(record) if serde_json::to_value(&record).is_ok_and(|again| again == value) => Decoded::Known(record, length),
        _ => Decoded::Foreign(kind(&value), length),
    }
}

/// The JSON after its length and checksum, if both are right.
fn checked(bytes: &[u8]) -> Option<&[u8]> {
    let length = usize::try_from(number(bytes.get(..4)?)).ok()?;
    if !(1..=RECORD_BYTES_MAX).contains(&length) {
        return None;
    }
    let json = bytes.get(FRAME_BYTES..FRAME_BYTES + length).filter(|json| json[0] == b'{')?;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..4]), json);
    (crc == number(&bytes[4..8])).then_some(json)
}

/// The kind of a record for people: `intent (mount)`.
fn kind(value: &Value) -> String {
    let record = value["record"].as_str().unwrap_or("without a kind");
    value["change"]["kind"].as_str().map_or_else(|| record.to_owned(), |change| format!("{record} ({change})"))
}

/// The first place from `at` on with a record, known or foreign.
pub(crate) fn next_record(bytes: &[u8], at: usize) -> Option<usize> {
    (at..bytes.len().saturating_sub(FRAME_BYTES)).find(|&at| checked(&bytes[at..]).is_some())
}

/// The unit of an interrupted write: the machine writes whole sectors of a disk, and a killed process whole pages of memory.
const SECTOR_BYTES: usize = 512;

/// Whether the bytes from `at` on are one record of which at least one sector was not written: a crash can leave the record of the last write like
/// that. A record with a wrong checksum and all its sectors is damaged.
pub(crate) fn is_torn(bytes: &[u8], at: usize) -> bool {
    let tail = &bytes[at..];
    let used = used(tail);
    let first_end = (SECTOR_BYTES - at % SECTOR_BYTES).min(tail.len());
    let begins = tail[..first_end].iter().any(|byte| *byte != 0);
    // a length may cross two sectors, of which only the first was written
    let says_length = begins && first_end >= 4;
    let length = if says_length { usize::try_from(number(tail)).unwrap_or(usize::MAX) } else { RECORD_BYTES_MAX };
    if !(1..=RECORD_BYTES_MAX).contains(&length) || used > FRAME_BYTES + length {
        return false;
    }
    // JSON that is complete cannot be a part of a longer record
    if begins && serde_json::from_slice::<Value>(tail.get(FRAME_BYTES..used).unwrap_or_default()).is_ok() {
        return false;
    }
    let record = &tail[..if says_length { (FRAME_BYTES + length).min(tail.len()) } else { used.max(first_end) }];
    let (first, rest) = record.split_at(first_end.min(record.len()));
    let mut sectors = std::iter::once(first).chain(rest.chunks(SECTOR_BYTES));
    let is_missing = |sector: &[u8]| sector.iter().all(|byte| *byte == 0);
    // the JSON text has no zero bytes
    let is_there = |sector: &[u8]| !sector.contains(&0);
    let first_is_there = first.get(FRAME_BYTES..).is_none_or(is_there);
    let all_or_nothing =
        (is_missing(first) || first_is_there) && rest.chunks(SECTOR_BYTES).all(|it| is_missing(it) || is_there(it));
    let ends_as_text =
        says_length || used.is_multiple_of(SECTOR_BYTES) || tail[..used].ends_with(b"}") || used <= first_end;
    all_or_nothing && ends_as_text && (!says_length || sectors.any(is_missing))
}

/// The length up to the last byte that is not zero.
pub(crate) fn used(bytes: &[u8]) -> usize {
    const ZEROS: [u8; 4096] = [0; 4096];
    let zeros = bytes.rchunks(ZEROS.len()).take_while(|chunk| *chunk == &ZEROS[..chunk.len()]);
    let rest = &bytes[..bytes.len() - zeros.map(<[u8]>::len).sum::<usize>()];
    rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// `at`, rounded up to the begin of a sector.
pub(crate) fn next_sector(at: usize) -> usize {
    at.next_multiple_of(SECTOR_BYTES)
}

pub(crate) fn number(bytes: &[u8]) -> u32 {
    bytes.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}
