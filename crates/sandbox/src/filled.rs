// SPDX-License-Identifier: Apache-2.0
//! Sandboxes that begin with a clone of a data directory that was filled before: what the content of such a directory depends on, and how a clone of
//! it is used.
//!
//! The options of a server that shape its files are listed in [`MYSQL_FAMILY`] and [`POSTGRESQL`]; with other options (pools, threads, flushing,
//! timeouts) a filled directory is the same. An option that is in doubt is in the list: then data are filled once more than necessary, but never used
//! for another setting.

use crate::init_options::init_keys;
use crate::options::overlay;
use crate::{Error, Flavour, Installation, Progress, Sandbox, ServerOption, Taken};
use capability::{Capability, words};
use fills::{Entry, Key};
use host::files;
use std::os::unix::fs::MetadataExt as _;

/// Beginnings of option names. Source: MySQL's and MariaDB's manuals, InnoDB and server system variables.
const MYSQL_FAMILY: [&str; 52] = [
    // files, pages and rows of InnoDB
    "innodb_page_size",
    "innodb_data_",
    "innodb_undo_",
    "innodb_rollback_segments",
    "innodb_log_file",
    "innodb_log_group",
    "innodb_log_archive",
    "innodb_log_checksums",
    "innodb_redo_log",
    "innodb_file_",
    "innodb_default_",
    "innodb_checksum",
    "innodb_compress",
    "innodb_fill_factor",
    "innodb_merge_threshold",
    "innodb_doublewrite",
    "innodb_change_buffer",
    "innodb_stats_",
    "innodb_strict_mode",
    "innodb_temp_data",
    "innodb_buffer_pool_dump",
    "innodb_buffer_pool_filename",
    "innodb_segment_reserve",
    // encryption and other engines
    "innodb_encrypt",
    "innodb_redo_log_encrypt",
    "encrypt_",
    "file_key_",
    "plugin_",
    "early_plugin",
    "default_",
    "enforce_storage",
    "aria_",
    "myisam_",
    "key_",
    // names and text
    "lower_case",
    "character_set",
    "collation",
    "sql_mode",
    "old_mode",
    "explicit_defaults_for_timestamp",
    // keys that a table gets by itself
    "sql_generate_invisible",
    "auto_increment_",
    "storage_engine",
    "rocksdb_",
    // what full-text indexes hold, and statements that a server runs at each start
    "innodb_ft_",
    "ft_",
    "ngram_",
    "init_file",
    // logs in the data directory
    "log_bin",
    "binlog_",
    "gtid_",
    "server_id",
];

/// The same for PostgreSQL. Source: its manual, chapter Server Configuration. All options of initdb count in any case.
const POSTGRESQL: [&str; 21] = [
    "wal_",
    "min_wal_size",
    "max_wal_size",
    "max_wal_senders",
    "full_page_writes",
    "checkpoint_",
    "archive_",
    "default_",
    "temp_tablespaces",
    "autovacuum",
    "vacuum_",
    "track_counts",
    "shared_preload_libraries",
    "lc_",
    "data_checksums",
    "log_directory",
    // how a dump or a program that fills is understood
    "search_path",
    "timezone",
    "datestyle",
    "intervalstyle",
    "gin_pending_list_limit",
];

/// Names at the top of a stopped server's data directory that are not kept: its identity among replicas, and the files of a running server.
pub const LEFT_OUT: [&str; 3] = ["auto.cnf", "postmaster.pid", "postmaster.opts"];

/// The server's part of a filled data directory's key: its build, and the options that shape its files. `options`: those of the configuration and of
/// the start that filled the directory; the later one counts. The caller adds the fill and its seed.
///
/// # Errors
/// The program file cannot be looked at.
pub fn filled_key(installation: &Installation, options: &[ServerOption]) -> Result<Key, Error> {
    let program = &installation.program;
    let file = program.metadata().map_err(|source| Error::path("look at", program, source))?;
    let defaults = words(Capability::DefaultOption, installation.flavour, &installation.version);
    let defaults: Vec<ServerOption> = defaults.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
    let mut shaping: Vec<String> = overlay(&defaults, &overlay(options, &[]))
        .iter()
        .filter(|option| shapes_files(installation, option.key()))
        .map(ToString::to_string)
        .collect();
    shaping.sort();
    Ok(Key::new()
        .with("flavour", installation.flavour.to_string())
        .with("version", installation.version.to_string())
        .with("architecture", std::env::consts::ARCH)
        .with("program", program.to_string_lossy())
        .with("source", installation.source.describe())
        // a package of the same version that was built again has another program file
        .with("program_bytes", file.size())
        .with("program_written", format!("{}.{:09}", file.mtime(), file.mtime_nsec()))
        .with("options", shaping))
}

