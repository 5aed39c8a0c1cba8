// SPDX-License-Identifier: Apache-2.0
//! The words of a statement's class; the list of words is shortened after each word.

/// A stack of words in one text: a class is made without an allocation for each word.
#[derive(Debug, Default)]
pub(crate) struct Words {
    text: String,
    /// Where each word begins in the text.
    starts: Vec<usize>,
}

impl Words {
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.starts.clear();
    }

    pub(crate) fn push(&mut self, word: &str) {
        self.starts.push(self.text.len());
        self.text.push_str(word);
        self.shorten();
    }

    pub(crate) fn push_lowercase(&mut self, word: &str) {
        self.starts.push(self.text.len());
        if word.is_ascii() {
            self.text.extend(word.bytes().map(|byte| char::from(byte.to_ascii_lowercase())));
        } else {
            self.text.push_str(&word.to_lowercase());
        }
        self.shorten();
    }

    /// The word that is `back` words before the last one.
    fn word_back(&self, back: usize) -> Option<&str> {
        let index = self.starts.len().checked_sub(back + 1)?;
        let end = self.starts.get(index + 1).copied().unwrap_or(self.text.len());
        self.text.get(*self.starts.get(index)?..end)
    }

    fn ends_with(&self, words: &[&str]) -> bool {
        words.iter().rev().enumerate().all(|(back, word)| self.word_back(back) == Some(*word))
    }

    fn pop(&mut self, count: usize) {
        for _ in 0..count {
            if let Some(start) = self.starts.pop() {
                self.text.truncate(start);
            }
        }
    }

    /// Removes a sign before a value; makes `? , ?` one `?`, and `( ? ) , ( ? )` one `( ? )`.
    fn shorten(&mut self) {
        if self.word_back(0) == Some(")") {
            if self.ends_with(&["(", "?", ")", ",", "(", "?", ")"]) {
                self.pop(4);
            }
        } else if self.word_back(0) == Some("?") {
            let before = ["(", ",", "=", "<", ">", "between", "and"];
            if matches!(self.word_back(1), Some("-" | "+")) && self.word_back(2).is_some_and(|it| before.contains(&it))
            {
                self.pop(2);
                self.starts.push(self.text.len());
                self.text.push('?');
            }
            if self.ends_with(&["?", ",", "?"]) {
                self.pop(2);
            }
        }
    }

    /// All words, with the spaces that people write between them.
    pub(crate) fn join(&self, into: &mut String) {
        into.clear();
        for (index, start) in self.starts.iter().enumerate() {
            let end = self.starts.get(index + 1).copied().unwrap_or(self.text.len());
            let word = self.text.get(*start..end).unwrap_or_default();
            if word == ";" {
                continue;
            }
            let opens = into.is_empty() || into.ends_with(['(', '.', '@', ':']);
            if !opens && !matches!(word, ")" | "," | "." | ":") {
                into.push(' ');
            }
            into.push_str(word);
        }
    }
}
