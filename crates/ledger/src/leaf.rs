// SPDX-License-Identifier: Apache-2.0
//! The table of leaves: {leaf, flavour, since, until} with the rule that fills it, and where that is known from. The rows are in `table`.

use crate::account::Basis;
use crate::figures::{Figures, holds};
use crate::table::{NO_MEMORY, ROWS};
use crate::{Class, innodb};
use capability::{Flavour, Version};
use std::fmt;

/// Holds for a flavour from `since` (included) up to `until` (excluded); an empty `since` or `until` is open.
///
/// Several rows of one leaf mean: the first that holds and yields a figure counts, and the others do not.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// `data_cache/buffer_pool`. What stands in `<>` is a name that the server gives.
    pub path: &'static str,
    /// Empty: all.
    pub flavours: &'static [Flavour],
    pub since: &'static [u32],
    pub until: &'static [u32],
    /// Where the rule is known from.
    pub source: &'static str,
    pub rule: Rule,
}

/// How a leaf gets its bytes.
#[derive(Clone, Copy)]
pub enum Rule {
    /// The kernel: what is resident in the mappings of a class.
    Class(Class),
    /// The server: memory events of performance_schema that begin so. The longest beginning of all rows decides, so that each event belongs
    /// to one leaf.
    Events(&'static [&'static str]),
    /// The server: a status variable in bytes.
    Status(&'static str),
    /// The server: so many blocks in use (status), each so large (variable), of so much (variable).
    Blocks { used: &'static str, block: &'static str, of: &'static str },
    /// The server: a size (variable), less what of it is free (status).
    Less { size: &'static str, free: &'static str },
    /// The server: a line of "BUFFER POOL AND MEMORY"; where it has a constant part in brackets, only that.
    Innodb(&'static str),
    /// The server: arithmetic of its own figures.
    Meter(Reckoning),
    /// A formula of the server's source.
    Formula(Reckoning),
    /// Of PostgreSQL: memory contexts that begin so, and those below them that no other row names.
    Contexts(&'static [&'static str]),
    /// Of PostgreSQL: each row of pg_shmem_allocations.
    Allocations,
    /// The allocator: chunks that are free and resident.
    Walk,
    /// The kernel: page tables of all processes.
    PageTables,
}

/// Yields what is resident and what is allocated, in bytes.
pub type Reckoning = fn(&Reckoned<'_>) -> Option<Amount>;

/// What a [`Reckoning`] may ask.
pub struct Reckoned<'a>(pub(crate) Figures<'a>);

/// In bytes. What is resident is at most what is allocated, and is capped further by the mappings it lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    pub resident: u64,
    pub allocated: u64,
}

impl Amount {
    pub(crate) fn whole(bytes: u64) -> Self {
        Self { resident: bytes, allocated: bytes }
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Class(class) => write!(f, "mappings of class {}", class.name()),
            Self::Events(beginnings) => write!(f, "memory events {beginnings:?}"),
            Self::Status(name) => write!(f, "status {name}"),
            Self::Blocks { used, block, of } => write!(f, "status {used} x variable {block}, of variable {of}"),
            Self::Less { size, free } => write!(f, "variable {size} - status {free}"),
            Self::Innodb(line) => write!(f, "InnoDB status, line '{line}'"),
            Self::Meter(_) => f.write_str("figures of the server"),
            Self::Formula(_) => f.write_str("formula of the server's source"),
            Self::Contexts(names) => write!(f, "memory contexts {names:?}"),
            Self::Allocations => f.write_str("pg_shmem_allocations"),
            Self::Walk => f.write_str("walk of malloc's chunks"),
            Self::PageTables => f.write_str("VmPTE of all processes"),
        }
    }
}

impl Rule {
    pub fn basis(self) -> Basis {
        match self {
            Self::Class(_) | Self::PageTables => Basis::Kernel,
            Self::Walk => Basis::Allocator,
            Self::Formula(_) => Basis::Formula,
            _ => Basis::Server,
        }
    }

    /// What the server's figures say of it; `None` where they say nothing, and for rules that do not come from them.
    pub(crate) fn amount(self, path: &str, figures: Figures<'_>) -> Option<Amount> {
        match self {
            Self::Events(_) => figures.events_of(path).map(Amount::whole),
            Self::Status(name) => figures.status(name).map(Amount::whole),
            Self::Blocks { used, block, of } => {
                let resident = figures.status(used)?.saturating_mul(figures.size(block)?);
                let allocated = figures.size(of)?;
                Some(Amount { resident: resident.min(allocated), allocated })
            }
            Self::Less { size, free } => {
                let allocated = figures.size(size)?;
                Some(Amount { resident: allocated.saturating_sub(figures.status(free)?), allocated })
            }
            Self::Innodb(line) => innodb::line(figures.innodb_memory()?, line).map(Amount::whole),
            Self::Meter(reckon) | Self::Formula(reckon) => reckon(&Reckoned(figures)),
            _ => None,
        }
    }
}

