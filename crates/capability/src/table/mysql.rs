// SPDX-License-Identifier: Apache-2.0
//! MySQL. The server initialises its own data directory. Debian has MySQL in one suite only. Two defaults differ from MariaDB's: LOAD DATA LOCAL, by
//! which `fill` writes, is off, and a second port (33060, the X protocol) is on.

use super::family::{METRICS, STATUS};
use super::{Entry, table};

/// The redo log's figures with `lsn` in their names are positions in the log, which only grow.
const OWN_STATUS: &[&str] = &["!Innodb_redo_log_*_lsn", "Innodb_redo_log_*", "Innodb_undo_tablespaces_*"];

pub(super) const TABLE: &[Entry] = table! { Mysql:
    ServerProgram [] .. [] => ["mysqld"];
    ProgramFolder [] .. [] => ["sbin", "bin", "libexec"];
    ShareFolder [] .. [] => ["share/mysql", "share"];
    ShareMarker [] .. [] => ["english/errmsg.sys"];
    ClientProgram [] .. [] => ["mysql"];
    ServerPackage [] .. [] => ["mysql-server-core*"];
    CompanionPackage [] .. [] => ["mysql-client-core{star}"];
    OtherSuite [] .. [] => ["Debian sid"];
    InitOption [8] .. [] => [
        "innodb_page_size",
        "innodb_data_file_path",
        "innodb_data_home_dir",
        "innodb_undo_directory",
        "innodb_log_group_home_dir",
        "lower_case_table_names",
    ], "MySQL 8.0 manual, lower_case_table_names: fixed when the server is initialized; seen in 9.7";
    InitOption [] .. [8] => [
        "innodb_page_size",
        "innodb_data_file_path",
        "innodb_data_home_dir",
        "innodb_undo_directory",
        "innodb_undo_tablespaces",
        "innodb_log_group_home_dir",
    ], "MySQL 5.7 manual, innodb_undo_tablespaces: fixed when the instance is initialized";
    DefaultOption [8] .. [] => [
        "innodb_flush_method=O_DIRECT",
        "skip_log_bin",
        "skip_name_resolve",
        "character_set_server=utf8mb4",
        "local_infile=on",
        "mysqlx=off",
    ], "MySQL 8.0 manual, What Is New in MySQL 8.0: local_infile off, X Plugin enabled by default";
    DefaultOption [] .. [8] => [
        "innodb_flush_method=O_DIRECT",
        "skip_log_bin",
        "skip_name_resolve",
        "character_set_server=utf8mb4",
    ], "MySQL 8.0 manual, What Is New in MySQL 8.0: local_infile off, X Plugin enabled by default";
    AccountReset [] .. [] => ["ALTER USER {account} IDENTIFIED BY '{password}' ACCOUNT UNLOCK"];
    SeriesNumbers [] .. [] => ["2"];
    FlushMethod [] .. [] => ["innodb_flush_method", "O_DIRECT", "fsync"];
    SynchronousIo [] .. [] => ["innodb_use_native_aio=0"];
    StopSignal [] .. [] => ["15"];

    // there is no "try": where there are no huge pages, the server always goes on without them
    HugePages [] .. [] => ["on=large_pages=on", "try=large_pages=on", "off=large_pages=off"];
    LargePageUsers [] .. [] => ["pool"];
    LargePageSegments [] .. [8, 0, 27] => ["shmget"], "MySQL 8.0 manual, Enabling Large Page Support; mmap since large_page_alloc-linux.h, 8.0.27; seen in 9.7.4";
    PoolResize [5, 7, 5] .. [] => ["innodb_buffer_pool_size"], "MySQL 5.7.5 release notes, WL#6117; refused by 5.6.24";
    DedicatedServer [8, 0, 3] .. [] => ["innodb_dedicated_server"], "MySQL 8.0.3 release notes";
    MemoryInstruments [5, 7, 2] .. [] => ["performance_schema: memory/%"], "MySQL 5.7.2 release notes, WL#3249; absent in 5.6.24";

    ServerStatus [] .. [] => ["SHOW GLOBAL STATUS"], gauges [STATUS, OWN_STATUS];
    InnodbStatus [] .. [] => ["SHOW ENGINE INNODB STATUS"];
    InnodbMetrics [5, 6] .. [] => ["STATUS", "'enabled'"], "MySQL 5.6 manual, The INFORMATION_SCHEMA INNODB_METRICS Table; seen in 5.6.24", gauges [METRICS];
    SlowLogDetail [8, 0, 14] .. [] => ["log_slow_extra"], "MySQL 8.0.14 release notes";

    DefaultAuthentication [8, 0, 4] .. [] => ["caching_sha2_password"], "MySQL 8.0.4 release notes";
    DefaultAuthentication [] .. [8, 0, 4] => ["mysql_native_password"], "MySQL 8.0.4 release notes";
    // from 8.4 on the plugin is there, but off until the server is started with --mysql-native-password=ON
    NativePassword [] .. [9] => ["mysql_native_password"], "MySQL 9.0.0 release notes: removed";
    CachingSha2Password [8, 0, 3] .. [] => ["caching_sha2_password"], "MySQL 8.0.3 release notes";

    AccountLimit [5, 7, 6] .. [] => ["ALTER USER {account} WITH MAX_USER_CONNECTIONS {limit}"],
        "MySQL 5.7.6 release notes: ALTER USER takes resource limits; GRANT refuses them since 8.0.11, seen in 9.7.4";
    AccountLimit [] .. [5, 7, 6] => ["GRANT USAGE ON *.* TO {account} WITH MAX_USER_CONNECTIONS {limit}"],
        "MySQL 5.6 manual, GRANT Syntax";
    ConnectionReserve [8, 0, 14] .. [] => ["SUPER", "CONNECTION_ADMIN", "SERVICE_CONNECTION_ADMIN"],
        "MySQL 8.0.14 release notes, WL#12138; check_restrictions_for_com_connect_command in sql_connect.cc, 8.0.28";
    ConnectionReserve [] .. [8, 0, 14] => ["SUPER", "CONNECTION_ADMIN"], "MySQL 8.0.14 release notes, WL#12138";
    DefaultRoles [8] .. [] => ["mysql.default_roles"], "MySQL 8.0 manual, Using Roles";

    OnlineIndex [5, 6] .. [] => ["ALGORITHM=INPLACE, LOCK=NONE"], "MySQL 5.6 manual, Online DDL Operations; seen in 5.6.24";
    RedoLogResize [8, 0, 30] .. [] => ["innodb_redo_log_capacity"], "MySQL 8.0.30 release notes";

    Gtid [5, 6, 5] .. [] => ["uuid:interval", "gtid_executed"], "MySQL 5.6.5 release notes; seen in 5.6.24";
    GtidTags [8, 3] .. [] => ["uuid:tag:interval"], "MySQL 8.3.0 release notes; MYSQL_TAGGED_GTIDS_VERSION_SUPPORT of its client library is 80300";
    PrimaryOption [5, 7, 8] .. [] => ["log_bin=binlog", "gtid_mode=on", "enforce_gtid_consistency=on"],
        "MySQL 5.7.8 release notes: super_read_only";
    ReplicaOption [8, 0, 26] .. [] => [
        "log_bin=binlog",
        "gtid_mode=on",
        "enforce_gtid_consistency=on",
        "relay_log=relay",
        "super_read_only=on",
        "skip_replica_start=on",
    ], "MySQL 8.0.26 release notes: source and replica for master and slave";
    ReplicaOption [5, 7, 8] .. [8, 0, 26] => [
        "log_bin=binlog",
        "gtid_mode=on",
        "enforce_gtid_consistency=on",
        "log_slave_updates=on",
        "relay_log=relay",
        "super_read_only=on",
        "skip_slave_start=on",
    ], "MySQL 5.7.8 release notes: super_read_only";
    // since 8.4 the old words are gone; since 9 the number of tries is limited, and low by default
    ReplicationWords [8, 0, 26] .. [] => [
        "CHANGE REPLICATION SOURCE TO",
        "Source",
        "Replica",
        "SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 86400",
    ], "MySQL 8.0.26 release notes: source and replica for master and slave";
    ReplicationWords [8, 0, 4] .. [8, 0, 26] => [
        "CHANGE MASTER TO",
        "Master",
        "Slave",
        "MASTER_AUTO_POSITION = 1, GET_MASTER_PUBLIC_KEY = 1, MASTER_CONNECT_RETRY = 1",
    ], "MySQL 8.0.4 release notes: caching_sha2_password, whose first login without TLS needs the server's public key";
    ReplicationWords [5, 7, 8] .. [8, 0, 4] => [
        "CHANGE MASTER TO",
        "Master",
        "Slave",
        "MASTER_AUTO_POSITION = 1, MASTER_CONNECT_RETRY = 1",
    ], "MySQL 5.7.8 release notes: super_read_only";
};
