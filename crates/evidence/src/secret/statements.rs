// SPDX-License-Identifier: Apache-2.0
//! Finds passwords in statements and connection strings: `IDENTIFIED BY 'x'`, `PASSWORD('x')`, `SET PASSWORD = 'x'`, `password='x'`, `?password=x`.

use super::{MASK, is_secret_name};

/// The text with a mask in place of each password. In a statement that sets a password (`IDENTIFIED ...`, `SET PASSWORD ...`) every text in quotes is
/// masked, up to its `;`.
pub(super) fn masked(whole: &str) -> String {
    let mut masked = String::with_capacity(whole.len());
    let mut rest = whole;
    let mut before = String::new();
    // whether the statement sets a password
    let mut is_setting = false;
    while let Some(first) = rest.chars().next() {
        let word = leading_word(rest);
        if !word.is_empty() {
            masked.push_str(word);
            rest = &rest[word.len()..];
            is_setting |= sets_a_password(&before, word);
            rest = after_name(word, whole, &mut masked, rest);
            before = word.to_owned();
            continue;
        }
        is_setting &= first != ';';
        rest = match first {
            '\'' | '"' if is_setting => quoted_masked(rest, &mut masked),
            _ => copied(rest, first.len_utf8(), &mut masked),
        };
    }
    masked
}

fn sets_a_password(before: &str, word: &str) -> bool {
    let is = |it: &str, wanted: &str| it.eq_ignore_ascii_case(wanted);
    is(word, "identified") || (is(before, "set") && is(word, "password"))
}

/// Masks the value behind the name of a secret, where the name is one: a value in quotes, or a parameter of an address.
fn after_name<'a>(word: &str, whole: &str, masked: &mut String, rest: &'a str) -> &'a str {
    if !is_secret_name(word) {
        return rest;
    }
    let start = whole.len() - rest.len() - word.len();
    if let Some(value) = rest.strip_prefix('=').filter(|_| whole[..start].ends_with(['?', '&'])) {
        let end = value.find(|c: char| c.is_whitespace() || "&'\"#;,)".contains(c)).unwrap_or(value.len());
        masked.push('=');
        masked.push_str(if end > 0 { MASK } else { "" });
        return &value[end..];
    }
    let between = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '=', '(', ':']).len();
    // E'...', N'...', _utf8'...'
    let prefix = leading_word(&rest[between..]).len();
    let quote = between + if prefix <= 8 { prefix } else { 0 };
    if let Some(tag) = dollar_tag(&rest[between..]) {
        let rest = copied(rest, between, masked);
        return dollar_masked(tag, rest, masked);
    }
    if !rest[quote..].starts_with(['\'', '"']) {
        return rest;
    }
    let rest = copied(rest, quote, masked);
    quoted_masked(rest, masked)
}

/// `$$` or `$tag$`, where PostgreSQL's text in dollar quotes begins.
fn dollar_tag(text: &str) -> Option<&str> {
    let name = leading_word(text.strip_prefix('$')?);
    text[1 + name.len()..].starts_with('$').then(|| &text[..name.len() + 2])
}

/// Masks what is between the first `tag`, with which the text begins, and the next one.
fn dollar_masked<'a>(tag: &'a str, text: &'a str, masked: &mut String) -> &'a str {
    masked.push_str(tag);
    masked.push_str(MASK);
    let value = &text[tag.len()..];
    let Some(end) = value.find(tag) else { return "" };
    masked.push_str(tag);
    &value[end + tag.len()..]
}

/// Masks what is between the quotes that the text begins with. Whether `\` escapes a quote depends on the server's settings: behind one that may, all is masked.
fn quoted_masked<'a>(text: &'a str, masked: &mut String) -> &'a str {
    let quote = &text[..1];
    masked.push_str(quote);
    masked.push_str(MASK);
    let mut end = 1;
    while let Some(next) = text[end..].find(quote) {
        let at = end + next;
        if text[..at].ends_with('\\') {
            return "";
        }
        end = at + 1;
        if !text[end..].starts_with(quote) {
            masked.push_str(quote);
            return &text[end..];
        }
        end += 1;
    }
    ""
}

fn copied<'a>(text: &'a str, count: usize, masked: &mut String) -> &'a str {
    let (head, rest) = text.split_at(count);
    masked.push_str(head);
    rest
}

fn leading_word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn passwords_in_statements_and_parameters() {
        for (text, expected) in [
            ("SET PASSWORD = PASSWORD('hush')", "SET PASSWORD = PASSWORD('***')"),
            ("set password for 'a'@'h' = 'hush'; SELECT 'seen'", "set password for '***'@'***' = '***'; SELECT 'seen'"),
            (
                "CREATE USER a IDENTIFIED BY 'hush', b IDENTIFIED BY \"hush\"",
                "CREATE USER a IDENTIFIED BY '***', b IDENTIFIED BY \"***\"",
            ),
            ("ALTER USER a IDENTIFIED WITH x AS 'hu''sh'; x", "ALTER USER a IDENTIFIED WITH x AS '***'; x"),
            ("ALTER USER a identified by 'hu\\'sh' x 'y", "ALTER USER a identified by '***"),
            (
                "IDENTIFIED VIA x USING PASSWORD('hush') OR y USING 'hush'",
                "IDENTIFIED VIA x USING PASSWORD('***') OR y USING '***'",
            ),
            ("ALTER ROLE a PASSWORD E'hush' VALID UNTIL 'x'", "ALTER ROLE a PASSWORD E'***' VALID UNTIL 'x'"),
            ("ALTER ROLE a PASSWORD $$hu'sh$$ VALID UNTIL 'x'", "ALTER ROLE a PASSWORD $$***$$ VALID UNTIL 'x'"),
            ("CREATE ROLE a PASSWORD $_1$hu$$sh$_1$; x", "CREATE ROLE a PASSWORD $_1$***$_1$; x"),
            ("ALTER ROLE a PASSWORD $$hush", "ALTER ROLE a PASSWORD $$***"),
            (
                "CHANGE MASTER TO MASTER_PASSWORD='hush', MASTER_HOST='h'",
                "CHANGE MASTER TO MASTER_PASSWORD='***', MASTER_HOST='h'",
            ),
            ("host=h password = 'two words' port=1", "host=h password = '***' port=1"),
            ("postgresql://h/db?user=a&password=hush&port=1", "postgresql://h/db?user=a&password=***&port=1"),
            ("x://h/?sslpassword=hush y", "x://h/?sslpassword=*** y"),
            ("IDENTIFIED BY 'hush", "IDENTIFIED BY '***"),
        ] {
            assert_eq!(masked(text), expected);
        }
    }

    #[test]
    fn other_texts_stay() {
        for text in [
            "",
            "Access denied for user 'me'@'h' (using password: YES)",
            "the password of the server's account isn't known",
            "SET NAMES 'utf8', sql_mode='ANSI'; key_buffer_size='8M'",
            "größe='5' π",
            "password $1 and the price of $2",
        ] {
            assert_eq!(masked(text), text);
        }
    }
}
