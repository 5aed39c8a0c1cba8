// SPDX-License-Identifier: Apache-2.0
//! The buffers that one session of MySQL, MariaDB or Percona Server may hold. A setting that a server does not have has no line.

use super::buffer::{Buffer, Size, Times, When};
use capability::Flavour::{self, Mariadb, Mysql};

const BOTH: &[Flavour] = &[Mariadb, Mysql];
const MANUAL: &str = "MySQL manual, How MySQL Uses Memory";
const MEASURED: &str = "measured on MariaDB 10.11 and 11.8, MySQL 9.7";
const ONE: Times = Times::Fixed(1);
const EACH: Times = Times::Operations;

const fn always(name: &'static str, setting: &'static str, times: Times, source: &'static str) -> Buffer {
    Buffer::new(name, BOTH, When::Always, Size::Of(setting), times, source)
}

const fn query(
    name: &'static str,
    flavours: &'static [Flavour],
    setting: &'static str,
    times: Times,
    source: &'static str,
) -> Buffer {
    Buffer::new(name, flavours, When::Query, Size::Of(setting), times, source)
}

const fn maintenance(name: &'static str, setting: &'static str, times: Times, source: &'static str) -> Buffer {
    Buffer::new(name, BOTH, When::Maintenance, Size::Of(setting), times, source)
}

pub(crate) const ROWS: &[Buffer] = &[
    always("stack", "thread_stack", ONE, "the whole stack; some 25 KiB of it are touched by simple statements"),
    always("packet buffers, to the client and from it", "max_allowed_packet", Times::Fixed(2), MANUAL),
    always(
        "text of a statement, parsed",
        "max_allowed_packet",
        Times::Fixed(3),
        "a statement of 10 MB held 30 MB beside its packet: measured on MariaDB 10.11 and 11.8, MySQL 9.7",
    ),
    always("first block of a statement", "query_prealloc_size", ONE, MANUAL),
    always("first block of a transaction", "transaction_prealloc_size", ONE, MANUAL),
    always("digest of a statement", "max_digest_length", ONE, MANUAL),
    always("optimizer trace", "optimizer_trace_max_mem_size", ONE, MANUAL),
    always("binlog cache", "binlog_cache_size", ONE, "one each session; beyond it a file").only("log_bin", "ON"),
    always("binlog cache without transaction", "binlog_stmt_cache_size", ONE, "one each session; beyond it a file")
        .only("log_bin", "ON"),
    query("sort", BOTH, "sort_buffer_size", EACH, "one for each sort at once; measured on MariaDB 10.11, MySQL 9.7"),
    query("join", &[Mysql], "join_buffer_size", EACH, "one for each table joined; measured on MySQL 9.7"),
    Buffer::new(
        "join",
        &[Mariadb],
        When::Query,
        Size::Least("join_buffer_size", "join_buffer_space_limit"),
        EACH,
        "one for each table joined, and all of one join together are shrunk to join_buffer_space_limit: JOIN_CACHE::alloc_buffer, sql/sql_join_cache.cc",
    ),
    // each temporary table by itself
    Buffer::new(
        "temporary tables",
        &[Mariadb],
        When::Query,
        Size::Least("tmp_table_size", "max_heap_table_size"),
        EACH,
        MEASURED,
    ),
    Buffer::new(
        "temporary tables",
        &[Mysql],
        When::Query,
        Size::Least("tmp_table_size", "max_heap_table_size"),
        EACH,
        MANUAL,
    )
    .until(&[8]),
    Buffer::new(
        "temporary tables",
        &[Mysql],
        When::Query,
        Size::Least("tmp_table_size", "max_heap_table_size"),
        EACH,
        MANUAL,
    )
    .since(&[8])
    .only("internal_tmp_mem_storage_engine", "MEMORY"),
    // the limit of all TempTables together leaves out the first block of each thread
    Buffer::new("first block of temporary tables", &[Mysql], When::Query, Size::Bytes(1 << 20), ONE, MANUAL)
        .since(&[8])
        .only("internal_tmp_mem_storage_engine", "TempTable"),
    query("scan of a table", BOTH, "read_buffer_size", EACH, MANUAL),
    query("reading rows in order after a sort", BOTH, "read_rnd_buffer_size", EACH, MANUAL),
    query("reading rows by ranges (MRR)", &[Mariadb], "mrr_buffer_size", EACH, "MariaDB documentation"),
    query("filter by row ids", &[Mariadb], "max_rowid_filter_size", EACH, "MariaDB documentation"),
    query("merge of row ids for subqueries", &[Mariadb], "rowid_merge_buff_size", EACH, "MariaDB documentation"),
    query("range optimizer", &[Mysql], "range_optimizer_max_mem_size", ONE, MANUAL),
    query("INTERSECT and EXCEPT", &[Mysql], "set_operations_buffer_size", EACH, MANUAL),
    query("result of a full-text search", BOTH, "innodb_ft_result_cache_limit", ONE, MANUAL),
    query("bulk insert", BOTH, "bulk_insert_buffer_size", ONE, MANUAL),
    maintenance("repair or index of MyISAM", "myisam_sort_buffer_size", ONE, MANUAL),
    maintenance("repair or index of Aria", "aria_sort_buffer_size", ONE, "MariaDB documentation"),
    maintenance("indexes of InnoDB", "innodb_sort_buffer_size", Times::Fixed(64), "a table has at most 64 indexes"),
    maintenance("change of a table in InnoDB", "innodb_ddl_buffer_size", ONE, MANUAL),
];