impl Row {
    /// Percona Server has what MySQL has. Where the flavour is not known, only rows for all flavours hold.
    pub fn holds(&self, flavour: Option<Flavour>, version: Option<&Version>) -> bool {
        let is_one =
            |it: Flavour| self.flavours.contains(&it) || it.base().is_some_and(|base| self.flavours.contains(&base));
        (self.flavours.is_empty() || flavour.is_some_and(is_one)) && holds(self.since, self.until, version)
    }
}

/// All rows, in the order in which they are tried.
pub fn rows() -> &'static [Row] {
    ROWS
}

/// The rows that hold for a server.
pub fn rows_for(flavour: Option<Flavour>, version: Option<&Version>) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| row.holds(flavour, version))
}

/// The first row of a class.
pub(crate) fn of_class(class: Class) -> Option<&'static Row> {
    ROWS.iter().find(|row| matches!(row.rule, Rule::Class(it) if it == class))
}

/// The leaf of a memory event of performance_schema, by the longest beginning. `None`: no row names it, or it is no memory.
pub fn event_leaf(event: &str) -> Option<&'static str> {
    if is_no_memory(event) {
        return None;
    }
    let named = ROWS.iter().filter_map(|row| Some((longest(row.rule, event)?, row.path)));
    named.max_by_key(|(length, _)| *length).map(|(_, path)| path)
}

/// The pool, whose resident pages the kernel knows, and files that are mapped.
pub(crate) fn is_no_memory(event: &str) -> bool {
    NO_MEMORY.contains(&event)
}

fn longest(rule: Rule, event: &str) -> Option<usize> {
    let Rule::Events(beginnings) = rule else { return None };
    beginnings.iter().filter(|beginning| event.starts_with(*beginning)).map(|beginning| beginning.len()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_belong_to_the_longest_beginning() {
        for (event, leaf) in [
            ("memory/sql/TABLE", Some("metadata/tables")),
            ("memory/sql/TABLE_SHARE::mem_root", Some("metadata/tables")),
            ("memory/sql/Filesort_buffer::sort_keys", Some("sessions/sort")),
            ("memory/sql/THD::main_mem_root", Some("sessions/idle")),
            ("memory/sql/Prepared_statement::main_mem_root", Some("sessions/prepared")),
            ("memory/temptable/physical_ram", Some("sessions/temporary_tables")),
            ("memory/performance_schema/threads", Some("instrumentation/performance_schema")),
            ("memory/innodb/buf_buf_pool", None),
            ("memory/temptable/physical_disk", None),
            ("memory/sql/never_heard_of", None),
        ] {
            assert_eq!(event_leaf(event), leaf, "{event}");
        }
    }

    #[test]
    fn the_table_is_well_formed() {
        for row in ROWS {
            assert!(!row.source.is_empty(), "{}: where is it known from?", row.path);
            let is_plain = |c: char| c.is_ascii_lowercase() || "_/<>".contains(c);
            assert!(row.path.chars().all(is_plain) && row.path != "heap", "{}", row.path);
            assert!(row.since.is_empty() || row.until.is_empty() || row.since < row.until, "{}", row.path);
        }
        // no beginning stands in two rows of different leaves
        let beginnings =
            ROWS.iter().filter_map(|row| if let Rule::Events(it) = row.rule { Some((row.path, it)) } else { None });
        let mut seen = std::collections::BTreeMap::new();
        for (path, beginning) in beginnings.flat_map(|(path, all)| all.iter().map(move |it| (path, *it))) {
            assert_eq!(*seen.entry(beginning).or_insert(path), path, "{beginning}");
        }
    }

    #[test]
    fn versions_and_flavours() {
        let row = ROWS.iter().find(|row| row.path == "locks/index" && matches!(row.rule, Rule::Formula(_)));
        let row = row.expect("the formula of the lock table");
        let version = |text: &str| text.parse::<Version>().expect("a version");
        assert!(row.holds(Some(Flavour::Percona), Some(&version("8.0.36"))));
        assert!(!row.holds(Some(Flavour::Mysql), Some(&version("5.6.51"))));
        assert!(!row.holds(Some(Flavour::Mysql), None), "a row with limits needs a version");
        assert!(!row.holds(Some(Flavour::Postgresql), Some(&version("15.4"))));
    }
}
