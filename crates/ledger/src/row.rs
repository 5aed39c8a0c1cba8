// SPDX-License-Identifier: Apache-2.0
//! A row of the table of leaves: {leaf, flavour, since, until} with the rule that fills it, and the source of the rule.

use crate::Class;
use crate::entries::Basis;
use crate::figures::{Figures, holds};
use capability::{Flavour, Version};
use std::fmt;

/// Holds for a flavour from `since` (included) up to `until` (excluded); an empty `since` or `until` is open.
///
/// Where a leaf has several rows, the first row that holds and yields a figure is used.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// `data_cache/buffer_pool`. A part in `<>` is a name that the server gives.
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
    /// The kernel: the resident memory of the mappings of a class.
    Class(Class),
    /// The server: memory events of performance_schema that begin so. The longest beginning of all rows decides, so that each event belongs
    /// to one leaf.
    Events(&'static [&'static str]),
    /// The server: a status variable in bytes.
    Status(&'static str),
    /// The server: so many blocks in use (status), each so large (variable), of so much (variable).
    Blocks { used: &'static str, block: &'static str, of: &'static str },
    /// The server: a size (variable), minus its free part (status).
    Less { size: &'static str, free: &'static str },
    /// The server: a line of "BUFFER POOL AND MEMORY"; where it has a constant part in brackets, only that.
    Innodb(&'static str),
    /// The server: arithmetic of its own figures.
    Meter(Reckoning),
    /// A formula of the server's source.
    Formula(Reckoning),
    /// PostgreSQL: memory contexts whose names begin so, and contexts below them that no other row names.
    Contexts(&'static [&'static str]),
    /// MariaDB: the blocks that it allocates once, by its own list of them.
    Collations,
    /// PostgreSQL: each row of pg_shmem_allocations.
    Allocations,
    /// The allocator: chunks that are free and resident.
    Walk,
    /// The kernel: page tables of all processes.
    PageTables,
}

/// Yields the resident and the allocated bytes.
pub type Reckoning = fn(&Reckoned<'_>) -> Option<Amount>;

/// The data that a [`Reckoning`] may use.
pub struct Reckoned<'a>(pub(crate) Figures<'a>);

/// In bytes. The resident bytes are at most the allocated bytes, and are limited further by the mappings that contain them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
            Self::Collations => f.write_str("list of blocks at my_once_root_block"),
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
}

impl Row {
    /// Percona Server has what MySQL has. Where the flavour is not known, only rows for all flavours hold.
    pub fn holds(&self, flavour: Option<Flavour>, version: Option<&Version>) -> bool {
        let is_one =
            |it: Flavour| self.flavours.contains(&it) || it.base().is_some_and(|base| self.flavours.contains(&base));
        (self.flavours.is_empty() || flavour.is_some_and(is_one)) && holds(self.since, self.until, version)
    }
}
