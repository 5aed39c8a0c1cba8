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
    let name = plain(name);
    !HARMLESS.iter().any(|word| name.contains(word)) && SECRET.iter().any(|word| name.contains(word))
}

/// In small letters, and with `_` for `-`.
fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

/// Names of settings that end so have a command or statements as their value, in which a password can stand in any way.
const FREE_TEXT: [&str; 6] = ["_command", "_cmd", "init_connect", "init_replica", "init_slave", "provider_options"];
/// Values that are no secrets, whatever the name of their setting.
const HARMLESS_VALUES: [&str; 9] = ["", "on", "off", "yes", "no", "default", "none", "(disabled)", MASK];

/// Whether the value of an option or setting is never shown: a secret, a command, or statements.
pub fn is_never_shown(name: &str) -> bool {
    let plain = plain(name);
    is_secret_name(name) || FREE_TEXT.iter().any(|end| plain.ends_with(end))
}

/// The value of a setting as it may be shown.
pub fn setting_masked(name: &str, value: &str) -> String {
    let is_shown = !is_never_shown(name) || is_harmless_value(name, value);
    if is_shown { secrets_masked(value) } else { MASK.to_owned() }
}

/// A path, a word such as `ON`, or the number of a setting such as `default_password_lifetime`; a name that ends as one of a secret has the secret itself.
fn is_harmless_value(name: &str, value: &str) -> bool {
    let is_path = value.starts_with('/') && !value.contains(char::is_whitespace);
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let plain = plain(name);
    let is_secret_itself = || SECRET.iter().any(|word| *word != "_key" && plain.ends_with(word));
    HARMLESS_VALUES.contains(&value.to_ascii_lowercase().as_str()) || is_path || (is_number && !is_secret_itself())
}

/// Whether the word is `-pPASSWORD`, as MySQL's clients take it; `-p3306` is a port.
pub fn is_password_word(word: &str) -> bool {
    word.strip_prefix("-p").is_some_and(|rest| !rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The words of a command as they may be shown or stored: `--password=x`, `--password x`, `-px` of a MySQL client, `NAME_PASSWORD=x` of an environment,
/// connection strings, and passwords in addresses and statements lose their secrets.
pub fn command_masked(words: &[String]) -> Vec<String> {
    let mut masked = Vec::with_capacity(words.len());
    let mut next_is_secret = false;
    for word in words {
        masked.push(match secret_begin(word) {
            _ if next_is_secret && !word.starts_with('-') => MASK.to_owned(),
            _ if is_password_word(word) => format!("-p{MASK}"),
            Some((name, begin)) if !is_harmless_value(name, &word[begin..]) => format!("{}{MASK}", &word[..begin]),
            _ => secrets_masked(word),
        });
        next_is_secret = word.starts_with('-') && !word.contains('=') && is_secret_option(word);
    }
    masked
}

/// The name, and where the secret begins, in `--password=x`, `--environment=PGPASSWORD=x` or `host=h password=x`.
fn secret_begin(word: &str) -> Option<(&str, usize)> {
    let mut begin = 0;
    for (at, _) in word.match_indices('=') {
        // of `mysql --password`, the last word
        let name = word[begin..at].rsplit(char::is_whitespace).next().unwrap_or_default();
        if is_secret_option(name) {
            return Some((name, at + 1));
        }
        begin = at + 1;
    }
    None
}

fn is_secret_option(name: &str) -> bool {
    name == "--dsn" || is_never_shown(name)
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
        let (authority, remaining) = after.split_at(end_of_authority(after));
        match authority.rsplit_once('@').and_then(|(login, host)| Some((login.split_once(':')?.0, host))) {
            Some((user, host)) => masked.push_str(&format!("{user}:{MASK}@{host}")),
            None => masked.push_str(authority),
        }
        rest = remaining;
    }
    masked.push_str(rest);
    masked
}

/// Where `user:password@host` ends. A password with a `/` that should have been written as `%2F` is a part of it; a port before a path is not one.
fn end_of_authority(after: &str) -> usize {
    let word = after.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'')).unwrap_or(after.len());
    let slash = after[..word].find('/').unwrap_or(word);
    let (_, password) = after[..slash].split_once(':').unwrap_or_default();
    let is_port = password.bytes().all(|byte| byte.is_ascii_digit());
    if is_port || after[..slash].contains('@') {
        return slash;
    }
    let Some(at) = after[slash..word].rfind('@') else { return slash };
    after[slash + at..word].find('/').map_or(word, |path| slash + at + path)
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
    fn passwords_in_a_command_are_masked() {
        let words = [
            "wringer",
            "squeeze",
            "--password=a b",
            "-phush",
            "-p3306",
            "--mysql-password",
            "x",
            "postgres://me:pw@h/db",
            "--time",
            "5",
            "--environment",
            "PGPASSWORD=hush",
            "--environment=MYSQL_PWD=hush",
            "--dsn",
            "host=h password=hush",
            "--set=innodb_io_capacity=200",
            "--filled",
            "command=mysql --password=hush -e x",
            "host=h password=hush",
            "archive_command=curl -u u:hush",
            "ssl_key=/etc/x.pem",
            "innodb_encryption_key_id=1",
            "--sql=SET PASSWORD = 'hush'",
        ];
        let masked = command_masked(&words.map(str::to_owned)).join(" ");
        assert_eq!(
            masked,
            "wringer squeeze --password=*** -p*** -p3306 --mysql-password *** postgres://me:***@h/db --time 5 \
             --environment PGPASSWORD=*** --environment=MYSQL_PWD=*** --dsn *** --set=innodb_io_capacity=200 \
             --filled command=mysql --password=*** host=h password=*** archive_command=*** ssl_key=/etc/x.pem \
             innodb_encryption_key_id=1 --sql=SET PASSWORD = '***'"
        );
    }

    #[test]
    fn a_setting_is_shown_where_its_value_reveals_nothing() {
        for (name, value) in [
            ("strict_password_validation", "ON"),
            ("password_reuse", "5"),
            ("ssl_key", "/etc/mysql/key.pem"),
            ("archive_command", "(disabled)"),
            ("archive_command", ""),
            ("port", "3306"),
        ] {
            assert_eq!(setting_masked(name, value), value, "{name}");
        }
        for (name, value) in [
            ("archive_command", "PGPASSWORD=hush pg_receivewal"),
            ("restore_command", "/usr/bin/fetch --token hush %f"),
            ("init_connect", "CALL log_in('hush')"),
            ("wsrep_provider_options", "gcache.size=1G;socket.ssl_password=hush"),
            ("wsrep_notify_cmd", "notify hush"),
            ("file_key_management_filekey", "123456"),
            ("root_password", "1"),
        ] {
            assert_eq!(setting_masked(name, value), MASK, "{name}");
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
        assert_eq!(addresses_masked("x://me:h/u@sh@h/db http://h:80/a@b/c"), "x://me:***@h/db http://h:80/a@b/c");
        assert_eq!(addresses_masked("x://me@h 'y://a:b@c'"), "x://me@h 'y://a:***@c'");
    }
}
