// SPDX-License-Identifier: Apache-2.0
//! The few rows that describe the memory for which a server asks for huge pages.

use super::{Asking, number, pairs};
use capability::Flavour;
use ledger::{Missing, ServerSeen, SharedAllocation};

const MYSQL: [&str; 11] = [
    "aria_pagecache_buffer_size",
    "innodb_buffer_pool_chunk_size",
    "innodb_buffer_pool_instances",
    "innodb_buffer_pool_size",
    "innodb_buffer_pool_size_max",
    "innodb_log_buffer_size",
    "innodb_page_size",
    "key_buffer_size",
    "key_cache_block_size",
    "large_pages",
    "max_connections",
];
const POSTGRESQL: [&str; 7] = [
    "huge_page_size",
    "huge_pages",
    "huge_pages_status",
    "max_connections",
    "shared_buffers",
    "shared_memory_size_in_huge_pages",
    "shared_memory_type",
];

/// The names of the settings that decide about huge pages.
pub fn huge_page_settings(flavour: Flavour) -> &'static [&'static str] {
    match flavour {
        Flavour::Postgresql => &POSTGRESQL,
        Flavour::Mysql | Flavour::Mariadb | Flavour::Percona => &MYSQL,
    }
}

pub(super) fn read(asking: &mut Asking<'_>, flavour: Flavour, seen: &mut ServerSeen) {
    let names = huge_page_settings(flavour).join("', '");
    let sql = match flavour {
        Flavour::Postgresql => {
            format!("SELECT name, current_setting(name, true) FROM pg_settings WHERE name IN ('{names}')")
        }
        _ => format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('{names}')"),
    };
    seen.variables = pairs(asking.rows_of(Missing::SETTINGS, &sql, None));
    if flavour == Flavour::Postgresql {
        seen.shared_allocations = sum_of_shared_memory(asking).into_iter().collect();
    }
}

/// The sum as one allocation. Without the view, or the right to read it, the mapping has the same size.
fn sum_of_shared_memory(asking: &mut Asking<'_>) -> Option<SharedAllocation> {
    let rows = asking.rows("SELECT sum(allocated_size)::bigint FROM pg_shmem_allocations").ok()?;
    let allocated_size = number(rows.first()?, 0)?;
    Some(SharedAllocation { size: allocated_size, allocated_size, ..SharedAllocation::default() })
}
