// SPDX-License-Identifier: Apache-2.0
//! Takes secrets out of a command line. Any program and any plugin may have an option of its own for a secret, so no list of such options is complete: a
//! value is shown only where its shape, or the name of its option, says that it is no secret.

mod harmless;

use evidence::{MASK, is_never_shown, is_password_word, secrets_masked};
use harmless::{is_harmless, is_word_of_option};

/// The arguments, with a space between them.
pub(super) fn arguments(command_line: &[u8]) -> String {
    let text = String::from_utf8_lossy(command_line);
    let mut words = text.split('\0').filter(|it| !it.is_empty());
    // the program, or the title that a process of PostgreSQL gives itself
    let mut masked: Vec<String> = words.next().map(secrets_masked).into_iter().collect();
    let mut before = "";
    for word in words {
        masked.push(argument_masked(word, before));
        before = word;
    }
    masked.join(" ")
}

/// `before`: the argument before this one.
fn argument_masked(argument: &str, before: &str) -> String {
    let is_value = before.starts_with('-') && !before.contains('=');
    if is_value && is_never_shown(before) {
        return MASK.to_owned();
    }
    if is_password_word(argument) {
        return format!("-p{MASK}");
    }
    if let Some((name, value)) = named(argument) {
        return format!("{name}={}", value_masked(name, value));
    }
    match argument.strip_prefix('-') {
        Some(rest) if rest.starts_with('-') => option_masked(argument),
        Some(rest) => short_masked(rest),
        None if is_value && before.starts_with("--") => value_masked(before, argument).to_owned(),
        None => free_masked(argument),
    }
}

/// `NAME=VALUE`, also with `--` or `-c` before it.
fn named(argument: &str) -> Option<(&str, &str)> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    argument.split_once('=').filter(|(name, _)| !name.is_empty() && name.chars().all(is_of_name))
}

fn value_masked<'a>(name: &str, value: &'a str) -> &'a str {
    let is_shown = !is_never_shown(name) && (is_harmless(value) || is_word_of_option(name, value));
    if value.is_empty() || is_shown { value } else { MASK }
}

/// `--name` without a value.
fn option_masked(argument: &str) -> String {
    let is_plain = argument.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    if is_plain { argument.to_owned() } else { MASK.to_owned() }
}

/// The argument behind its `-`: a letter, and perhaps its value.
fn short_masked(rest: &str) -> String {
    let (letter, value) = rest.split_at(rest.chars().next().map_or(0, char::len_utf8));
    let shown = if value.is_empty() || is_harmless(value) { value } else { MASK };
    format!("-{letter}{shown}")
}

/// An argument that no name stands before: an address, or `user:password`.
fn free_masked(argument: &str) -> String {
    if argument.contains(char::is_whitespace) {
        return MASK.to_owned();
    }
    if argument.contains("://") {
        return address_masked(&secrets_masked(argument));
    }
    match argument.split_once([':', '=']) {
        Some((before, value)) if !is_harmless(argument) && !is_harmless(value) => {
            format!("{before}{}{MASK}", &argument[before.len()..=before.len()])
        }
        _ => argument.to_owned(),
    }
}

