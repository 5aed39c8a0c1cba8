// SPDX-License-Identifier: Apache-2.0
//! Sizes, times and shares of a machine as people write them and as people read them.
//!
//! Parsing follows one rule everywhere: `K M G T` and `KiB MiB GiB TiB` are powers of 1024, times carry one of
//! `ns us ms s m h`. Printing uses KiB/MiB/GiB and the time unit that keeps three significant digits. JSON carries plain
//! integers with the unit in the key (`p99_us`, `resident_bytes`); experiment files carry the written form.
//!
//! The crate also reads two notations of the kernel: lists of numbers (`0-3,8`) and lines of `/proc/PID/maps`.

mod bytes;
mod counted;
mod limits;
mod maps_line;
mod number_list;
mod span;

pub use bytes::{Bytes, SignedBytes};
pub use counted::counted;
pub use limits::{CpuList, Cpus, Swap};
pub use maps_line::MapsLine;
pub use number_list::{parse_numbers, write_numbers};
pub use span::Span;

/// Why a written size or time was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("'{0}' is not a size: write a number and a unit, such as 512M, 2G or 16KiB")]
    Bytes(String),
    #[error("'{0}' is not a time: write a number and a unit, such as 50us, 10ms, 1.5s or 2m")]
    Span(String),
    #[error("'{0}' is negative: a time or a delay is not")]
    Negative(String),
    #[error("'{0}' has no unit: write one of {1}")]
    NoUnit(String, &'static str),
    #[error("'{0}' is too large")]
    TooLarge(String),
}

/// Splits `"12.5ms"` into the number's text and the unit's text.
fn split_number(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// Multiplies exactly where the number is whole, and through `f64` where it has a fraction.
fn scale(number: &str, factor: u64) -> Option<u64> {
    let number = number.replace('_', "");
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor);
    }
    let value = number.parse::<f64>().ok()? * factor as f64;
    // 2^63 is far above any size or time a host has; beyond it the cast would saturate silently.
    #[allow(clippy::cast_possible_truncation)]
    (value.is_finite() && (0.0..9.2e18).contains(&value)).then(|| value.round() as u64)
}
