// SPDX-License-Identifier: Apache-2.0
//! How values without an SQLite type are stored.

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Value, ValueRef};
use std::io::{Read as _, Write as _};

/// A counter of 64 bits without a sign. SQLite's integers are signed: a value above `i64::MAX` is stored as its decimal text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counter(pub(crate) u64);

impl ToSql for Counter {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = i64::try_from(self.0).map_or_else(|_| Value::Text(self.0.to_string()), Value::Integer);
        Ok(ToSqlOutput::Owned(value))
    }
}

impl FromSql for Counter {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Integer(integer) => {
                u64::try_from(integer).map(Counter).map_err(|_| FromSqlError::OutOfRange(integer))
            }
            ValueRef::Text(text) => std::str::from_utf8(text)
                .ok()
                .and_then(|text| text.parse().ok())
                .map(Counter)
                .ok_or(FromSqlError::InvalidType),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

/// A large text, as a zlib stream of its UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packed(pub(crate) String);

/// The largest size of one unpacked text: a damaged recording must not fill the memory.
const UNPACKED_MOST: u64 = 256 << 20;

impl ToSql for Packed {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        // the fastest level: the caller is in the middle of a measurement
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
        let written = packed.write_all(self.0.as_bytes()).and_then(|()| packed.finish());
        let bytes = written.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        Ok(ToSqlOutput::Owned(Value::Blob(bytes)))
    }
}

impl FromSql for Packed {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let mut text = String::new();
        let unpacked = ZlibDecoder::new(value.as_blob()?).take(UNPACKED_MOST).read_to_string(&mut text);
        unpacked.map_err(FromSqlError::other)?;
        Ok(Self(text))
    }
}

/// A gauge or counter as it was read. SQLite turns NaN into NULL; NULL is read as NaN.
pub(crate) fn value_or_nan(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NAN)
}
