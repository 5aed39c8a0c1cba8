// SPDX-License-Identifier: Apache-2.0
//! The capabilities in which servers differ. Each comment says what the words in the table mean.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    // ---- finding, fetching and starting a server
    /// Names of the server program, in `sbin` or `bin`.
    ServerProgram,
    /// The program that makes a data directory; absent where the server itself makes one from SQL files.
    InitProgram,
    /// SQL files, below the share folder, that fill the system tables in bootstrap mode, in order. `a|b` is either name.
    BootstrapFiles,
    /// Names of the share folder below the prefix; `{major}` is the first number of the version.
    ShareFolder,
    /// Files that mark the share folder: a folder with one of them is the share folder. `a|b` is either name.
    ShareMarker,
    /// Folders below the prefix that hold the programs of one version.
    ProgramFolder,
    /// The interactive client.
    ClientProgram,
    /// Names of packages that hold the server, as `prefix*`: the star stands for a version or for nothing.
    ServerPackage,
    /// Further packages to unpack in addition to the server's; `{major}` as above, and `{star}` is the text for which the star stood.
    CompanionPackage,
    /// Another archive and suite, where the machine's own suite does not offer the server: `Debian sid`.
    OtherSuite,
    /// Another source, where no suite has the server: an artifact of Maven's repository for an architecture, as in `x86_64 GROUP:ARTIFACT`. Versions
    /// older than `since` may be there, but were not tried.
    Artifact,
    /// The count of numbers in a version: the numbers after these count the builds of an artifact.
    VersionNumbers,
    /// The count of numbers that name a series; `available` lists the newest version of each series.
    SeriesNumbers,
    /// The table of accounts, and the account in it that the server itself needs, if there is one.
    AccountTable,
    /// The statement that gives an account that is there already a password, and unlocks it, with `{account}` and `{password}` in it.
    AccountReset,
    /// Options that every sandbox has, unless its own options name them: `key=value`, or a key alone.
    DefaultOption,
    /// Options that are decided when the data directory is made, and that no later start can change: `key=value:argument of the init program`; a key
    /// alone where the server itself makes the directory, and is given the same option at each start.
    InitOption,
    /// The number of the signal that asks for a clean and fast end.
    StopSignal,

    // ---- disk
    /// The option that chooses how data files are written, and its names for direct and for buffered writes.
    FlushMethod,
    /// Options with which all reading and writing goes through the C library's calls, by one thread each.
    SynchronousIo,
    /// The variable that chooses how reads are given to the kernel.
    IoMethod,

    // ---- memory
    /// The variable in which the server names its malloc.
    MallocLibrary,
    /// Native huge pages for the pool: the server's option for each of `on`, `try` and `off`.
    HugePages,
    /// The variable that says whether huge pages are used, not only asked for.
    HugePagesStatus,
    /// The variable that says how many huge pages the server's shared memory needs.
    HugePagesNeeded,
    /// The memory that the server puts into huge pages, each allocation rounded up separately: `pool`, `log` (two buffers), `keys`, `aria`. `page or
    /// more`: an allocation that is smaller than a huge page stays in ordinary pages.
    LargePageUsers,
    /// The server takes huge pages as System V segments (SHM_HUGETLB), for which the kernel asks for a group (vm.hugetlb_shm_group) and counts locked
    /// memory.
    LargePageSegments,
    /// The variable by which the buffer pool is resized while the server runs.
    PoolResize,
    /// The variable that chooses what a query does when it finds no free page in the buffer pool.
    EmptyFreeListAlgorithm,
    /// The variable by which the server chooses its sizes from the machine's RAM.
    DedicatedServer,
    /// The instruments that count the server's memory by its purpose.
    MemoryInstruments,
    /// The view of the allocations of the session's own backend, by memory context.
    BackendMemoryContexts,
    /// The function that writes another backend's memory contexts to the log.
    LogBackendMemoryContexts,
    /// The view of the contents of the main shared memory segment.
    SharedMemoryAllocations,

    // ---- counters
    /// The statement that yields the status counters.
    ServerStatus,
    /// The statement whose third column is InnoDB's status, as text.
    InnodbStatus,
    /// The column of `INNODB_METRICS` that says whether a counter is on, and the value of that column when the counter is on.
    InnodbMetrics,
    /// The view of what a database has read and done; its rows can be turned into JSON.
    DatabaseStatistics,
    /// The view of the background writer.
    BgwriterStatistics,
    /// The view of the checkpointer, where the checkpointer has a view of its own.
    CheckpointerStatistics,
    /// The view of the write-ahead log.
    WalStatistics,
    /// The view of reads and writes by kind of process.
    IoStatistics,
    /// The extension that counts by statement.
    StatementStatistics,

    // ---- logs
    /// The destination of the log that writes JSON.
    JsonLog,
    /// The variable by which the slow log tells more about a statement.
    SlowLogDetail,

    // ---- accounts
    /// The authentication plugin of an account for which none was named.
    DefaultAuthentication,
    /// The plugin, and its library where the library must be loaded first.
    NativePassword,
    /// The same for this plugin.
    CachingSha2Password,
    /// The same for this plugin.
    Ed25519,
    /// The same for this plugin.
    Parsec,

    /// The statement that limits an account's connections; `{account}` and `{limit}` stand for both.
    AccountLimit,
    /// Rights that lift an account above its own limit of connections.
    BeyondAccountLimit,
    /// Rights by which an account is let in when all connections for ordinary accounts are taken.
    ConnectionReserve,
    /// The table with the roles that are active from an account's login on.
    DefaultRoles,

    // ---- tables
    /// The clause, or the word, with which a secondary index is made while other sessions write to its table.
    OnlineIndex,
    /// The variable by which the redo log is resized while the server runs.
    RedoLogResize,

    // ---- replication
    /// The parts of a global transaction id, and the variable with the ids of this server.
    Gtid,
    /// Global transaction ids may carry a tag.
    GtidTags,
    /// Options of a primary with replicas. Without a row, Wringer does not set up replication for that version.
    PrimaryOption,
    /// Options of a replica.
    ReplicaOption,
    /// `CHANGE ... TO`; the word for the primary, in keys and columns; the word for the replica, in statements and columns; the options by which the
    /// replica uses GTIDs, logs in, and tries again.
    ReplicationWords,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_with_underscores() {
        assert_eq!(Capability::EmptyFreeListAlgorithm.name(), "empty_free_list_algorithm");
        assert_eq!(Capability::CachingSha2Password.name(), "caching_sha2_password");
    }
}
