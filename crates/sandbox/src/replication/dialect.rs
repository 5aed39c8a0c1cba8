// SPDX-License-Identifier: Apache-2.0
//! How each server replicates: one row for each flavour and range of versions, with the words that hold there.

use crate::{Flavour, Installation, Version};

/// From `since` (included) up to `until` (excluded); an empty `until` is open.
#[derive(Debug)]
pub(crate) struct Dialect {
    flavour: Flavour,
    since: &'static [u32],
    until: &'static [u32],
    pub(crate) primary_options: &'static [&'static str],
    pub(crate) replica_options: &'static [&'static str],
    /// `CHANGE ... TO`.
    pub(crate) change: &'static str,
    /// The word for the primary, in keys and columns.
    pub(crate) source: &'static str,
    /// The word for the replica, in statements and columns.
    pub(crate) replica: &'static str,
    /// What makes it go by GTID, and how it logs in and tries again.
    pub(crate) by_gtid: &'static str,
}

/// The row that holds for this server; none: it cannot be set up.
pub(crate) fn of(installation: &Installation) -> Option<&'static Dialect> {
    find(installation.flavour, &installation.version)
}

fn find(flavour: Flavour, version: &Version) -> Option<&'static Dialect> {
    let flavour = flavour.base().unwrap_or(flavour);
    TABLE.iter().find(|row| {
        let before_end = row.until.is_empty() || *version < Version::of(row.until);
        row.flavour == flavour && *version >= Version::of(row.since) && before_end
    })
}

const TABLE: &[Dialect] = &[
    Dialect {
        flavour: Flavour::Mariadb,
        since: &[10, 1],
        until: &[],
        primary_options: &["log_bin=binlog"],
        replica_options: &[
            "log_bin=binlog",
            "log_slave_updates=on",
            "relay_log=relay",
            "read_only=on",
            "skip_slave_start=on",
        ],
        change: "CHANGE MASTER TO",
        source: "Master",
        replica: "Slave",
        by_gtid: "MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1",
    },
    // The new words for all of it since 8.0.26; the old ones are gone since 8.4. Tries are counted, and few by default since 9.
    Dialect {
        flavour: Flavour::Mysql,
        since: &[8, 0, 26],
        until: &[],
        primary_options: &["log_bin=binlog", "gtid_mode=on", "enforce_gtid_consistency=on"],
        replica_options: &[
            "log_bin=binlog",
            "gtid_mode=on",
            "enforce_gtid_consistency=on",
            "relay_log=relay",
            "super_read_only=on",
            "skip_replica_start=on",
        ],
        change: "CHANGE REPLICATION SOURCE TO",
        source: "Source",
        replica: "Replica",
        by_gtid: "SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 86400",
    },
    Dialect {
        flavour: Flavour::Mysql,
        since: &[5, 7, 8],
        until: &[8, 0, 26],
        primary_options: &["log_bin=binlog", "gtid_mode=on", "enforce_gtid_consistency=on"],
        replica_options: &[
            "log_bin=binlog",
            "gtid_mode=on",
            "enforce_gtid_consistency=on",
            "log_slave_updates=on",
            "relay_log=relay",
            "super_read_only=on",
            "skip_slave_start=on",
        ],
        change: "CHANGE MASTER TO",
        source: "Master",
        replica: "Slave",
        by_gtid: "MASTER_AUTO_POSITION = 1, MASTER_CONNECT_RETRY = 1",
    },
    // A standby has no file `recovery.conf` since 12. A replica that is away for long is lost, not the disk: `wal_status`, since 13.
    Dialect {
        flavour: Flavour::Postgresql,
        since: &[13],
        until: &[],
        primary_options: &["max_slot_wal_keep_size=4GB"],
        replica_options: &["max_slot_wal_keep_size=4GB"],
        change: "",
        source: "",
        replica: "",
        by_gtid: "",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_follow_the_version() {
        let change = |flavour, version: &str| find(flavour, &version.parse().expect("a version")).map(|row| row.change);
        assert_eq!(change(Flavour::Mariadb, "10.11.19"), Some("CHANGE MASTER TO"));
        assert_eq!(change(Flavour::Mysql, "8.0.25"), Some("CHANGE MASTER TO"));
        assert_eq!(change(Flavour::Mysql, "9.7.4"), Some("CHANGE REPLICATION SOURCE TO"));
        assert_eq!(change(Flavour::Mysql, "5.6.24"), None);
        assert_eq!(change(Flavour::Percona, "8.0.36"), Some("CHANGE REPLICATION SOURCE TO"));
        assert_eq!((change(Flavour::Postgresql, "12.20"), change(Flavour::Postgresql, "15.18")), (None, Some("")));
    }
}
