// SPDX-License-Identifier: Apache-2.0
//! How a server replicates, in the words of the table of capabilities.

use crate::Installation;
use capability::{Capability, words};

#[derive(Debug)]
pub(crate) struct Dialect {
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

/// The one that holds for this server; none: it cannot be set up. PostgreSQL's has options alone.
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
