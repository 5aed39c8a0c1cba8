// SPDX-License-Identifier: Apache-2.0
//! The means by which each cause is planted, or why it cannot be planted anywhere. `sandbox_checks.rs` checks what a sandbox lacks for it.

use diskmodel::Class;
use stalls::Cause;

/// The means by which a cause is planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// A connection holds rows of a table.
    Rows,
    /// A connection holds a whole table.
    Table,
    /// The slow layer below the data directory keeps requests of this class waiting.
    Disk(Class),
    /// The CPU time of the server's cgroup is cut to almost nothing.
    CpuQuota,
    /// A connection reads more than the buffer pool holds.
    Scan,
}

/// All causes, by the names that `wringer stalls` has for them.
pub const CAUSES: [Cause; 15] = [
    Cause::RowLock,
    Cause::MetadataLock,
    Cause::DiskReads,
    Cause::Sync,
    Cause::Cpu,
    Cause::FreeListBackoff,
    Cause::FreeListLegacy,
    Cause::FreeListWait,
    Cause::Reclaim,
    Cause::Mutex,
    Cause::BufferPin,
    Cause::RedoOrCheckpoint,
    Cause::Probe,
    Cause::OwnWork,
    Cause::Unknown,
];

/// The cause of this name: `row_lock`.
pub fn named(name: &str) -> Option<Cause> {
    CAUSES.into_iter().find(|cause| cause.name() == name)
}

/// # Errors
/// Why it cannot be planted.
pub(crate) fn way(cause: Cause) -> Result<Way, &'static str> {
    match cause {
        Cause::RowLock => Ok(Way::Rows),
        Cause::MetadataLock => Ok(Way::Table),
        Cause::DiskReads => Ok(Way::Disk(Class::Read)),
        Cause::Sync => Ok(Way::Disk(Class::Sync)),
        Cause::Cpu => Ok(Way::CpuQuota),
        Cause::FreeListBackoff => Ok(Way::Scan),
        Cause::FreeListLegacy | Cause::FreeListWait => {
            Err("how long such a wait takes depends on the disk and the server; no length can be asked for")
        }
        Cause::Reclaim => {
            Err("a limit of memory that is lowered below a server in use may end the server: the kernel's OOM \
             killer decides, and a length cannot be asked for")
        }
        Cause::Mutex => Err(
            "no statement holds a mutex of the server for a stated time, and stopping a thread that happens to hold one \
             would plant it only by luck",
        ),
        Cause::BufferPin => {
            Err("in PostgreSQL only VACUUM waits for a pin that a cursor holds, never a query of the load; InnoDB's \
             pages are latched by no statement for a stated time")
        }
        Cause::RedoOrCheckpoint => Err(
            "a log that is full takes a load that writes more than the log has, and ends when the server has flushed: no \
             length can be asked for",
        ),
        Cause::Probe => Err("it is the cost of Wringer itself, and cannot be planted"),
        Cause::OwnWork => Err("it is the statement's own work, and no stall"),
        Cause::Unknown => Err("it is the name for all unknown causes"),
    }
}

/// In a few words, for people.
pub(crate) fn in_words(way: Way) -> &'static str {
    match way {
        Way::Rows => "a connection of its own holds rows of a table",
        Way::Table => {
            "a connection of its own holds a whole table: LOCK TABLES ... WRITE, or ACCESS EXCLUSIVE in PostgreSQL"
        }
        Way::Disk(Class::Read) => "the slow layer below the data directory answers no read until the stall is over",
        Way::Disk(_) => "the slow layer below the data directory answers no sync until the stall is over",
        Way::CpuQuota => "the server's CPU cgroup gets almost no CPU time",
        Way::Scan => "a connection of its own reads a table that is larger than the buffer pool",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_listed_once_and_found_by_its_name() {
        for (index, cause) in CAUSES.iter().enumerate() {
            assert_eq!(named(cause.name()), Some(*cause));
            assert!(!CAUSES[..index].contains(cause), "{}", cause.name());
        }
        assert_eq!(named("backoff"), None);
    }
}