fn shapes_files(installation: &Installation, key: &str) -> bool {
    let begins = |names: &[&str]| {
        let key = key.strip_prefix("loose_").unwrap_or(key);
        let key = key.strip_prefix("skip_").unwrap_or(key);
        names.iter().any(|name| key.starts_with(name))
    };
    if init_keys(installation.flavour, Some(&installation.version)).contains(&key) {
        return true;
    }
    match installation.flavour {
        Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => begins(&MYSQL_FAMILY),
        Flavour::Postgresql => begins(&POSTGRESQL),
    }
}

impl Sandbox {
    /// Makes the data directory from a clone of kept data; no server runs for that. The account in the data keeps its password.
    pub(crate) fn fill_with_clone(&self, entry: &Entry, progress: &mut dyn Progress) -> Result<Self, Error> {
        self.make_folders_and_files(entry.secret())?;
        self.make_replication_secret()?;
        let (data, user) = (self.data(), &self.manifest.user);
        // it belongs to root until it is complete: if the server's user owned it, that user could put links into it
        files::remove_dir(&data)?;
        files::new_private_dir(&data)?;
        progress.doing(&format!("clone {} of kept data", units::Bytes(entry.bytes())));
        let cloned = entry.clone_into(&data, user.identity(), &host::interrupt::requested)?;
        let taken = Taken {
            key: entry.id(),
            made: entry.made(),
            mechanism: cloned.mechanism().into(),
            bytes: cloned.bytes,
            copied_bytes: cloned.copied_bytes,
            elapsed_us: u64::try_from(cloned.elapsed.as_micros()).unwrap_or(u64::MAX),
        };
        Ok(Self { manifest: crate::Manifest { filled: Some(taken), ..self.manifest.clone() }, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::tests::installation;

    fn id(installation: &Installation, options: &[&str]) -> String {
        let options: Vec<ServerOption> = options.iter().map(|option| option.parse().expect("an option")).collect();
        filled_key(installation, &options).expect("a key").id()
    }

    #[test]
    fn options_that_shape_files_make_another_key_and_others_do_not() {
        let mariadb = installation(Flavour::Mariadb, "10.11.19");
        let plain = id(&mariadb, &[]);
        for shaping in
            ["innodb_page_size=8k", "innodb-file-per-table=0", "skip-innodb_doublewrite", "collation_server=x"]
        {
            assert_ne!(plain, id(&mariadb, &[shaping]), "{shaping}");
        }
        for other in ["innodb_buffer_pool_size=1G", "innodb_io_capacity=2000", "max_connections=9"] {
            assert_eq!(plain, id(&mariadb, &[other]), "{other}");
        }
        assert_eq!(
            id(&mariadb, &["innodb_page_size=4k", "innodb_page_size=8k"]),
            id(&mariadb, &["innodb_page_size=8k"])
        );
        assert_ne!(plain, id(&installation(Flavour::Mariadb, "10.11.20"), &[]));
        assert_ne!(plain, id(&installation(Flavour::Mysql, "10.11.19"), &[]));
    }

    #[test]
    fn what_initdb_is_told_makes_another_key() {
        let postgresql = installation(Flavour::Postgresql, "15.18");
        let plain = id(&postgresql, &[]);
        for shaping in ["wal_segment_size=64", "data_checksums=on", "max_wal_size=4GB"] {
            assert_ne!(plain, id(&postgresql, &[shaping]), "{shaping}");
        }
        assert_eq!(plain, id(&postgresql, &["shared_buffers=1GB"]));
    }
}
