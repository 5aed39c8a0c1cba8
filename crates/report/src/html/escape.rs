// SPDX-License-Identifier: Apache-2.0
//! The two places where text of the recording may stand in the page, and how that text is made harmless there.

use serde_json::{Number, Value};
use std::fmt;

/// Text, in an element or in a quoted attribute.
pub(crate) struct Text<T>(pub T);

impl<T: AsRef<str>> fmt::Display for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.as_ref().chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // control characters have no place in HTML
                c if c.is_control() && c != '\n' && c != '\t' => f.write_str("\u{fffd}")?,
                c => fmt::Write::write_char(f, c)?,
            }
        }
        Ok(())
    }
}

/// JSON inside a script: no text in it can end the script or open a comment.
pub(crate) struct Json<'a>(pub &'a Value);

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in plain(self.0).to_string().chars() {
            match c {
                '<' => f.write_str("\\u003c")?,
                '>' => f.write_str("\\u003e")?,
                '&' => f.write_str("\\u0026")?,
                '\u{2028}' => f.write_str("\\u2028")?,
                '\u{2029}' => f.write_str("\\u2029")?,
                c => fmt::Write::write_char(f, c)?,
            }
        }
        Ok(())
    }
}

/// Whole numbers without their `.0`: a third of the page's data is zeros and counts, and the browser reads both forms alike.
fn plain(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), plain(value))).collect(),
        Value::Number(number) => whole(number).map_or_else(|| value.clone(), Value::from),
        other => other.clone(),
    }
}

/// `None`: the number has a fraction, or is so large that not every whole number has a double of its own.
fn whole(number: &Number) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let value = number.as_f64().filter(|value| number.is_f64() && value.fract() == 0.0 && value.abs() < EXACT)?;
    #[allow(clippy::cast_possible_truncation)] // it is whole, and fits
    Some(value as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_short_and_mean_the_same() {
        let value = serde_json::json!({ "a": [7.0, 0.5, -3.0, 1e300, 12], "b": { "c": 0.0 } });
        assert_eq!(Json(&value).to_string(), r#"{"a":[7,0.5,-3,1e+300,12],"b":{"c":0}}"#);
    }

    #[test]
    fn a_script_cannot_be_ended_from_inside() {
        let value = serde_json::json!({ "</script><!--": "a & b\u{2028}" });
        let written = Json(&value).to_string();
        assert!(!written.contains(['<', '>', '&', '\u{2028}']));
        assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), value);
    }

    #[test]
    fn text_is_text_in_elements_and_attributes() {
        assert_eq!(Text("<b a=\"x\" c='y'>&\u{0}").to_string(), "&lt;b a=&quot;x&quot; c=&#39;y&#39;&gt;&amp;\u{fffd}");
    }
}
