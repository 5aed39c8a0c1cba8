// SPDX-License-Identifier: Apache-2.0
//! What servers differ in. Each says what its words in the table are.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    // ---- finding, fetching and starting a server
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
    /// The variable in which the server says whose malloc it has.
    MallocLibrary,
    /// Native huge pages for the pool: the server's option for each of `on`, `try` and `off`.
    HugePages,
    /// The variable that says whether huge pages are used, not only asked for.
    HugePagesStatus,
    /// The variable that says how many huge pages the server's shared memory needs.
    HugePagesNeeded,
    /// What it puts into huge pages, each allocation rounded up by itself: `pool`, `log` (two buffers), `keys`, `aria`. `page or more`: what is
    /// smaller than a page stays in ordinary ones.
    LargePageUsers,
    /// It takes them as System V segments (SHM_HUGETLB), for which the kernel asks for a group (vm.hugetlb_shm_group) and counts locked memory.
    LargePageSegments,
    /// The variable by which the buffer pool is resized while the server runs.
    PoolResize,
    /// The variable that chooses what a query does which finds no free page in the buffer pool.
    EmptyFreeListAlgorithm,
    /// The variable by which the server sizes itself after the machine's RAM.
    DedicatedServer,
    /// The instruments that count the server's memory by what it is for.
    MemoryInstruments,
    /// The view of what one's own backend has allocated, by memory context.
    BackendMemoryContexts,
    /// The function that writes another backend's memory contexts to the log.
    LogBackendMemoryContexts,
    /// The view of what is in the main shared memory segment.
    SharedMemoryAllocations,

    // ---- counters
    /// The statement that yields the status counters.
    ServerStatus,
    /// The statement whose third column is InnoDB's account of itself, in words.
    InnodbStatus,
    /// The column of `INNODB_METRICS` that says that a counter counts, and its value then.
    InnodbMetrics,
    /// The view of what a database has read and done; its rows can be turned into JSON.
    DatabaseStatistics,
    /// The view of the background writer.
    BgwriterStatistics,
    /// The view of the checkpointer, where it has one of its own.
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
    /// The variable by which the slow log tells more of a statement.
    SlowLogDetail,

    // ---- accounts
    /// The authentication plugin of an account for which none was named.
    DefaultAuthentication,
    /// The plugin, and the library where it must be loaded first.
    NativePassword,
    /// As above.
    CachingSha2Password,
    /// As above.
    Ed25519,
    /// As above.
    Parsec,

    /// The statement that limits an account's connections; `{account}` and `{limit}` stand for both.
    AccountLimit,
    /// Rights that lift an account above its own limit of connections.
    BeyondAccountLimit,
    /// Rights by which an account is let in when ordinary ones find all connections taken.
    ConnectionReserve,

    // ---- tables
    /// The clause, or the word, with which a secondary index is made while others write to its table.
    OnlineIndex,
    /// The variable by which the redo log is resized while the server runs.
    RedoLogResize,

    // ---- replication
    /// What a global transaction id is made of, and the variable that has those of this server.
    Gtid,
    /// Global transaction ids may carry a tag.
    GtidTags,
    /// Options of a primary with replicas. None: Wringer does not set up replication there.
    PrimaryOption,
    /// Options of a replica.
    ReplicaOption,
    /// `CHANGE ... TO`; the word for the primary, in keys and columns; the word for the replica, in statements and columns; what makes
    /// it go by GTID, and how it logs in and tries again.
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
