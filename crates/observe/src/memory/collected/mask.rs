// SPDX-License-Identifier: Apache-2.0
//! Takes secrets out of a command line.

use evidence::{MASK, addresses_masked, is_password_word, is_secret_name};

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
        // each word of PostgreSQL's connection strings
        _ if argument.split_whitespace().count() > 1 => {
            argument.split_whitespace().map(argument_masked).collect::<Vec<_>>().join(" ")
        }
        _ => addresses_masked(argument),
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
            ("mariadbd\0--key-cache-block-size=1024", "mariadbd --key-cache-block-size=1024"),
        ] {
            assert_eq!(arguments(line.as_bytes()), masked);
        }
    }
}
