// SPDX-License-Identifier: Apache-2.0
//! The rows of the table of leaves. "measured": in the facts the ledger was made from, on MariaDB 10.11.19 and 11.8.9, MySQL 9.7.4, PostgreSQL 12 to 18.

use crate::Class;
use crate::aria_cache;
use crate::innodb;
use crate::key_cache;
use crate::private::{active_sessions, idle_sessions, other_counted, other_counted_without_innodb};
use crate::row::{Row, Rule};
use capability::Flavour::{self, Mariadb, Mysql, Postgresql};

/// Memory events that are not added: the kernel knows what of the pool is resident, and a mapped file is not malloc's.
pub(crate) const NO_MEMORY: &[&str] =
    &["memory/innodb/buf_buf_pool", "memory/innodb/buf_pool", "memory/temptable/physical_disk"];

const ALL: &[Flavour] = &[];
const INNODB: &[Flavour] = &[Mariadb, Mysql];
const EVENTS: &str = "performance_schema.memory_summary_global_by_event_name";
const STATUS: &str = "SHOW GLOBAL STATUS";
const INNODB_STATUS: &str = "SHOW ENGINE INNODB STATUS, BUFFER POOL AND MEMORY";
const SMAPS: &str = "/proc/PID/smaps";
const CONTEXTS: &str = "memory contexts, mem_allocated";

const fn row(path: &'static str, flavours: &'static [Flavour], source: &'static str, rule: Rule) -> Row {
    Row { path, flavours, since: &[], until: &[], source, rule }
}

const fn since(since: &'static [u32], row: Row) -> Row {
    Row { since, ..row }
}

const fn until(until: &'static [u32], row: Row) -> Row {
    Row { until, ..row }
}

