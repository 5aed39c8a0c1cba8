// SPDX-License-Identifier: Apache-2.0
//! The words with which a server replicates, from the table of capabilities.

use crate::Installation;
use capability::{Capability, words};

#[derive(Debug)]
pub(crate) struct Dialect {
    pub(crate) primary_options: &'static [&'static str],
    pub(crate) replica_options: &'static [&'static str],
    /// The words `CHANGE ... TO`.
    pub(crate) change: &'static str,
    /// The word for the primary, in keys and columns.
    pub(crate) source: &'static str,
    /// The word for the replica, in statements and columns.
    pub(crate) replica: &'static str,
    /// The options that make it use GTIDs, and that set how it logs in and tries again.
    pub(crate) by_gtid: &'static str,
}

/// The dialect of this server; `None`: it cannot be set up for replication. PostgreSQL's dialect only has options.
pub(crate) fn of(installation: &Installation) -> Option<Dialect> {
    let words = |capability| words(capability, installation.flavour, &installation.version);
    let (primary_options, replica_options) = (words(Capability::PrimaryOption), words(Capability::ReplicaOption));
    if replica_options.is_empty() {
        return None;
    }
    let (change, source, replica, by_gtid) = match words(Capability::ReplicationWords) {
        [change, source, replica, by_gtid] => (*change, *source, *replica, *by_gtid),
        _ => ("", "", "", ""),
    };
    Some(Dialect { primary_options, replica_options, change, source, replica, by_gtid })
}
