// SPDX-License-Identifier: Apache-2.0
//! The tables that a user asks for, and the server's facts.

use crate::Protocol;
use serde::{Deserialize, Serialize};
use std::fmt;
use units::Bytes;
use workload::distribution::Distribution;

/// The asked tables: `sbtest1` to `sbtest<tables>`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FillSpec {
    pub tables: u32,
    pub size: Size,
    pub shape: Shape,
    /// Whether to make the index on `k`, after the rows as sysbench does.
    pub secondary: bool,
    /// How often each value of `k` occurs.
    #[serde(default)]
    pub keys: Distribution,
    /// How many further indexes, on the first columns of [`TEXT_INDEXES`].
    #[serde(default)]
    pub text_indexes: u32,
    /// Whether the server generates the keys of later inserts (AUTO_INCREMENT, serial).
    pub auto_inc: bool,
    /// Connections that fill at the same time.
    pub threads: u32,
    /// The same seed gives the same rows, whatever the number of threads.
    pub seed: u64,
    /// Keep the rows that an interrupted fill with the same spec left, and write the missing ones.
    #[serde(default)]
    pub resume: bool,
    /// Drop existing tables of these names; without it they are an error.
    pub replace: bool,
}

/// The columns for further indexes, in this order: random text, wide and wider.
pub const TEXT_INDEXES: [&str; 2] = ["pad", "c"];

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// Rows of each table.
    Rows(u64),
    /// Bytes of all tables with their indexes.
    Bytes(u64),
    /// Size of all tables with their indexes, as a multiple of the server's page cache.
    TimesPool(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// sysbench's rows: 188 bytes.
    Sysbench,
    /// So wide that this many rows fit one of the server's pages.
    RowsPerPage(u32),
    /// Bytes of all columns together, without the server's own bytes.
    RowBytes(u64),
}

/// The server's facts from which a fill is computed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerFacts {
    /// Called `flavour` in the output of `wringer fill --dry-run`, for compatibility.
    #[serde(rename = "flavour")]
    pub protocol: Protocol,
    pub version: String,
    /// `innodb_page_size`, `block_size`.
    pub page_bytes: u64,
    /// `innodb_buffer_pool_size`, `shared_buffers`.
    pub pool_bytes: u64,
    /// Bytes of a character in the database's character set: 1 for latin1, 4 for utf8mb4.
    pub character_bytes_max: u32,
    /// The longest statement that the server accepts, in bytes.
    pub packet_bytes_max: u64,
    /// Whether bulk loads are allowed: always in PostgreSQL, with `local_infile` in MySQL.
    pub bulk_load: bool,
    /// Tables whose names begin with `sbtest`.
    pub existing: Vec<String>,
}

impl Default for FillSpec {
    /// The defaults of sysbench.
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
