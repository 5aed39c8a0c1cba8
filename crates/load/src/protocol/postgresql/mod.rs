// SPDX-License-Identifier: Apache-2.0
//! The PostgreSQL frontend/backend protocol, version 3.0 ("Frontend/Backend Protocol" in its manual): a type byte, a length,
//! a body.
//!
//! A prepared statement is run by Bind, Execute and Sync in one flight. Parameters go in binary form where the server declared
//! them as integers, as text otherwise; results come as text.

mod login;
mod session;

pub use session::Session;

use crate::protocol::{Broken, Code};

/// Type byte and length; the length counts itself but not the type byte.
const HEADER_BYTES: usize = 5;
/// A longer message means that this client has lost its position in the stream.
const BODY_BYTES_MAX: usize = 1 << 30;

/// The first whole message in `bytes`: type and body. `None` when it is not complete yet.
#[inline]
fn message(bytes: &[u8]) -> Result<Option<(u8, &[u8])>, Broken> {
    let Some(&[tag, a, b, c, d]) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if !(4..BODY_BYTES_MAX).contains(&length) {
        return Err(Broken::Malformed(format!("a message of {length} bytes")));
    }
    Ok(bytes.get(HEADER_BYTES..length + 1).map(|body| (tag, body)))
}

/// Appends a message; `write` appends its body.
#[inline]
fn write_message(tag: u8, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[tag, 0, 0, 0, 0]);
    write(out);
    let length = u32::try_from(out.len() - start - 1).unwrap_or(u32::MAX).to_be_bytes();
    out[start + 1..start + HEADER_BYTES].copy_from_slice(&length);
}

/// The values of a DataRow; a truncated row ends early.
pub fn values(raw: &[u8]) -> Vec<Option<&[u8]>> {
    let mut values = Vec::new();
    let Some(mut rest) = raw.get(2..) else { return values };
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            values.push(None);
            rest = after;
            continue;
        };
        let Some((value, after)) = after.split_at_checked(length) else { break };
        values.push(Some(value));
        rest = after;
    }
    values
}

/// An ErrorResponse or a NoticeResponse.
struct Said {
    state: [u8; 5],
    text: String,
    /// The server closes the connection after it.
    is_last: bool,
}

impl Said {
    fn code(&self) -> Code {
        Code::State(self.state)
    }
}

/// The server shuts down, or ends this connection (57P01 to 57P05); after a crash a backend reports that in a notice.
const HANGS_UP: &[u8] = b"57P0";

/// Fields of a type byte and a zero-terminated string. `V` is the severity like `S`, but never translated (since 9.6).
fn said(body: &[u8]) -> Said {
    let (mut state, mut text, mut severity) = (*b"XX000", String::new(), &b""[..]);
    for field in body.split(|byte| *byte == 0) {
        match field.split_first() {
            Some((b'C', code)) => state = code.first_chunk().copied().unwrap_or(state),
            Some((b'M', message)) => text = String::from_utf8_lossy(message).into_owned(),
            Some((b'V', word)) => severity = word,
            Some((b'S', word)) if severity.is_empty() => severity = word,
            _ => {}
        }
    }
    Said { state, text, is_last: matches!(severity, b"FATAL" | b"PANIC") || state.starts_with(HANGS_UP) }
}

/// The count at the end of a CommandComplete tag: `INSERT 0 5`, `UPDATE 3`; 0 for `BEGIN`.
fn affected(body: &[u8]) -> u64 {
    let text = body.split(|byte| *byte == 0).next().unwrap_or_default();
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    text[text.len() - digits..]
        .iter()
        .fold(0, |sum: u64, digit| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
}
