// SPDX-License-Identifier: Apache-2.0
//! Takes secrets out of a command line.

use evidence::{MASK, is_password_word, is_secret_name, secrets_masked};

/// The arguments, with a space between them.
pub(super) fn arguments(command_line: &[u8]) -> String {
    let text = String::from_utf8_lossy(command_line).into_owned();
    let mut masked = Vec::new();
    let mut is_next = false;
    for argument in text.split('\0').filter(|it| !it.is_empty()) {
        masked.push(if is_next { MASK.to_owned() } else { argument_masked(argument) });
        is_next = !is_next && argument.starts_with('-') && !argument.contains('=') && is_secret_name(argument);
    }
    masked.join(" ")
}

fn argument_masked(argument: &str) -> String {
    if is_password_word(argument) {
        return format!("-p{MASK}");
    }
    match argument.split_once('=') {
        Some((name, _)) if is_secret_name(name) => format!("{name}={MASK}"),
        _ => words_masked(&secrets_masked(argument)),
    }
}

/// Masks the value behind the name of a secret in PostgreSQL's connection strings, which may have spaces around `=`.
fn words_masked(argument: &str) -> String {
    if argument.split_whitespace().nth(1).is_none() {
        return argument.to_owned();
    }
    let mut before = Before::Other;
    let mut masked = Vec::new();
    for word in argument.split_whitespace() {
        let one = word_masked(word, &before);
        before = one.1;
        masked.push(one.0);
    }
    masked.join(" ")
}

/// What a word of a connection string stands behind.
enum Before {
    /// The name of a secret.
    Name,
    /// The name of a secret, and `=`.
    Equals,
    Other,
}

fn word_masked(word: &str, before: &Before) -> (String, Before) {
    let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
    match (before, value) {
        (Before::Equals, _) => (MASK.to_owned(), Before::Other),
        (Before::Name, Some("")) if name.is_empty() => (word.to_owned(), Before::Equals),
        (Before::Name, Some(_)) if name.is_empty() => (format!("={MASK}"), Before::Other),
        (_, Some("")) if is_secret_name(name) => (word.to_owned(), Before::Equals),
        (_, Some(_)) if is_secret_name(name) => (format!("{name}={MASK}"), Before::Other),
        (_, None) if is_secret_name(name) => (word.to_owned(), Before::Name),
        _ => (word.to_owned(), Before::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_name_of_a_secret_is_masked() {
        for (line, masked) in [
            ("mariadbd\0--port=3306\0--key_buffer_size=8M", "mariadbd --port=3306 --key_buffer_size=8M"),
            ("mysqld\0--wsrep_sst_auth_password=hush", "mysqld --wsrep_sst_auth_password=***"),
            ("tool\0--password\0hush\0-v", "tool --password *** -v"),
            ("tool\0-phush\0-p3306", "tool -p*** -p3306"),
            ("tool\0mysql://me:hu@sh@h/db", "tool mysql://me:***@h/db"),
            ("postgres\0-c\0primary_conninfo=host=h password=hush", "postgres -c primary_conninfo=***"),
            ("tool\0host=h password=hush", "tool host=h password=***"),
            ("mariadbd\0--hashicorp-key-management-token=hush", "mariadbd --hashicorp-key-management-token=***"),
            ("mariadbd\0--file-key-management-filekey=hush", "mariadbd --file-key-management-filekey=***"),
            ("postgres\0-c\0ssl_passphrase_command=echo hush", "postgres -c ssl_passphrase_command=***"),
            ("tool\0host=h password = hush user= me", "tool host=h password = *** user= me"),
            ("tool\0port=1 password='two words' user=me", "tool port=1 password=*** user=me"),
            ("mariadbd\0--wsrep_sst_auth=root:hush", "mariadbd --wsrep_sst_auth=***"),
            ("x\0postgresql://h/db?user=a&password=hush", "x postgresql://h/db?user=a&password=***"),
            ("mariadbd\0--init-connect=SET PASSWORD = PASSWORD('hush')", "mariadbd --init-connect=SET PASSWORD = ***"),
            (
                "mariadbd\0--init-connect=ALTER USER a IDENTIFIED BY \"hu sh\"",
                "mariadbd --init-connect=ALTER USER a IDENTIFIED BY \"***\"",
            ),
            ("mariadbd\0--key-cache-block-size=1024", "mariadbd --key-cache-block-size=1024"),
        ] {
            assert_eq!(arguments(line.as_bytes()), masked);
        }
    }
}
