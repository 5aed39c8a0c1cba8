// SPDX-License-Identifier: Apache-2.0
//! Which values of options are no secrets: by their shape, or by the name of the option.

use evidence::{MASK, is_never_shown};

/// Options with any word as their value: addresses, names of files, engines, accounts, character sets, ... With `_` for `-`.
const WITH_WORDS: [&str; 61] = [
    "admin_address",
    "authentication_policy",
    "basedir",
    "bind_address",
    "binlog_format",
    "character_set_client",
    "character_set_filesystem",
    "character_set_server",
    "cluster_name",
    "collation_server",
    "datadir",
    "dbname",
    "default_authentication_plugin",
    "default_storage_engine",
    "defaults_group_suffix",
    "dynamic_shared_memory_type",
    "file_copy_method",
    "general_log_file",
    "host",
    "hostaddr",
    "innodb_data_file_path",
    "innodb_flush_method",
    "internal_tmp_mem_storage_engine",
    "io_method",
    "lc_messages",
    "lc_time_names",
    "listen_addresses",
    "log_bin",
    "log_bin_index",
    "log_destination",
    "log_error",
    "log_filename",
    "log_output",
    "log_timezone",
    "old_mode",
    "performance_schema_instrument",
    "pid_file",
    "plugin_load",
    "plugin_load_add",
    "plugin_maturity",
    "relay_log",
    "report_host",
    "session_preload_libraries",
    "shared_memory_type",
    "shared_preload_libraries",
    "slow_query_log_file",
    "socket",
    "sql_mode",
    "ssl_cipher",
    "sslmode",
    "synchronous_commit",
    "timezone",
    "tls_version",
    "tool",
    "transaction_isolation",
    "user",
    "wal_level",
    "wal_sync_method",
    "wsrep_cluster_address",
    "wsrep_cluster_name",
    "wsrep_node_name",
];
/// In small letters.
const WORDS: [&str; 27] = [
    "all",
    "always",
    "auto",
    "backup",
    "counted",
    "default",
    "disabled",
    "enabled",
    "exclusive",
    "false",
    "file",
    "force",
    "full",
    "lazy",
    "local",
    "mixed",
    "never",
    "no",
    "none",
    "off",
    "on",
    "row",
    "statement",
    "table",
    "try",
    "yes",
    "true",
];
const UNITS: &str = "kKmMgGtTBsuinhd%";

/// A size, a number, a version, an address of numbers, a path, `on` or `off`; several with `,`, `:` or `;` between them, each perhaps with a name: `a=on`.
pub(super) fn is_harmless(value: &str) -> bool {
    value.split([',', ':', ';']).all(|part| {
        let (name, value) = part.rsplit_once('=').unwrap_or(("", part));
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_.-/%".contains(c);
        name.chars().all(is_of_name) && !is_never_shown(name) && is_one_harmless(value)
    })
}

fn is_one_harmless(value: &str) -> bool {
    let word = value.to_ascii_lowercase();
    value.is_empty() || value == MASK || WORDS.contains(&word.as_str()) || is_number(value) || is_path(value)
}

/// `8M`, `1.1`, `-1`, `127.0.0.1`.
fn is_number(value: &str) -> bool {
    let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
    let unit = digits.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    digits.starts_with(|c: char| c.is_ascii_digit()) && unit.len() <= 3 && unit.chars().all(|c| UNITS.contains(c))
}

fn is_path(value: &str) -> bool {
    let is_of_path = |c: char| c.is_alphanumeric() || "/._+-".contains(c);
    ["/", "./", "../"].iter().any(|it| value.starts_with(it)) && value.chars().all(is_of_path)
}

/// Whether this option has words as its value, and this is nothing else.
pub(super) fn is_word_of_option(name: &str, value: &str) -> bool {
    WITH_WORDS.contains(&plain(name).as_str())
        && value.chars().all(|c| c.is_ascii_alphanumeric() || "_.:,/*+-".contains(c))
}

/// The name without `--` or `-c`, in small letters and with `_` for `-`.
fn plain(name: &str) -> String {
    let name = name.strip_prefix("--").or_else(|| name.strip_prefix("-c")).unwrap_or(name);
    name.to_ascii_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        let shown =
            ["", "8M", "-1", "1.5", "100ms", "10.0.0.1:3306", "/srv/a-b", "ON", "a=on,b=off", "::1", "0", "50%"];
        assert!(shown.iter().all(|it| is_harmless(it)));
        let masked = ["hush", "8 M", "1Passw", "/x?y", "/x y", "a=hush", "password=1", "on'", "x:1", "8M8", "--1"];
        assert!(masked.iter().all(|it| !is_harmless(it)));
    }
}
