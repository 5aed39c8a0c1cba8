// SPDX-License-Identifier: Apache-2.0
//! The part of a server that a function belongs to, by the function's name.

use crate::frame::Label;
use crate::tree::Tree;

/// Parts of a server, and how the names of their functions begin. The first part that fits is taken.
type Parts = &'static [(&'static str, &'static str)];

/// Each family of servers has a table of its own, because functions of different servers have the same names: `hash_create` makes a hash table of InnoDB,
/// and in PostgreSQL one of any part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// MySQL, MariaDB and Percona Server, and their clients.
    Mysql,
    Postgresql,
    /// A program that is none of these servers: a shell's `hash_create` is not InnoDB's.
    Other,
}

/// Memory of the C library that no part of a server has asked for. With all mappings as the heap, these are the largest ones; a malloc's arena is as large
/// as the range of addresses that it reserves.
const LIBRARY: Parts =
    &[("stacks of threads", "allocate_stack pthread_create"), ("malloc's arenas", "alloc_new_heap new_heap")];

/// How the names begin of functions that MySQL, MariaDB and Percona Server alone have. Each of their threads has one of them on its paths.
const OF_MYSQL: [&str; 14] = [
    "mysqld_main",
    "init_server_components",
    "handle_one_connection",
    "my_malloc",
    "my_once_alloc",
    "my_large_malloc",
    "my_thread_init",
    "THD::",
    "Log_event",
    "ha_innobase",
    "innobase_",
    "buf_pool",
    "btr_",
    "srv_",
];

/// Functions that PostgreSQL alone has, and that are on many paths of its processes.
const OF_POSTGRESQL: [&str; 3] = ["PostmasterMain", "PostgresMain", "AllocSetContextCreateInternal"];

const MYSQL: Parts = &[
    (
        "replication",
        "Log_event Rows_log_event Query_log_event Relay_log rpl_ Rpl_ handle_slave Binlog_ MYSQL_BIN_LOG Master_info Gtid_  \
         binlog_",
    ),
    (
        "InnoDB",
        "innobase_ innodb_ ha_innobase buf_ btr_ trx_ dict_ fil_ fsp_ lock_ log_ recv_ srv_ row_ ibuf_ mtr_ rec_ que_ fts_ os_aio  \
         os_thread sync_ AIO hash0 hash_create ha_create ib_ ibt_ page_ purge_ read_view pars_ Log_sys log_t dblwr  \
         Double_write tpool::",
    ),
    // a server without symbols of its static functions: the names do not tell which engine it is
    (
        "start of a storage engine",
        "ha_initialize_handlerton ha_signal_ddl_recovery_done ha_signal_tc_log_recovery_done",
    ),
    ("query cache", "Query_cache::"),
    ("performance schema", "pfs_ PFS_ init_instruments pfs:: initialize_performance_schema find_or_create_"),
    (
        "key cache and Aria",
        "init_key_cache ha_init_key_cache init_pagecache multi_init_pagecache pagecache_ ma_ maria_ mi_ _ma_ _mi_ ha_maria  \
         ha_myisam translog_ heap_ hp_",
    ),
    (
        "optimizer and execution",
        "JOIN Item make_join create_tmp_table Unique filesort Sort_param SEL_ SQL_SELECT QUICK_ Explain_ SELECT_LEX st_select_lex  \
         opt_ Filesort hash_ build_",
    ),
    ("stored routines", "sp_"),
    ("parser", "MYSQLparse Lex_ lex_ LEX::"),
    ("tables and dictionary", "open_table TABLE_SHARE alloc_table_share TDC_ tdc_ tc_ Table_cache dd:: Field_ TABLE::"),
    ("accounts and plug-ins", "acl_ plugin_ Sys_var sys_var mysql_rm servers_ grant_ udf_"),
    (
        "connections and threads",
        "THD:: thd_ create_background_thd Connection_handler handle_one_connection handle_connection create_thread my_net_ net_ vio_ Protocol  \
         connection_ thread_ tp_ lf_pinbox_get_pins allocate_dtv _dl_allocate_tls",
    ),
    (
        "character sets",
        "init_available_charsets get_charset add_collation my_uca my_coll init_state_maps create_fromuni",
    ),
    (
        "start of the program",
        "mysqld_main init_server_components init_common_variables _dl_ dl_ call_init  _GLOBAL__sub __static_init  \
         my_init OPENSSL_ CRYPTO_ OSSL_ __internal_atexit",
    ),
];