/// The parameters of an address, each by its own name.
fn address_masked(address: &str) -> String {
    let mut parts = address.split_inclusive(['?', '&', ';', '#']);
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.len() - usize::from(part.ends_with(['?', '&', ';', '#']));
        let (parameter, separator) = part.split_at(end);
        masked += &match parameter.split_once('=') {
            Some((name, value)) => format!("{name}={}", value_masked(name, value)),
            None if is_harmless(parameter) => parameter.to_owned(),
            None => MASK.to_owned(),
        };
        masked += separator;
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_follows_the_name_of_a_secret_is_masked() {
        for (line, masked) in [
            ("mysqld\0--wsrep_sst_auth_password=hush", "mysqld --wsrep_sst_auth_password=***"),
            ("tool\0--password\0hush\0-v", "tool --password *** -v"),
            ("tool\0-phush\0-p3306", "tool -p*** -p3306"),
            ("tool\0mysql://me:hu@sh@h/db", "tool mysql://me:***@h/db"),
            ("postgres\0-c\0primary_conninfo=host=h password=hush", "postgres -c primary_conninfo=***"),
            ("tool\0host=h password=hush", "tool host=***"),
            ("mariadbd\0--hashicorp-key-management-token=hush", "mariadbd --hashicorp-key-management-token=***"),
            ("mariadbd\0--file-key-management-filekey=hush", "mariadbd --file-key-management-filekey=***"),
            ("postgres\0-c\0ssl_passphrase_command=echo hush", "postgres -c ssl_passphrase_command=***"),
            ("tool\0host=h password = hush user= me", "tool host=***"),
            ("mariadbd\0--wsrep_sst_auth=root:hush", "mariadbd --wsrep_sst_auth=***"),
            ("x\0postgresql://h/db?user=a&password=hush", "x postgresql://h/db?user=a&password=***"),
            ("mariadbd\0--init-connect=SET PASSWORD = PASSWORD('hush')", "mariadbd --init-connect=***"),
        ] {
            assert_eq!(arguments(line.as_bytes()), masked);
        }
    }

    /// Secrets whose names are nobody's, as people write them into the options of servers.
    #[test]
    fn a_value_that_may_be_a_secret_is_masked() {
        for (line, masked) in [
            ("postgres\0-c\0archive_command=PGPASSWORD=hush psql -h h", "postgres -c archive_command=***"),
            ("postgres\0-c\0restore_command=AWS_SECRET_ACCESS_KEY=hush aws s3 cp", "postgres -c restore_command=***"),
            ("postgres\0-carchive_command=curl -u user:hush", "postgres -carchive_command=***"),
            ("postgres\0--archive-cleanup-command=/bin/true", "postgres --archive-cleanup-command=***"),
            (
                "mariadbd\0--wsrep_provider_options=gcache.size=1G;socket.ssl_password=hush",
                "mariadbd --wsrep_provider_options=***",
            ),
            ("mariadbd\0--init-connect=SET @k='hush'", "mariadbd --init-connect=***"),
            ("mariadbd\0--init-connect\0SET @k='hush'", "mariadbd --init-connect ***"),
            ("mariadbd\0--my-plugin-option=hush", "mariadbd --my-plugin-option=***"),
            ("mariadbd\0--my-plugin-option\0hush", "mariadbd --my-plugin-option ***"),
            ("mariadbd\0--x=key=hush,size=1", "mariadbd --x=***"),
            ("mariadbd\0--x=size=1,password=1234", "mariadbd --x=***"),
            ("sh\0-c\0PGPASSWORD=hush psql", "sh -c PGPASSWORD=***"),
            ("curl\0-H\0Authorization: Bearer hush", "curl -H ***"),
            ("curl\0-HAuthorization:hush", "curl -H***"),
            ("curl\0-u\0user:hush\0-uuser:hush", "curl -u user:*** -u***"),
            ("tool\0Server=h;Pwd=hush", "tool Server=***"),
            ("tool\0jdbc:sqlserver://h;Pwd=hush", "tool jdbc:sqlserver://h;Pwd=***"),
            ("tool\0https://h/b?sig=hush&se=2026#hush", "tool https://h/b?sig=***&se=2026#***"),
            ("tool\0@k='hush'", "tool @k=***"),
            ("tool\0--a'b hush", "tool ***"),
            ("mariadbd\0--wsrep_cluster_address=gcomm://h?k=hush", "mariadbd --wsrep_cluster_address=***"),
        ] {
            assert_eq!(arguments(line.as_bytes()), masked);
        }
    }

    #[test]
    fn what_is_certainly_no_secret_is_shown() {
        for line in [
            "mariadbd\0--port=3306\0--key_buffer_size=8M\0--key-cache-block-size=1024\0--skip-networking",
            "/c/ld-linux.so.2\0--library-path\0/c/lib:/c/mysqld\0/c/sbin/mysqld\0--defaults-file=/d/my.cnf",
            "mysqld\0--datadir=./data\0--bind-address=127.0.0.1,::1\0--admin_address=db-1.example\0--sync_binlog=0",
            "mysqld\0--performance-schema-instrument=memory/%=COUNTED\0--character-set-server=utf8mb4",
            "mysqld\0--optimizer_switch=index_merge=on,mrr=off\0--innodb_data_file_path=ibdata1:12M:autoextend",
            "mysqld\0--user\0mysql\0--innodb-flush-method=O_DIRECT\0--sql-mode=ANSI,TRADITIONAL\0--log-bin=",
            "postgres\0-D\0/d/data\0-p\x005432\0-c\0work_mem=512MB\0-cshared_buffers=8MB\0-c\0huge_pages=try\0-N100",
            "postgres\0-c\0shared_preload_libraries=pg_stat_statements,auto_explain\0-c\0random_page_cost=1.1",
            "mariadbd\0--wsrep_cluster_address=gcomm://10.0.0.1,10.0.0.2\0--wsrep-on=ON",
            "postgres: 15/main: me db 10.0.0.1(4711) idle\0\0",
        ] {
            assert_eq!(arguments(line.as_bytes()), line.trim_end_matches('\0').replace('\0', " "));
        }
    }

    proptest! {
        /// Any bytes, and a secret in quotes or behind any name that is not known.
        #[test]
        fn any_command_line_is_taken(bytes in ".{0,80}", name in "[a-z_]{0,9}", quote in "['\" ]") {
            arguments(bytes.as_bytes());
            let line = format!("x\0--y-{name}=hush{quote}hush\0-c\0z_{name}={quote}hush\0--{name}{quote}=hush");
            prop_assert!(!arguments(line.as_bytes()).contains("hush"));
        }
    }
}
