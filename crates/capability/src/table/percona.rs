// SPDX-License-Identifier: Apache-2.0
//! Percona Server is MySQL with additions; the server comes from the machine or from its maker's tarball. No row here was checked with a server,
//! because no server can be fetched.

use super::{Entry, table};

pub(super) const TABLE: &[Entry] = table! { Percona:
    ServerPackage [] .. [] => [];
    CompanionPackage [] .. [] => [];
    OtherSuite [] .. [] => [];
    EmptyFreeListAlgorithm [5, 6] .. [] => ["innodb_empty_free_list_algorithm"],
        "Percona Server 5.6 and 8.4 manuals, XtraDB Performance Improvements for I/O-Bound Highly-Concurrent Workloads";
    SlowLogDetail [] .. [] => ["log_slow_verbosity"];
};