/// `hash_create` and `hash_search` are in no part: their callers tell whose hash table it is.
const POSTGRESQL: Parts = &[
    ("replication", "ReplicationSlot WalSnd logicalrep_ ReorderBuffer"),
    (
        "optimizer and execution",
        "ExecInit Exec tuplesort_ tuplestore_ hash_agg_ create_plan planner standard_planner query_planner build_",
    ),
    ("parser", "raw_parser base_yyparse parse_analyze transform pg_parse_query"),
    (
        "tables and dictionary",
        "RelationBuildDesc RelationCache RelCache SearchCatCache CatalogCache InitCatCache load_relcache lookup_type_cache",
    ),
    ("connections and threads", "PostmasterMain BackendStartup InitProcess pq_ allocate_dtv _dl_allocate_tls"),
    ("start of the program", "_dl_ dl_ call_init OPENSSL_ CRYPTO_ OSSL_ __internal_atexit"),
];

impl Family {
    /// Of the program whose heap this is.
    pub(crate) fn of(tree: &Tree) -> Self {
        let names = || {
            tree.nodes.iter().filter_map(|node| match &node.label {
                Label::Frame(frame) => Some(frame.name()),
                Label::Hidden { .. } | Label::Root(_) => None,
            })
        };
        let is_of_mysql = |name: &str| OF_MYSQL.iter().any(|it| name.starts_with(it));
        match () {
            () if names().any(|name| OF_POSTGRESQL.contains(&name)) => Self::Postgresql,
            () if names().any(is_of_mysql) => Self::Mysql,
            () => Self::Other,
        }
    }

    /// The part of the server that a function belongs to. `name`: without arguments. `None`: the name tells no part.
    pub(crate) fn part(self, name: &str) -> Option<&'static str> {
        let parts = match self {
            Self::Mysql => MYSQL,
            Self::Postgresql => POSTGRESQL,
            Self::Other => &[],
        };
        let fits = |beginning: &str| name.starts_with(beginning);
        LIBRARY
            .iter()
            .chain(parts)
            .find(|(_, beginnings)| beginnings.split_whitespace().any(fits))
            .map(|(part, _)| *part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_part() {
        let of = |name: &str| Family::Mysql.part(name);
        assert_eq!(of("buf_pool_t::create"), Some("InnoDB"));
        assert_eq!(of("Log_event::read_log_event"), Some("replication"));
        assert_eq!(of("ha_initialize_handlerton"), Some("start of a storage engine"));
        assert_eq!(
            of("tpool::thread_pool_generic::thread_pool_generic"),
            Some("InnoDB"),
            "InnoDB alone uses this pool"
        );
        assert_eq!(of("sp_create_assignment_lex"), Some("stored routines"));
        assert_eq!(of("allocate_stack"), Some("stacks of threads"));
        assert_eq!(of("pthread_create@@GLIBC_2.34"), Some("stacks of threads"), "without the C library's static names");
        assert_eq!(of("alloc_new_heap"), Some("malloc's arenas"));
        assert_eq!([of("main"), of("???")], [None, None], "every path begins with main");
    }

    #[test]
    fn the_same_name_in_another_server_is_another_part() {
        let of = |name: &str| [Family::Mysql, Family::Postgresql, Family::Other].map(|family| family.part(name));
        assert_eq!(of("hash_create"), [Some("InnoDB"), None, None], "its caller tells it");
        assert_eq!(of("heap_create"), [Some("key cache and Aria"), None, None]);
        assert_eq!(of("ExecInitHashJoin"), [None, Some("optimizer and execution"), None]);
        assert_eq!(of("ReorderBufferAllocate"), [None, Some("replication"), None]);
        assert_eq!(of("allocate_stack"), [Some("stacks of threads"); 3]);
    }
}
