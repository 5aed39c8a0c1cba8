// SPDX-License-Identifier: Apache-2.0
//! Values in option files of MySQL and MariaDB, by the rules of the servers' own clients. Pure: text in, text out.

/// Each character that has an escape in an option file, with the letter that stands for it.
const ESCAPES: [(char, char); 8] =
    [('\\', '\\'), ('"', '"'), ('\'', '\''), ('\n', 'n'), ('\r', 'r'), ('\t', 't'), ('\u{8}', 'b'), (' ', 's')];

/// The value as it is written behind the `=`: clients read exactly `value` back. It is in double quotes where it must be: scripts also read such files.
pub fn written(value: &str) -> String {
    let is_plain = |character: char| character.is_alphanumeric() || "_-./:@+,".contains(character);
    if !value.is_empty() && value.chars().all(is_plain) {
        return value.to_owned();
    }
    let mut written = String::from('"');
    for character in value.chars() {
        // a space and a single quote stand for themselves inside of double quotes
        let escape = ESCAPES.iter().find(|(plain, _)| *plain == character && !matches!(plain, ' ' | '\''));
        written.extend(escape.map(|_| '\\'));
        written.push(escape.map_or(character, |(_, letter)| *letter));
    }
    written + "\""
}

/// What clients read of the text behind the `=`: without its comment, its quotes and its escapes.
pub(crate) fn value(text: &str) -> String {
    unescaped(unquoted(without_comment(text).trim()))
}

/// A `#` begins a comment, also without a space before it, but not between quotes.
fn without_comment(text: &str) -> &str {
    let (mut quote, mut is_escaped) = (None, false);
    for (at, character) in text.char_indices() {
        match (character, quote) {
            ('#', None) => return text.get(..at).unwrap_or(text),
            ('"' | '\'', None) => quote = Some(character),
            (_, Some(open)) if character == open && !is_escaped => quote = None,
            _ => {}
        }
        is_escaped = quote.is_some() && character == '\\' && !is_escaped;
    }
    text
}

fn unquoted(text: &str) -> &str {
    let between = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    between('"').or_else(|| between('\'')).unwrap_or(text)
}

/// An unknown escape, and a backslash at the end, stay as they are.
fn unescaped(text: &str) -> String {
    let (mut read, mut rest) = (String::new(), text.chars());
    while let Some(character) = rest.next() {
        let next = (character == '\\').then(|| rest.next()).flatten();
        match (next, ESCAPES.iter().find(|(_, letter)| Some(*letter) == next)) {
            (Some(_), Some((plain, _))) => read.push(*plain),
            _ => read.extend([Some(character), next].into_iter().flatten()),
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn a_value_is_read_as_clients_read_it() {
        let read = [
            ("word", "word"),
            ("a#b", "a"),
            ("a # b", "a"),
            ("'a # b' # c", "a # b"),
            ("\"a\\\"#b\"", "a\"#b"),
            ("a\\sb\\tc", "a b\tc"),
            ("C:\\Data", "C:\\Data"),
            ("end\\", "end\\"),
            ("'", "'"),
            ("\"a'", "\"a'"),
        ];
        read.into_iter().for_each(|(text, plain)| assert_eq!(value(text), plain, "{text}"));
    }
}
