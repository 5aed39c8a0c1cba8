// SPDX-License-Identifier: Apache-2.0
use crate::{Snapshot, Span};
use serde::{Deserialize, Serialize};

/// One counter or gauge over time, raw: nothing is turned into a rate before it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Where it was read: `meminfo`, `vmstat`, `psi.memory`, `diskstats`, `process.stat`, `process.smaps_rollup`,
    /// `server.status`, `server.innodb_metrics`, `layer`.
    pub source: String,
    /// Which one of several: a device name, a process role; empty when there is but one.
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

/// A sink's own, such as a full disk.
pub type SinkError = Box<dyn std::error::Error + Send + Sync>;

/// Takes what readers see while they read: samples, snapshots and spans. A series is declared once, then referred to by number, so that a
/// reading costs no strings.
pub trait SampleSink: Send {
    /// The number of the series with this source, entity and name, made when it is new. `series.points` is ignored.
    ///
    /// # Errors
    /// The sink's own, such as a full disk.
    fn declare(&mut self, series: &Series) -> Result<u32, SinkError>;

    /// One batch; the numbers are those of [`SampleSink::declare`].
    ///
    /// # Errors
    /// The sink's own, such as a full disk.
    fn points(&mut self, points: &[(u32, Point)]) -> Result<(), SinkError>;

    /// # Errors
    /// The sink's own, such as a full disk.
    fn snapshot(&mut self, snapshot: &Snapshot) -> Result<(), SinkError>;

    /// # Errors
    /// The sink's own, such as a full disk.
    fn span(&mut self, span: &Span) -> Result<(), SinkError>;
}
