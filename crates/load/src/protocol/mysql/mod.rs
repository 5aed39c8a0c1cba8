// SPDX-License-Identifier: Apache-2.0
//! The MySQL client protocol, as MariaDB, MySQL and Percona Server speak it ("Client/Server Protocol" in their manuals):
//! packets of a three-byte length, a sequence number and a payload.
//!
//! Used where the server offers it: results without intermediate EOF packets (`CLIENT_DEPRECATE_EOF`, MySQL 5.7 and MariaDB
//! 10.2), and column descriptions sent only when they change (`MARIADB_CLIENT_CACHE_METADATA`, MariaDB 10.6; sysbench's client
//! library uses that too). A payload of 16 MiB or more comes in several packets.

mod login;
mod session;

pub use session::Session;

use crate::protocol::{Broken, Code};

const HEADER_BYTES: usize = 4;
/// A payload of this length continues in the next packet.
const PAYLOAD_BYTES_MAX: usize = 0xff_ffff;
/// The longest payload that this client takes, in however many packets it comes: the most that a server's `max_allowed_packet` can be.
const WHOLE_BYTES_MAX: u32 = 1 << 30;
/// Status flags of OK and EOF packets.
const STATUS_IN_TRANSACTION: u16 = 0x0001;
const STATUS_MORE_RESULTS: u16 = 0x0008;

/// The first whole packet in `bytes`: sequence number and payload. `None` when it is not complete yet.
#[inline]
fn packet(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let &[a, b, c, sequence] = bytes.first_chunk::<HEADER_BYTES>()?;
    let length = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
    bytes.get(HEADER_BYTES..HEADER_BYTES + length).map(|payload| (sequence, payload))
}

/// Appends a packet; `write` appends its payload. A payload that is too long for one packet is split.
#[inline]
fn write_packet(sequence: u8, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, sequence]);
    write(out);
    let length = out.len() - start - HEADER_BYTES;
    if length < PAYLOAD_BYTES_MAX {
        let [a, b, c, ..] = length.to_le_bytes();
        out[start..start + 3].copy_from_slice(&[a, b, c]);
    } else {
        let payload = out.split_off(start + HEADER_BYTES);
        out.truncate(start);
        write_split(sequence, &payload, out);
    }
}

fn write_split(mut sequence: u8, payload: &[u8], out: &mut Vec<u8>) {
    let mut pieces: Vec<&[u8]> = payload.chunks(PAYLOAD_BYTES_MAX).collect();
    if payload.len().is_multiple_of(PAYLOAD_BYTES_MAX) {
        pieces.push(&[]);
    }
    for piece in pieces {
        let [a, b, c, ..] = piece.len().to_le_bytes();
        out.extend_from_slice(&[a, b, c, sequence]);
        out.extend_from_slice(piece);
        sequence = sequence.wrapping_add(1);
    }
}

/// A length-encoded integer and how many bytes it takes. `None` for NULL (0xfb), 0xff, or too few bytes.
#[inline]
fn length_encoded(bytes: &[u8]) -> Option<(u64, usize)> {
    let wide = |n: usize| {
        let mut value = [0; 8];
        value[..n].copy_from_slice(bytes.get(1..=n)?);
        Some((u64::from_le_bytes(value), n + 1))
    };
    match *bytes.first()? {
        small @ 0..=0xfa => Some((u64::from(small), 1)),
        0xfc => wide(2),
        0xfd => wide(3),
        0xfe => wide(8),
        _ => None,
    }
}

/// The string after a length-encoded length, and the bytes after the string.
fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, skip) = length_encoded(bytes)?;
    bytes.get(skip..)?.split_at_checked(usize::try_from(length).ok()?)
}

/// The values of a row of the text protocol; a truncated row ends early.
pub fn text_values(mut raw: &[u8]) -> Vec<Option<&[u8]>> {
    let mut values = Vec::new();
    while let Some(&first) = raw.first() {
        if first == 0xfb {
            values.push(None);
            raw = &raw[1..];
        } else if let Some((value, rest)) = string(raw) {
            values.push(Some(value));
            raw = rest;
        } else {
            break;
        }
    }
    values
}

/// The fields that OK packets have in common: rows changed and status flags. `payload` starts with the header byte.
fn ok_fields(payload: &[u8]) -> Option<(u64, u16)> {
    let (affected, a) = length_encoded(payload.get(1..)?)?;
    let (_insert_id, b) = length_encoded(payload.get(1 + a..)?)?;
    let status = payload.get(1 + a + b..)?.first_chunk::<2>()?;
    Some((affected, u16::from_le_bytes(*status)))
}

/// Code and text of an ERR packet. Before the login is over there is no SQLSTATE after `#`.
fn error_fields(payload: &[u8]) -> Result<(Code, String), Broken> {
    let number = payload.get(1..3).ok_or_else(|| Broken::Malformed("a short error packet".into()))?;
    let text = &payload[3..];
    let text = if text.first() == Some(&b'#') { text.get(6..).unwrap_or_default() } else { text };
    Ok((Code::Number(u16::from_le_bytes([number[0], number[1]])), String::from_utf8_lossy(text).into_owned()))
}
