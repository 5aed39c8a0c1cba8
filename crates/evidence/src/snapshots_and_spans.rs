// SPDX-License-Identifier: Apache-2.0
//! Observations that are no numbers: a text at one moment, and an event that lasted for a time.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The [`Snapshot::source`] of the parts of a server's memory: each snapshot is one JSON value, a `ledger::Inventory`.
pub const INVENTORY: &str = "memory.inventory";

/// The [`Snapshot::source`] of what stands for an [`INVENTORY`] in memory: one JSON value, a `ledger::Moment`. No recording has it.
pub const INVENTORY_FIGURES: &str = "memory.inventory.figures";

/// A text that was read as a whole at one moment, and is kept unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// On the run's clock.
    pub at_us: u64,
    /// The name of the arm that was running; `None`: between arms.
    pub arm: Option<String>,
    /// Where it was read, as in [`crate::Series::source`]: `server.innodb_status`.
    pub source: String,
    /// The name of one of several things; empty when there is only one.
    pub entity: String,
    pub format: Format,
    pub content: String,
}

/// The kind of text that a [`Snapshot`] contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Words for people, as the source prints them.
    Text,
    /// One JSON value.
    Json,
}

impl Format {
    pub const ALL: [Self; 2] = [Self::Text, Self::Json];

    /// `text`, `json`: as it is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// The kind of a span: one statement of the load that lasted for the asked threshold or longer. Attributes: `connection` (of the load, from 1),
/// `class`; `late_us` (open loop: how long before this span it was meant to start) and `failed` only when they apply. The span `load.measured` of its
/// arm has `slow_threshold_us`, `slow_statements` (the number of kept statements) and `slow_dropped` (the number of statements for which there was no
/// room).
pub const SLOW_STATEMENT: &str = "load.slow_statement";

/// The kind of a span: what Wringer itself did to the server, with which a finding can be compared. No finding is computed from it. Attributes of a
/// statement that a run sent beside its load: `cause` (`statement`), `sql`, and `error` when the statement failed or did not end. Of a stall that
/// `stalls inject` planted: `cause` (of the stall), `asked_us`, `asked_at_us`, `began` and `bit` (`yes`, `no`), `witness`, `witness_value`,
/// `witness_connection`, `held_by` (a connection), `table`, `why`.
pub const PLANTED: &str = "planted";

/// The kind of a span: a stall that a watch of the server's threads reported, from the begin of its first victim to the end of its last one.
/// `stalls::watch::Parts` has the facts about the stall and its victims.
pub const STALL: &str = "stall";

/// The kind of a span: the wait of one victim of a [`STALL`].
pub const STALL_VICTIM: &str = "stall.victim";

/// The kind of a span: what [`STALL`]'s watch saw before it concluded anything, so that it can be judged again. A wait of a client's thread, in four looks
/// or more. Attributes: `thread`, `way` (`asleep`, `blocked`, `reading`, ...), `samples`, `turns` (how often it was given a CPU in this time), `cut` (it had begun
/// before watching began), `goes_on` (it had not ended when watching did); of a wait that was judged, also its `number`, and what its verdict rests on
/// (`stalls::watch::KeptParts`). One without a thread, with `whole`: the whole server was stopped, or answered nobody.
pub const THREAD_WAIT: &str = "thread.wait";

/// The kind of a span: what the server said of a thread while it waited, from the first to the last answer that said the same. Attributes: `wait` (the
/// number of the [`THREAD_WAIT`]), `thread`, `connection`, `says`, `words` (the server's), `answers`, `age_us` (of its statement, at the last answer), `blocked_by` (connections).
pub const SERVER_SAID: &str = "server.said";

/// The kind of a span: an answer of the server with its counters, while a thread waited, or the first one after that. Attributes: `wait_free`,
/// `pages_free`, `lru_flushed`, `backoff`.
pub const SERVER_COUNTED: &str = "server.counters";

/// The kind of a span: a call of the probed function that took a millisecond or longer. Attribute: `thread`.
pub const PROBED_CALL: &str = "probe.call";

/// The kind of a span: an entry of the server's slow log, as a watch read it. The span ends when the entry was read, up to 0.6 s after its statement.
/// Attributes: `connection`, and of its fields `lock_us`, `row_lock_us`, `read_us`, `queue_us`, `rows_examined`; `earliest_us`: the earliest begin of its statement.
pub const LOGGED: &str = "log.slow_statement";

/// The kind of a span: a query that needs no data and no lock, and took 10 ms or longer ([`STALL`]'s watch sent it). Attribute: `lost` (`yes`), where it got no
/// answer because its connection was lost.
pub const CANARY: &str = "canary";

/// The kind of a span: what the answers to that query showed from the begin to the end of a stall. Attributes: `answers`, `slowest_us`, `usual_us` (the median of the
/// watch), `lost` (`yes`: the slowest one got no answer).
pub const CANARY_MEANWHILE: &str = "canary.meanwhile";

/// The source of a snapshot: the summary of such a watch after its end, with its account, its cost, and what it could not read.
pub const STALLS_WATCHED: &str = "stalls.watch";

/// An event that lasted for a time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// On the run's clock.
    pub from_us: u64,
    /// Not before [`Self::from_us`].
    pub to_us: u64,
    /// `fill`, `server.start`, `preheat`, `load.warmup`, `load.measured`, ...
    pub kind: String,
    /// The name of the arm when the span is a part of an arm; empty when there is only one.
    pub entity: String,
    /// Facts about the span, by name; values are written for people.
    pub attributes: BTreeMap<String, String>,
}

impl Span {
    pub fn length_us(&self) -> u64 {
        self.to_us.saturating_sub(self.from_us)
    }
}
