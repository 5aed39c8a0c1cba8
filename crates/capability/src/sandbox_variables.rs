// SPDX-License-Identifier: Apache-2.0
//! Server variables that a sandbox sets itself.

/// The sandbox's safety and the bookkeeping of runs depend on them: the place of the data, the addresses of the server, the user that it runs as.
const KEPT: [&str; 16] = [
    "datadir",
    "socket",
    "port",
    "bind_address",
    "skip_networking",
    "pid_file",
    "log_error",
    "user",
    "basedir",
    "data_directory",
    "unix_socket_directories",
    "listen_addresses",
    "external_pid_file",
    "hba_file",
    "ident_file",
    "config_file",
];

/// Whether a sandbox keeps this variable to itself. To MariaDB and MySQL, `-` is the same as `_`, and `loose_` before a name does not change its
/// meaning.
pub fn is_kept(variable: &str) -> bool {
    let name = variable.replace('-', "_").to_ascii_lowercase();
    KEPT.contains(&name.strip_prefix("loose_").unwrap_or(&name))
}

#[cfg(test)]
mod tests {
    use super::is_kept;

    #[test]
    fn however_it_is_written() {
        for written in ["datadir", "pid-file", "loose_socket", "loose-bind-address", "PORT"] {
            assert!(is_kept(written), "{written}");
        }
        for others in ["innodb_buffer_pool_size", "report_port", "shared_buffers", "log_bin"] {
            assert!(!is_kept(others), "{others}");
        }
    }
}
