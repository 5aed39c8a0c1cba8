// SPDX-License-Identifier: Apache-2.0
//! The table of memory that no setting limits: {name, flavour, since, until}, the reason, and how the bound counts this memory all the same.

use super::settings::Settings;
use capability::Flavour::{self, Mariadb, Mysql, Postgresql};

/// Holds for a flavour from `since` (included) up to `until` (excluded); an empty one is open.
pub(crate) struct Open {
    pub(crate) name: &'static str,
    flavours: &'static [Flavour],
    since: &'static [u32],
    until: &'static [u32],
    /// Only where this setting has this value.
    only: Option<(&'static str, &'static str)>,
    pub(crate) why: &'static str,
    pub(crate) counted: Counted,
    pub(crate) remedy: Option<&'static str>,
}

/// How the bound counts memory without a limit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Counted {
    /// By the number of operations at once that is assumed.
    Operations,
    Settings,
    Now,
    Largest,
    Not,
}

impl Open {
    pub(crate) fn holds(&self, settings: &Settings<'_>) -> bool {
        let is_on = self.only.is_none_or(|(name, value)| settings.is(name, value));
        is_on && settings.holds(self.flavours, self.since, self.until)
    }
}

const BOTH: &[Flavour] = &[Mariadb, Mysql];
const PG: &[Flavour] = &[Postgresql];

const fn open(name: &'static str, flavours: &'static [Flavour], counted: Counted, why: &'static str) -> Open {
    Open { name, flavours, since: &[], until: &[], only: None, why, counted, remedy: None }
}

pub(crate) const ROWS: &[Open] = &[
    Open {
        remedy: Some("--operations N, if you know your statements"),
        ..open(
            "sorts, joins and temporary tables of one statement",
            BOTH,
            Counted::Operations,
            "a statement may have any number of sub-selects, and each has its own",
        )
    },
    open(
        "buffers that a session makes larger for itself",
        BOTH,
        Counted::Settings,
        "every account may SET sort_buffer_size, join_buffer_size, tmp_table_size and others for its session",
    ),
    Open {
        remedy: Some("max_session_mem_used ends a statement that holds more"),
        ..open("a session's own memory", &[Mariadb], Counted::Largest, SESSION)
    },
    Open {
        since: &[8, 0, 28],
        remedy: Some("connection_memory_limit limits a part of it"),
        ..open("a session's own memory", &[Mysql], Counted::Largest, SESSION)
    },
    Open { until: &[8, 0, 28], ..open("a session's own memory", &[Mysql], Counted::Largest, SESSION) },
    open(
        "tables of the engine MEMORY",
        BOTH,
        Counted::Now,
        "each has at most max_heap_table_size, but there may be any number of them",
    ),
    Open {
        remedy: Some("table_open_cache and table_definition_cache limit their number"),
        ..open(
            "open tables and their definitions",
            BOTH,
            Counted::Now,
            "a table takes what its columns, indexes and partitions take",
        )
    },
    Open {
        only: Some(("performance_schema", "OFF")),
        remedy: Some("performance_schema=ON in the server's option file, and a restart"),
        ..open(
            "key caches with names of their own",
            &[Mysql],
            Counted::Now,
            "only performance_schema tells their sizes, and it is off",
        )
    },
    open("row locks and transactions of InnoDB", BOTH, Counted::Now, "one statement may lock any number of rows"),
    Open {
        only: Some(("performance_schema", "ON")),
        ..open(
            "performance_schema",
            BOTH,
            Counted::Now,
            "it grows with tables, accounts, statements; only its growth with threads is counted",
        )
    },
    Open {
        only: Some(("event_scheduler", "ON")),
        ..open("events", BOTH, Counted::Not, "each event that runs is a session beside max_connections")
    },
    Open {
        since: &[8, 0, 14],
        ..open(
            "connections to admin_address",
            &[Mysql],
            Counted::Not,
            "where admin_address is set, accounts with SERVICE_CONNECTION_ADMIN connect beside max_connections",
        )
    },
    Open {
        only: Some(("range_optimizer_max_mem_size", "0")),
        ..open("range optimizer", &[Mysql], Counted::Not, "range_optimizer_max_mem_size is 0: no limit")
    },
    open("what malloc keeps", BOTH, Counted::Now, KEPT),
    Open {
        remedy: Some("--operations N, if you know your plans"),
        ..open("sorts and hashes of one statement", PG, Counted::Operations, "a plan may have any number of them")
    },
    open(
        "settings that a session raises for itself",
        PG,
        Counted::Settings,
        "every role may SET work_mem, temp_buffers and maintenance_work_mem for its session",
    ),
    open(
        "a backend's own memory",
        PG,
        Counted::Largest,
        "the catalogue cache grows with each table that is touched; prepared statements, cursors, functions and compiled plans have no limit",
    ),
    open("large values", PG, Counted::Not, "a value, a message or an array may have 1 GB, and is held several times"),
    open(
        "hash joins with many equal keys",
        PG,
        Counted::Not,
        "rows with the same key cannot be parted, so they may exceed the limit of a hash",
    ),
    open("what malloc keeps", PG, Counted::Now, KEPT),
];

const SESSION: &str = "the tree of a statement, BLOB values, prepared statements, stored programs, user variables and cursors have no limit in bytes";
const KEPT: &str = "freed blocks stay with the process where others lie behind them";
