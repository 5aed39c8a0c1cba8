// SPDX-License-Identifier: Apache-2.0
//! Numbers as `ms_print` writes them.

use crate::massif::TimeUnit;

/// With a comma before each group of three digits, appended to a buffer.
pub(super) fn push_with_commas(number: u64, buffer: &mut Vec<u8>) {
    const MOST: usize = 26;
    let mut digits = [0; MOST];
    let (mut rest, mut at, mut count) = (number, MOST, 0);
    loop {
        if count > 0 && count % 3 == 0 {
            at -= 1;
            digits[at] = b',';
        }
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        (rest, count) = (rest / 10, count + 1);
        if rest == 0 {
            break;
        }
    }
    buffer.extend_from_slice(&digits[at..]);
}

pub(super) fn with_commas(number: u64) -> String {
    let mut buffer = Vec::new();
    push_with_commas(number, &mut buffer);
    buffer.into_iter().map(char::from).collect()
}

/// The end of an axis in five characters, and its unit.
pub(super) fn axis_end(number: u64, unit: TimeUnit) -> (String, &'static str) {
    const INSTRUCTIONS: [&str; 9] = ["i", "ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi"];
    const BYTES: [&str; 9] = ["B", "KB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"];
    let (scaled, unit) = match unit {
        TimeUnit::Instructions => scale(number, &INSTRUCTIONS),
        TimeUnit::Bytes => scale(number, &BYTES),
        TimeUnit::Milliseconds => hours(number),
    };
    let text = match scaled {
        _ if number < 1000 => format!("{number:5}"),
        ..10.0 => format!("{scaled:5.3}"),
        ..100.0 => format!("{scaled:5.2}"),
        _ => format!("{scaled:5.1}"),
    };
    (text, unit)
}

/// The number in a unit: units are 1024 apart, and the next unit is taken from 1000 on.
fn scale(number: u64, units: &[&'static str; 9]) -> (f64, &'static str) {
    let mut scaled = number as f64;
    let mut names = units.iter();
    let mut name = names.next();
    while scaled >= 1000.0 {
        let Some(next) = names.next() else { break };
        (scaled, name) = (scaled / 1024.0, Some(next));
    }
    (scaled, name.copied().unwrap_or_default())
}

fn hours(milliseconds: u64) -> (f64, &'static str) {
    let scaled = milliseconds as f64;
    match scaled {
        ..1000.0 => (scaled, "ms"),
        ..3_600_000.0 => (scaled / 1000.0, "s"),
        _ => (scaled / 1000.0 / 3600.0, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_part_groups_of_three() {
        let numbers = [0, 7, 999, 1000, 12_345, 1_234_567, u64::MAX];
        let written = ["0", "7", "999", "1,000", "12,345", "1,234,567", "18,446,744,073,709,551,615"];
        assert_eq!(numbers.map(with_commas), written);
    }

    #[test]
    fn the_end_of_an_axis_has_five_characters() {
        let bytes = |number| axis_end(number, TimeUnit::Bytes);
        let expected = [
            ("    1", "B"),
            ("  999", "B"),
            ("0.977", "KB"),
            ("1.000", "KB"),
            ("10.00", "KB"),
            ("100.0", "KB"),
            ("0.977", "MB"),
        ];
        let got = [1, 999, 1000, 1024, 10_240, 102_400, 1_024_000].map(bytes);
        assert_eq!(got, expected.map(|(text, unit)| (text.to_owned(), unit)));
        assert_eq!(axis_end(3_600_000, TimeUnit::Milliseconds), ("1.000".into(), "h"));
        assert_eq!(axis_end(2_000_000, TimeUnit::Instructions), ("1.907".into(), "Mi"));
    }
}