pub(crate) const ROWS: &[Row] = &[
    // what the kernel alone names
    row("program/text", ALL, SMAPS, Rule::Class(Class::ProgramText)),
    row("program/data", ALL, SMAPS, Rule::Class(Class::ProgramData)),
    row("program/special", ALL, SMAPS, Rule::Class(Class::Special)),
    row("files/mapped", ALL, SMAPS, Rule::Class(Class::MappedFile)),
    row("stacks", ALL, SMAPS, Rule::Class(Class::Stack)),
    row("kernel/page_tables", ALL, "/proc/PID/status, VmPTE", Rule::PageTables),
    row("kernel/io_rings", ALL, SMAPS, Rule::Class(Class::IoRings)),
    row("huge_pages/other", ALL, "/proc/PID/smaps, Private_Hugetlb and Shared_Hugetlb", Rule::Class(Class::HugePages)),
    row("data_cache/buffer_pool", INNODB, "/proc/PID/smaps, the mapping of the pool", Rule::Class(Class::BufferPool)),
    row("log/redo_buffer", INNODB, "/proc/PID/smaps, the mapping of the buffer", Rule::Class(Class::LogBuffer)),
    row("data_cache/key_cache", INNODB, "/proc/PID/smaps, the mapping of the blocks", Rule::Class(Class::KeyCache)),
    row("data_cache/aria_cache", INNODB, "/proc/PID/smaps, the mapping of the blocks", Rule::Class(Class::AriaCache)),
    row(
        "data_cache/key_and_aria_cache",
        INNODB,
        "/proc/PID/smaps, one mapping of both",
        Rule::Class(Class::KeyAndAriaCache),
    ),
    row("shared_memory/main", ALL, SMAPS, Rule::Class(Class::MainShared)),
    row("shared_memory/dynamic", ALL, SMAPS, Rule::Class(Class::DynamicShared)),
    row("allocator/retained", ALL, "walk of malloc's chunks, free ones that are resident", Rule::Walk),
    // caches of data: these rows hold where no mapping was told to be the cache's
    row("data_cache/buffer_pool", INNODB, "SHOW GLOBAL STATUS, Innodb_buffer_pool_bytes_data", Rule::Meter(pool_data)),
    row(
        "data_cache/buffer_pool_overhead",
        INNODB,
        EVENTS,
        Rule::Events(&[
            "memory/innodb/os0event",
            "memory/innodb/buf0buf",
            "memory/innodb/buf_stat_per_index_index_t",
            "memory/innodb/buf0dblwr",
        ]),
    ),
    until(
        &[10, 2],
        row(
            "data_cache/buffer_pool_overhead",
            &[Mariadb],
            "SHOW GLOBAL STATUS, Innodb_mem_total, without the pool; the size of a descriptor verified on 10.1.23",
            Rule::Meter(innodb::descriptors_counted),
        ),
    ),
    row("data_cache/page_index", INNODB, INNODB_STATUS, Rule::Innodb("Page hash")),
    since(
        &[5, 7],
        row(
            "data_cache/page_index",
            &[Mysql],
            "storage/innobase/buf/buf0buf.cc; a heap profile of 9.7.4",
            Rule::Formula(innodb::page_index),
        ),
    ),
    since(
        &[10, 6],
        row(
            "data_cache/page_index",
            &[Mariadb],
            "storage/innobase/buf/buf0buf.cc; growth with the pool measured",
            Rule::Formula(innodb::page_index),
        ),
    ),
    row("data_cache/adaptive_hash", INNODB, INNODB_STATUS, Rule::Innodb("Adaptive hash index")),
    row(
        "data_cache/adaptive_hash",
        &[Mariadb],
        "SHOW GLOBAL STATUS, Innodb_mem_adaptive_hash",
        Rule::Meter(innodb::adaptive_hash_counted),
    ),
    since(
        &[5, 7],
        row(
            "data_cache/adaptive_hash",
            &[Mysql],
            "storage/innobase/btr/btr0sea.cc; a heap profile of 9.7.4",
            Rule::Formula(innodb::adaptive_hash),
        ),
    ),
    row(
        "data_cache/adaptive_hash",
        INNODB,
        EVENTS,
        Rule::Events(&["memory/innodb/adaptive hash index", "memory/innodb/btr0sea"]),
    ),
    row(
        "data_cache/key_cache",
        INNODB,
        STATUS,
        Rule::Blocks { used: "Key_blocks_used", block: "key_cache_block_size", of: "key_buffer_size" },
    ),
    row(
        "data_cache/key_cache_descriptors",
        INNODB,
        "mysys/mf_keycache.c; measured on 10.11.19",
        Rule::Formula(key_cache::descriptors),
    ),
    row("data_cache/key_cache", &[Mariadb], EVENTS, Rule::Events(&["memory/mysys/KEY_CACHE"])),
    row(
        "data_cache/aria_cache",
        &[Mariadb],
        STATUS,
        Rule::Blocks { used: "Aria_pagecache_blocks_used", block: "aria_block_size", of: "aria_pagecache_buffer_size" },
    ),
    row(
        "data_cache/aria_cache_descriptors",
        &[Mariadb],
        "storage/maria/ma_pagecache.c; heap profiles of 10.1.23 and 11.4.5",
        Rule::Formula(aria_cache::descriptors),
    ),
    row(
        "data_cache/query_cache",
        &[Mariadb],
        STATUS,
        Rule::Less { size: "query_cache_size", free: "Qcache_free_memory" },
    ),
    until(
        &[8],
        row(
            "data_cache/query_cache",
            &[Mysql],
            "MySQL 8.0 release notes: the query cache was removed",
            Rule::Less { size: "query_cache_size", free: "Qcache_free_memory" },
        ),
    ),
    row("data_cache/query_cache", INNODB, EVENTS, Rule::Events(&["memory/sql/Query_cache"])),
    row("data_cache/full_text", INNODB, EVENTS, Rule::Events(&["memory/innodb/fts"])),
    // log and binlog
    row(
        "log/redo_buffer",
        INNODB,
        EVENTS,
        Rule::Events(&[
            "memory/innodb/log_buffer_memory",
            "memory/innodb/log0log",
            "memory/innodb/ut0link_buf",
            "memory/innodb/redo_log",
        ]),
    ),
    until(
        &[10, 2],
        row(
            "log/redo_buffer",
            &[Mariadb],
            "storage/xtradb/log/log0log.cc; growth with the buffer measured on 10.1.23",
            Rule::Formula(innodb::log_buffer_zeroed),
        ),
    ),
    until(
        &[10, 2],
        row(
            "log/archive_buffer",
            &[Mariadb],
            "storage/xtradb/log/log0log.cc; a heap profile of 10.1.23",
            Rule::Formula(innodb::archive_buffer_zeroed),
        ),
    ),
    row("log/recovery", INNODB, INNODB_STATUS, Rule::Innodb("Recovery system")),
    row("log/recovery", INNODB, EVENTS, Rule::Events(&["memory/innodb/log0recv"])),
    row(
        "binlog",
        INNODB,
        EVENTS,
        Rule::Events(&[
            "memory/sql/binlog",
            "memory/sql/Log_event",
            "memory/sql/write_set",
            "memory/sql/Gtid",
            "memory/sql/MYSQL_BIN_LOG",
            "memory/sql/Owned_gtids",
            "memory/mysys/IO_CACHE",
            "memory/binlog",
        ]),
    ),
    row(
        "replication",
        INNODB,
        EVENTS,
        Rule::Events(&[
            "memory/sql/Relay_log",
            "memory/sql/Slave",
            "memory/sql/SLAVE",
            "memory/sql/Master_info",
            "memory/sql/rpl",
            "memory/sql/Rpl",
            "memory/sql/Row_data_memory",
            "memory/sql/Mts",
            "memory/sql/slave",
            "memory/group_rpl",
        ]),
    ),
    // metadata
    row(
        "metadata/dictionary",
        INNODB,
        EVENTS,
        Rule::Events(&["memory/innodb/memory", "memory/innodb/mem0mem", "memory/innodb/dict", "memory/sql/dd::"]),
    ),
    row("metadata/dictionary", &[Mariadb], STATUS, Rule::Status("Innodb_mem_dictionary")),
    row("metadata/dictionary", INNODB, INNODB_STATUS, Rule::Innodb("Dictionary memory allocated")),
    row("metadata/dictionary_index", INNODB, INNODB_STATUS, Rule::Innodb("Dictionary cache")),
    since(
        &[5, 7],
        row(
            "metadata/dictionary_index",
            &[Mysql],
            "storage/innobase/dict/dict0dict.cc; a heap profile of 9.7.4",
            Rule::Formula(innodb::dictionary_index),
        ),
    ),
    row("metadata/dictionary_index", INNODB, EVENTS, Rule::Events(&["memory/innodb/hash0hash"])),
    row(
        "metadata/collations",
        &[Mariadb],
        "mysys/my_once.c, the server's list of blocks at my_once_root_block; verified on 10.1.23, 10.11.19 and 11.4.5",
        Rule::Collations,
    ),
    row(
        "metadata/tables",
        INNODB,
        EVENTS,
        Rule::Events(&[
            "memory/sql/TABLE",
            "memory/sql/table_",
            "memory/sql/Table_",
            "memory/innodb/ha_innodb",
            "memory/innodb/ha0",
            "memory/innodb/row0",
        ]),
    ),
    row(
        "metadata/accounts",
        INNODB,
        EVENTS,
        Rule::Events(&[
            "memory/sql/acl_",
            "memory/sql/ACL_",
            "memory/sql/sql_acl",
            "memory/sql/User_level",
            "memory/sql/user_conn",
            "memory/sql/host_cache",
        ]),
    ),
    row("metadata/files", INNODB, INNODB_STATUS, Rule::Innodb("File system")),
    row(
        "metadata/files",
        INNODB,
        EVENTS,
        Rule::Events(&["memory/innodb/fil0fil", "memory/innodb/os0file", "memory/innodb/fsp0"]),
    ),
    row("locks/index", INNODB, INNODB_STATUS, Rule::Innodb("Lock system")),
    since(
        &[5, 7],
        row(
            "locks/index",
            &[Mysql],
            "storage/innobase/lock/lock0lock.cc; a heap profile of 9.7.4",
            Rule::Formula(innodb::lock_index),
        ),
    ),
    since(
        &[10, 6],
        row(
            "locks/index",
            &[Mariadb],
            "storage/innobase/lock/lock0lock.cc; growth with the pool measured",
            Rule::Formula(innodb::lock_index),
        ),
    ),
    row(
        "locks/held",
        INNODB,
        EVENTS,
        Rule::Events(&["memory/innodb/lock", "memory/innodb/trx", "memory/sql/MDL", "memory/innodb/sync0"]),
    ),
    // sessions, by their events
    row(
        "sessions/idle",
        INNODB,
        EVENTS,
        Rule::Events(&["memory/sql/THD", "memory/sql/thd", "memory/sql/user_var", "memory/mysqlx"]),
    ),
    row(
        "sessions/sort",
        INNODB,
        EVENTS,
        Rule::Events(&["memory/sql/Filesort", "memory/sql/Sort_param", "memory/sql/Unique", "memory/sql/Sort"]),
    ),
    row(
        "sessions/join",
        INNODB,
        EVENTS,
        Rule::Events(&[
            "memory/sql/JOIN_CACHE",
            "memory/sql/hash_join",
            "memory/sql/hash_op",
            "memory/sql/hashed_operation",
            "memory/sql/hash",
        ]),
    ),
    row(
        "sessions/temporary_tables",
        INNODB,
        EVENTS,
        Rule::Events(&["memory/temptable/", "memory/memory/", "memory/sql/TABLE_LIST"]),
    ),
    row("sessions/prepared", INNODB, EVENTS, Rule::Events(&["memory/sql/Prepared_statement"])),
    row(
        "sessions/network",
        INNODB,
        EVENTS,
        Rule::Events(&[
            "memory/sql/NET",
            "memory/sql/net_",
            "memory/vio",
            "memory/mysqld_openssl",
            "memory/sql/String::value",
        ]),
    ),
    // sessions, by the list of them
    row("sessions/idle", &[Mariadb], "information_schema.PROCESSLIST, MEMORY_USED", Rule::Meter(idle_sessions)),
    row(
        "sessions/active",
        &[Mariadb],
        "information_schema.PROCESSLIST, MEMORY_USED, without what memory events of sessions name",
        Rule::Meter(active_sessions),
    ),
    since(
        &[10, 2],
        row(
            "server/counted",
            &[Mariadb],
            "SHOW GLOBAL STATUS, Memory_used, without its parts that are named above",
            Rule::Meter(other_counted),
        ),
    ),
    until(
        &[10, 2],
        row(
            "server/counted",
            &[Mariadb],
            "SHOW GLOBAL STATUS, Memory_used, without the caches; a heap profile of 10.1.23",
            Rule::Meter(other_counted_without_innodb),
        ),
    ),
    row("instrumentation/performance_schema", INNODB, EVENTS, Rule::Events(&["memory/performance_schema/"])),
    row(
        "instrumentation/performance_schema",
        INNODB,
        "SHOW ENGINE PERFORMANCE_SCHEMA STATUS, performance_schema.memory",
        Rule::Meter(performance_schema),
    ),
    // PostgreSQL
    since(&[13], row("shared_memory/<name>", &[Postgresql], "pg_shmem_allocations", Rule::Allocations)),
    since(
        &[13],
        row(
            "backends/catalogue_cache",
            &[Postgresql],
            CONTEXTS,
            Rule::Contexts(&[
                "CacheMemoryContext",
                "index info",
                "relation rules",
                "RelCache",
                "Relcache",
                "Partition",
                "partition",
                "RI_",
                "TypCache",
                "Type information",
                "Record information",
                "Operator",
                "LOCALLOCK",
                "smgr",
                "Attopt",
                "Tablespace",
            ]),
        ),
    ),
    since(
        &[13],
        row(
            "backends/plans",
            &[Postgresql],
            CONTEXTS,
            Rule::Contexts(&["CachedPlan", "Prepared Queries", "SPI Plan", "PL/pgSQL function"]),
        ),
    ),
    since(
        &[13],
        row(
            "backends/sort",
            &[Postgresql],
            CONTEXTS,
            Rule::Contexts(&["TupleSort", "Caller tuples", "Tuplesort", "tuplestore"]),
        ),
    ),
    since(&[13], row("backends/hash", &[Postgresql], CONTEXTS, Rule::Contexts(&["Hash", "TupleHashTable", "HashAgg"]))),
    since(
        &[13],
        row(
            "backends/executor",
            &[Postgresql],
            CONTEXTS,
            Rule::Contexts(&[
                "ExecutorState",
                "ExprContext",
                "AggContext",
                "Aggregate",
                "Portal",
                "SPI",
                "printtup",
                "WindowAgg",
                "Memoize",
                "Materialize",
            ]),
        ),
    ),
    since(
        &[13],
        row("backends/temporary_tables", &[Postgresql], CONTEXTS, Rule::Contexts(&["LocalBuffer", "Local Buffer"])),
    ),
    since(
        &[13],
        row(
            "backends/message",
            &[Postgresql],
            CONTEXTS,
            Rule::Contexts(&["MessageContext", "RowDescription", "ErrorContext"]),
        ),
    ),
    since(
        &[13],
        row(
            "backends/transaction",
            &[Postgresql],
            CONTEXTS,
            Rule::Contexts(&["TransactionAbort", "TopTransaction", "CurTransaction", "Combo CIDs"]),
        ),
    ),
    since(&[13], row("backends/top", &[Postgresql], CONTEXTS, Rule::Contexts(&["TopMemoryContext"]))),
];

fn pool_data(of: &crate::row::Reckoned<'_>) -> Option<crate::row::Amount> {
    let resident = of.0.pool_data()?;
    Some(crate::row::Amount { resident, allocated: of.0.pool_size().unwrap_or(resident).max(resident) })
}

fn performance_schema(of: &crate::row::Reckoned<'_>) -> Option<crate::row::Amount> {
    of.0.server()?.performance_schema_bytes.map(crate::share::sane).map(crate::row::Amount::whole)
}
