// SPDX-License-Identifier: Apache-2.0
//! The server's own rows, as numbers.

use crate::share::sane;
use crate::{Inventory, ServerSeen, event_leaf};
use capability::{Flavour, Version};
use std::collections::BTreeMap;

/// The server's answers. Each figure is `None` where the server did not tell it.
#[derive(Clone, Copy)]
pub(crate) struct Figures<'a> {
    pub(crate) flavour: Option<Flavour>,
    server: Option<&'a ServerSeen>,
}

/// Memory events that `Memory_used` of MariaDB does not count (the first two areas), or that are caches, which are counted by their configured sizes.
const NOT_IN_MEMORY_USED: [&str; 4] =
    ["memory/innodb/", "memory/performance_schema/", "memory/mysys/KEY_CACHE", "memory/sql/Query_cache"];

impl<'a> Figures<'a> {
    pub(crate) fn of(inventory: &'a Inventory) -> Self {
        Self { flavour: inventory.flavour, server: inventory.server.as_ref() }
    }

    pub(crate) fn server(&self) -> Option<&'a ServerSeen> {
        self.server
    }

    pub(crate) fn at_us(&self) -> u64 {
        self.server.map_or(0, |server| server.at_us)
    }

    /// A variable that is a number.
    pub(crate) fn variable(&self, name: &str) -> Option<u64> {
        number(self.server?.variables.get(name)?)
    }

    /// A variable that is a size; 0 is none.
    pub(crate) fn size(&self, name: &str) -> Option<u64> {
        self.variable(name).filter(|size| *size > 0)
    }

    pub(crate) fn status(&self, name: &str) -> Option<u64> {
        number(self.server?.status.get(name)?)
    }

    /// The bytes of one memory event; below zero counts as zero: it was enabled too late.
    pub(crate) fn event(&self, name: &str) -> Option<u64> {
        self.server?.memory_events.get(name).map(|bytes| positive(*bytes))
    }

    /// The bytes of all memory events that belong to a leaf. `None`: no such event has any.
    pub(crate) fn events_of(&self, leaf: &str) -> Option<u64> {
        let events = &self.server?.memory_events;
        let bytes: u64 =
            events.iter().filter(|(name, _)| event_leaf(name) == Some(leaf)).map(|(_, bytes)| positive(*bytes)).sum();
        (bytes > 0).then_some(bytes)
    }

    /// For MariaDB: the bytes of the memory events that its `Memory_used` counts, too.
    pub(crate) fn events_in_memory_used(&self) -> u64 {
        let is_counted = |name: &str| !NOT_IN_MEMORY_USED.iter().any(|area| name.starts_with(area));
        let events = self.server.into_iter().flat_map(|server| &server.memory_events);
        let counted = events.filter(|(name, _)| is_counted(name) && !crate::leaf::is_no_memory(name));
        counted.map(|(_, bytes)| positive(*bytes)).sum()
    }

    /// The bytes of the sessions' memory events, by the table of leaves.
    pub(crate) fn events_of_sessions(&self) -> u64 {
        let events = self.server.into_iter().flat_map(|server| &server.memory_events);
        let of_sessions = events.filter(|(name, _)| event_leaf(name).is_some_and(|leaf| leaf.starts_with("sessions/")));
        of_sessions.map(|(_, bytes)| positive(*bytes)).sum()
    }

    /// Whether performance_schema counts the hash tables of InnoDB. MySQL 9.7.4 has the memory event, with 1,952 bytes: it counts the heads of the tables, and
    /// not their cells. One table of the dictionary has a cell of 8 bytes for each 4 KiB of the pool.
    pub(crate) fn counts_hash_tables(&self) -> bool {
        let one_table = self.pool_size().map_or(1, |pool| (pool / 4096 * 8).max(1));
        self.event("memory/innodb/hash0hash").is_some_and(|bytes| bytes >= one_table)
    }

    /// Leaves for the memory events of whole areas that no row names: `server/sql`.
    pub(crate) fn other_areas(&self) -> BTreeMap<String, u64> {
        let mut areas = BTreeMap::new();
        for (name, bytes) in self.server.into_iter().flat_map(|server| &server.memory_events) {
            if event_leaf(name).is_none() && positive(*bytes) > 0 && !crate::leaf::is_no_memory(name) {
                *areas.entry(format!("server/{}", area(name))).or_default() += positive(*bytes);
            }
        }
        areas
    }

    /// The memory of all sessions by the server's list: of those that wait for their client, and of the others.
    pub(crate) fn sessions(&self) -> Option<(u64, u64)> {
        let sessions = &self.server?.sessions;
        sessions.iter().any(|session| session.bytes.is_some()).then_some(())?;
        let sum = |idle: bool| {
            let some = sessions.iter().filter(|session| (session.command == "Sleep") == idle);
            some.filter_map(|session| session.bytes).map(sane).sum()
        };
        Some((sum(true), sum(false)))
    }

    /// For MariaDB with InnoDB 5.6: the bytes of the pool and of the descriptors of its blocks, for which the server asks the kernel in one call.
    pub(crate) fn pool_counted(&self) -> Option<u64> {
        let is_mariadb = self.flavour == Some(Flavour::Mariadb);
        self.status("Innodb_mem_total").filter(|total| is_mariadb && Some(*total) > self.pool_size())
    }

    /// For MariaDB: whether its InnoDB is Percona's XtraDB, whose versions have a part of Percona's (`5.6.35-80.0`).
    pub(crate) fn is_xtradb(&self) -> bool {
        self.text("innodb_version").is_some_and(|version| version.contains('-'))
    }

    /// The version that the server's variable has.
    pub(crate) fn version(&self) -> Option<Version> {
        self.text("version").and_then(Version::of_package)
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.server?.variables.get(name).map(|value| value.trim())
    }

    pub(crate) fn innodb_memory(&self) -> Option<&'a str> {
        self.server?.innodb_memory.as_deref()
    }

    /// 16384 where the server does not say it: InnoDB's default.
    pub(crate) fn page_size(&self) -> u64 {
        let said = self.size("innodb_page_size").or_else(|| self.status("Innodb_page_size").filter(|size| *size > 0));
        said.unwrap_or(16_384)
    }

    pub(crate) fn pool_size(&self) -> Option<u64> {
        self.size("innodb_buffer_pool_size")
    }

    /// The number of the pool's pages: the server's own count, or else the number that fits the pool without descriptors.
    pub(crate) fn pool_pages(&self) -> Option<u64> {
        let counted = self.status("Innodb_buffer_pool_pages_total").filter(|pages| *pages > 0);
        counted.or_else(|| Some(self.pool_size()? / self.page_size()))
    }

    /// The bytes of the pool that contain data.
    pub(crate) fn pool_data(&self) -> Option<u64> {
        let pages = || self.status("Innodb_buffer_pool_pages_data")?.checked_mul(self.page_size());
        self.status("Innodb_buffer_pool_bytes_data").or_else(pages).map(sane)
    }
}

/// Whether rows of a table with these ends hold for a version. Of a server whose version is not known, only open rows hold.
pub(crate) fn holds(since: &[u32], until: &[u32], version: Option<&Version>) -> bool {
    let Some(version) = version else { return since.is_empty() && until.is_empty() };
    *version >= Version::of(since) && (until.is_empty() || *version < Version::of(until))
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok().map(sane)
}

fn positive(bytes: i64) -> u64 {
    u64::try_from(bytes).map_or(0, sane)
}

/// `sql` of `memory/sql/TABLE`.
fn area(event: &str) -> &str {
    event.split('/').nth(1).filter(|area| !area.is_empty()).unwrap_or("other")
}
