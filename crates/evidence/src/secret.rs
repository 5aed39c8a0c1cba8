// SPDX-License-Identifier: Apache-2.0
//! Which words of a command line, and which settings of a server, hold a secret. Recordings, reports and bundles show a mask in its place.

mod statements;

/// Stands where a secret was.
pub const MASK: &str = "***";
/// An option or variable whose name contains one of these words holds a secret, or the path of one.
const SECRET: [&str; 11] = [
    "sst_auth",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "_key",
    "filekey",
    "keyfile",
    "conninfo",
];
/// Names that contain such a word and hold none: sizes of key caches, and switches.
const HARMLESS: [&str; 5] = ["key_buffer", "key_cache", "foreign_key", "rotate_key", "for_key"];

/// Whether the value of an option or variable with this name is a secret. `-` and `_` are the same.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    !HARMLESS.iter().any(|word| name.contains(word)) && SECRET.iter().any(|word| name.contains(word))
}

/// Whether the word is `-pPASSWORD`, as MySQL's clients take it; `-p3306` is a port.
pub fn is_password_word(word: &str) -> bool {
    word.strip_prefix("-p").is_some_and(|rest| !rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The text with a mask in place of each password in an address, in a connection string, or in a statement.
pub fn secrets_masked(whole: &str) -> String {
    statements::masked(&addresses_masked(whole))
}

/// `scheme://user:***@host` for each address with a password in the text.
fn addresses_masked(whole: &str) -> String {
    let mut masked = String::with_capacity(whole.len());
    let mut rest = whole;
    while let Some(start) = rest.find("://") {
        let (before, after) = rest.split_at(start + 3);
        masked.push_str(before);
        let end = after.find(|c: char| c.is_whitespace() || matches!(c, '/' | '"' | '\'')).unwrap_or(after.len());
        let (authority, remaining) = after.split_at(end);
        match authority.rsplit_once('@').and_then(|(login, host)| Some((login.split_once(':')?.0, host))) {
            Some((user, host)) => masked.push_str(&format!("{user}:{MASK}@{host}")),
            None => masked.push_str(authority),
        }
        rest = remaining;
    }
    masked.push_str(rest);
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_told_from_names_of_sizes_and_switches() {
        for name in [
            "root_password",
            "--mysql-password",
            "file-key-management-filekey",
            "primary_conninfo",
            "ssl_key",
            "--wsrep-sst-auth",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in
            ["key", "key_buffer_size", "--key-cache-block-size", "foreign_key_checks", "port", "sort_buffer_size"]
        {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn a_password_behind_p_is_told_from_a_port() {
        assert_eq!(
            ["-phush", "-p3306", "-p", "-P", "--port"].map(is_password_word),
            [true, false, false, false, false]
        );
    }

    #[test]
    fn addresses_lose_their_passwords_and_nothing_else() {
        assert_eq!(addresses_masked("a mysql://me:hu@sh@h/db b://h"), "a mysql://me:***@h/db b://h");
        assert_eq!(addresses_masked("x://me@h 'y://a:b@c'"), "x://me@h 'y://a:***@c'");
    }
}
