// SPDX-License-Identifier: Apache-2.0
//! Sentences in lines that are no longer than a width.

use std::fmt::Write as _;

/// A paragraph of lines, each of which begins with its own lead.
#[derive(Debug)]
pub(super) struct Part {
    text: String,
    width: usize,
}

impl Part {
    pub(super) fn of(width: usize) -> Self {
        Self { text: String::new(), width }
    }

    /// A line as it is.
    pub(super) fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{line}");
    }

    /// Wraps at the width; later lines are indented by the length of the lead, or by half of the width where the lead is longer.
    pub(super) fn wrap(&mut self, lead: &str, text: &str) {
        let mut line = lead.to_owned();
        let mut length = lead.chars().count();
        let indent = " ".repeat(length.min(self.width / 2));
        let mut start = length;
        for word in text.split_whitespace() {
            let word_length = word.chars().count();
            if length > start && length + 1 + word_length > self.width {
                self.line(line.trim_end());
                line.clone_from(&indent);
                (start, length) = (indent.len(), indent.len());
            }
            if length > start {
                line.push(' ');
                length += 1;
            }
            line.push_str(word);
            length += word_length;
        }
        self.line(line.trim_end());
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(width: usize, lead: &str, text: &str) -> Vec<String> {
        let mut part = Part::of(width);
        part.wrap(lead, text);
        part.into_text().lines().map(str::to_owned).collect()
    }

    #[test]
    fn no_line_is_longer_than_the_width() {
        assert_eq!(wrapped(12, "a: ", "one two three"), ["a: one two", "   three"]);
        assert_eq!(wrapped(40, "a: ", "one two three"), ["a: one two three"]);
        let (lead, words) = ("x".repeat(8) + ": ", "one two three four");
        assert_eq!(wrapped(12, &lead, words), ["xxxxxxxx: one", "      two", "      three", "      four"]);
    }
}
