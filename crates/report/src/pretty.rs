// SPDX-License-Identifier: Apache-2.0
//! JSON for people and programs: indented, and numbers with a fraction are rounded to the digits that mean something.

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};
use std::io::{self, Write};

/// The digits of a figure: nothing that is measured here is known to one in a million.
const DIGITS: i32 = 6;

/// The digits in front of the point are all kept.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() || value.fract() == 0.0 {
        return value;
    }
    #[allow(clippy::cast_possible_truncation)] // from -324 to 309
    let before_point = value.abs().log10().floor() as i32 + 1;
    let decimals = (DIGITS - before_point).max(0);
    // through text: text is exact where a power of ten is not
    let text = format!("{value:.*}", usize::try_from(decimals).unwrap_or(0));
    text.parse().unwrap_or(value)
}

/// [`PrettyFormatter`], with numbers rounded.
#[derive(Default)]
struct Rounding<'a>(PrettyFormatter<'a>);

impl Formatter for Rounding<'_> {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        self.0.write_f64(writer, rounded(value))
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

/// # Errors
/// The writer's errors, or a value that JSON cannot express.
pub fn write_pretty(writer: impl Write, value: &impl Serialize) -> serde_json::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(writer, Rounding::default()))
}

/// The same as text, without a newline at its end.
///
/// # Errors
/// A value that JSON cannot express.
pub fn pretty(value: &impl Serialize) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    write_pretty(&mut bytes, value)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn six_digits_and_the_whole_part_as_it_is() {
        for (value, shown) in [
            (9_685.302_345_234, "9685.3"),
            (0.1 + 0.2, "0.3"),
            (0.000_012_345_678, "0.0000123457"),
            (-1.234_567_89, "-1.23457"),
            (17_179_869_184.0, "17179869184.0"),
            (17_179_869_184.25, "17179869184.0"),
            (1e300, "1e300"),
            (0.0, "0.0"),
        ] {
            let text = pretty(&json!([value])).unwrap();
            let number = text.trim_start_matches("[\n  ").trim_end_matches("\n]").to_owned();
            assert_eq!(number.parse::<f64>().unwrap(), shown.parse::<f64>().unwrap(), "{text}");
            assert!(number.len() <= shown.len() + 1, "{number} for {shown}");
        }
    }

    #[test]
    fn all_else_is_as_serde_json_has_it() {
        let value =
            json!({"a": [1, 2, {"b": null}], "c": "text\n", "d": {}, "e": [], "f": 18_446_744_073_709_551_615u64});
        assert_eq!(pretty(&value).unwrap(), serde_json::to_string_pretty(&value).unwrap());
    }
}
