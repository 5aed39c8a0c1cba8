// SPDX-License-Identifier: Apache-2.0
//! Values that can be computed with: sizes, times, numbers.

use crate::path;
use keyfile::{Table, Value};
use units::{Bytes, Span};

/// The unit of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Bytes.
    Size,
    /// Microseconds.
    Time,
    Whole,
    Number,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quantity {
    pub(crate) kind: Kind,
    pub(crate) value: f64,
}

impl Quantity {
    /// `None`: it is neither size nor time nor number. `path`: the key that has the value, because `10m` may be ten minutes, or ten mebibytes.
    pub(crate) fn of(path: &str, value: &Value) -> Option<Self> {
        let text = match value {
            Value::Integer(number) => return Some(Self { kind: Kind::Whole, value: *number as f64 }),
            Value::Float(number) if number.is_finite() => return Some(Self { kind: Kind::Number, value: *number }),
            Value::Text(text) => text,
            _ => return None,
        };
        if let Ok(number) = text.parse::<f64>() {
            let kind = if text.bytes().all(|byte| byte.is_ascii_digit()) { Kind::Whole } else { Kind::Number };
            return number.is_finite().then_some(Self { kind, value: number });
        }
        let size = text.parse::<Bytes>().ok().map(|size| Self { kind: Kind::Size, value: size.0 as f64 });
        let time = text.parse::<Span>().ok().map(|time| Self { kind: Kind::Time, value: time.0.as_secs_f64() * 1e6 });
        let of_time = ["load.", "squeeze.disk.", "observe."].iter().any(|table| path.starts_with(table));
        if of_time { time.or(size) } else { size.or(time) }
    }

    /// The value as it is written for this key; the file's other keys decide how PostgreSQL's options are written. Sizes are rounded down to whole
    /// MiB, small sizes to KiB; times are rounded to microseconds.
    pub(crate) fn written(self, path: &str, file: &Table) -> Value {
        #[allow(clippy::cast_possible_truncation)] // not below 0, and sizes and times of a host
        let whole = |value: f64| value.max(0.0).floor() as u64;
        match self.kind {
            Kind::Size => {
                let [kib, mib] = units_of(path, file);
                let size = whole(self.value);
                Value::Text(match size {
                    size if size >= 16 * Bytes::MIB => format!("{}{mib}", size / Bytes::MIB),
                    size => format!("{}{kib}", size / Bytes::KIB),
                })
            }
            Kind::Time => Value::Text(match whole(self.value.round()) {
                us if us > 0 && us.is_multiple_of(1_000_000) => format!("{}s", us / 1_000_000),
                us if us > 0 && us.is_multiple_of(1000) => format!("{}ms", us / 1000),
                us => format!("{us}us"),
            }),
            #[allow(clippy::cast_possible_truncation)] // saturates; nobody writes such numbers
            Kind::Whole => Value::Integer(self.value.round() as i64),
            Kind::Number => Value::Float((self.value * 1e6).round() / 1e6),
        }
    }
}

/// PostgreSQL's own options spell sizes in another way.
fn units_of(path: &str, file: &Table) -> [&'static str; 2] {
    let flavour = path::find(file, "server.flavour").map(|node| node.value.written());
    match flavour.as_deref() == Some("postgresql") && path.starts_with("server.options.") {
        true => ["kB", "MB"],
        false => ["K", "M"],
    }
}
