// SPDX-License-Identifier: Apache-2.0
//! What is asked for, and what the server says of itself.

use crate::Protocol;
use serde::{Deserialize, Serialize};
use std::fmt;
use units::Bytes;
use workload::distribution::Distribution;

/// The tables that are wanted: `sbtest1` to `sbtest<tables>`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FillSpec {
    pub tables: u32,
    pub size: Size,
    pub shape: Shape,
    /// Whether to make the index on `k`, after the rows as sysbench does.
    pub secondary: bool,
    /// How often each value of `k` comes.
    #[serde(default)]
    pub keys: Distribution,
    /// Indexes beside that on `k`: of [`TEXT_INDEXES`], from the first.
    #[serde(default)]
    pub text_indexes: u32,
    /// Whether the server hands out keys to later inserts (AUTO_INCREMENT, serial).
    pub auto_inc: bool,
    /// Connections that fill at the same time.
    pub threads: u32,
    /// The same seed gives the same rows, whatever the number of threads.
    pub seed: u64,
    /// Keep the rows that a fill with the same spec left when it was cut off, and write those that are missing.
    #[serde(default)]
    pub resume: bool,
    /// Drop tables of these names that are there already; otherwise they are in the way.
    pub replace: bool,
}

/// The columns that more indexes can be made on, in this order: random text, wide and wider.
pub const TEXT_INDEXES: [&str; 2] = ["pad", "c"];

/// How much.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// Rows a table.
    Rows(u64),
    /// Of all tables with their indexes.
    Bytes(u64),
    /// Of all tables with their indexes, in multiples of the server's own page cache.
    TimesPool(f64),
}

/// How wide a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// As sysbench makes them: 188 bytes.
    Sysbench,
    /// So wide that this many fit one of the server's pages.
    RowsPerPage(u32),
    /// So many bytes in all columns together, without what the server adds.
    RowBytes(u64),
}

/// What the arithmetic of a fill depends on, as the server says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerFacts {
    /// In the output of `wringer fill --dry-run` this is `flavour`, as it always was.
    #[serde(rename = "flavour")]
    pub protocol: Protocol,
    pub version: String,
    /// `innodb_page_size`, `block_size`.
    pub page_bytes: u64,
    /// `innodb_buffer_pool_size`, `shared_buffers`.
    pub pool_bytes: u64,
    /// Of the database's character set: 1 for latin1, 4 for utf8mb4.
    pub character_bytes_max: u32,
    /// The longest statement that the server takes.
    pub packet_bytes_max: u64,
    /// Whether rows may come as a bulk load: always in PostgreSQL, with `local_infile` in MySQL.
    pub bulk_load: bool,
    /// Tables whose names begin with `sbtest`.
    pub existing: Vec<String>,
}

impl Default for FillSpec {
    /// sysbench's defaults.
    fn default() -> Self {
        Self {
            tables: 1,
            size: Size::Rows(10_000),
            shape: Shape::Sysbench,
            secondary: true,
            keys: Distribution::Uniform,
            text_indexes: 0,
            auto_inc: true,
            threads: 2,
            seed: 0,
            resume: false,
            replace: false,
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Rows(rows) => write!(f, "{rows} rows a table"),
            Size::Bytes(bytes) => write!(f, "{}", Bytes(*bytes)),
            Size::TimesPool(times) => write!(f, "{times} x the server's page cache"),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Sysbench => f.write_str("sysbench's rows"),
            Shape::RowsPerPage(rows) => write!(f, "{rows} rows a page"),
            Shape::RowBytes(bytes) => write!(f, "rows of {bytes} bytes"),
        }
    }
}
