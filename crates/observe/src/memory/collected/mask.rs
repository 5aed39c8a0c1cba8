// SPDX-License-Identifier: Apache-2.0
//! Takes secrets out of a command line.

const MASK: &str = "***";
/// An option whose name contains one of these words holds a secret, or the path of one.
const SECRET: [&str; 8] = ["password", "passwd", "passphrase", "pwd", "secret", "token", "key", "conninfo"];
/// Names that contain such a word and hold none: sizes of key caches, and switches.
const HARMLESS: [&str; 5] = ["key_buffer", "key_cache", "foreign_key", "rotate_key", "for_key"];

/// The arguments, with a space between them.
pub(super) fn arguments(command_line: &[u8]) -> String {
    let text = String::from_utf8_lossy(command_line).into_owned();
    let mut masked = Vec::new();
    let mut is_next = false;
    for argument in text.split('\0').filter(|it| !it.is_empty()) {
        masked.push(if is_next { MASK.to_owned() } else { argument_masked(argument) });
        is_next = !is_next && argument.starts_with('-') && !argument.contains('=') && is_secret(argument);
    }
    masked.join(" ")
}

fn argument_masked(argument: &str) -> String {
    // mysqld -pWORD, in the form of its clients
    if argument.starts_with("-p") && argument.len() > 2 && !argument[2..].bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("-p{MASK}");
    }
    match argument.split_once('=') {
        Some((name, _)) if is_secret(name) => format!("{name}={MASK}"),
        // each word of PostgreSQL's connection strings
        _ if argument.split_whitespace().count() > 1 => {
            argument.split_whitespace().map(argument_masked).collect::<Vec<_>>().join(" ")
        }
        _ => without_password(argument),
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    !HARMLESS.iter().any(|word| name.contains(word)) && SECRET.iter().any(|word| name.contains(word))
}

/// `mysql://user:***@host`.
fn without_password(argument: &str) -> String {
    let Some((scheme, rest)) = argument.split_once("://") else { return argument.to_owned() };
    let Some((account, place)) = rest.rsplit_once('@') else { return argument.to_owned() };
    let user = account.split(':').next().unwrap_or_default();
    format!("{scheme}://{user}:{MASK}@{place}")
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
            ("mariadbd\0--key-cache-block-size=1024", "mariadbd --key-cache-block-size=1024"),
        ] {
            assert_eq!(arguments(line.as_bytes()), masked);
        }
    }
}
