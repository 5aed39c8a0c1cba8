// SPDX-License-Identifier: Apache-2.0
/// The tables that a load runs on, and over how many connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    /// They are `sbtest1` to `sbtest<tables>`; each group of statements of one class in a transaction goes to one of these tables.
    pub tables: u32,
    /// Rows in each table: keys are drawn from 1 to this.
    pub table_size: u64,
    /// Branches in pgbench's tables; each has 10 tellers and 100,000 accounts.
    pub scale: u32,
    /// `select_random_*` cut the keys into this many segments; `bulk_insert` has this many tables.
    pub connections: u32,
}

impl Default for Tables {
    /// sysbench's defaults, and pgbench's.
    fn default() -> Self {
        Self { tables: 1, table_size: 10_000, scale: 1, connections: 1 }
    }
}
