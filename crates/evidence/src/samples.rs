// SPDX-License-Identifier: Apache-2.0
use crate::{Snapshot, Span};
use serde::{Deserialize, Serialize};

/// One counter or gauge over time, raw: nothing is turned into a rate before it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Where it was read: `meminfo`, `vmstat`, `psi.memory`, `diskstats`, `process.stat`, `process.smaps_rollup`,
    /// `server.status`, `server.innodb_metrics`, `layer`.
    pub source: String,
    /// A device name, or a process role; empty when the source has only one.
    pub entity: String,
    /// The kernel's or the server's own name: `MemAvailable`, `Innodb_buffer_pool_reads`.
    pub name: String,
    /// `bytes`, `us`, `count`, ... as stored, after converting kB to bytes and ticks to microseconds.
    pub unit: String,
    /// True for a counter that only grows, false for a gauge.
    pub cumulative: bool,
    pub points: Vec<Point>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// On the run's clock.
    pub at_us: u64,
    pub value: f64,
}

/// An error of the sink itself, such as a full disk.
pub type SinkError = Box<dyn std::error::Error + Send + Sync>;

/// Receives the samples, snapshots and spans that readers read. A series is declared once, and afterwards named by its number, so that a reading
/// needs no strings.
pub trait SampleSink: Send {
    /// The number of the series with this source, entity and name. A new series gets a new number. `series.points` is ignored.
    ///
    /// # Errors
    /// An error of the sink itself, such as a full disk.
    fn declare(&mut self, series: &Series) -> Result<u32, SinkError>;

    /// Takes one batch; the numbers come from [`SampleSink::declare`].
    ///
    /// # Errors
    /// An error of the sink itself, such as a full disk.
    fn points(&mut self, points: &[(u32, Point)]) -> Result<(), SinkError>;

    /// # Errors
    /// An error of the sink itself, such as a full disk.
    fn snapshot(&mut self, snapshot: &Snapshot) -> Result<(), SinkError>;

    /// # Errors
    /// An error of the sink itself, such as a full disk.
    fn span(&mut self, span: &Span) -> Result<(), SinkError>;
}
