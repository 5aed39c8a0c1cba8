// SPDX-License-Identifier: Apache-2.0
//! Observations that are no numbers: a text at one moment, and an event that lasted for a time.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The [`Snapshot::source`] of the parts of a server's memory: each snapshot is one JSON value, a `ledger::Inventory`.
pub const INVENTORY: &str = "memory.inventory";

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

/// The kind of a span: an action of the run itself on its server, beside the load, with which a finding can be compared. Attributes: `cause`
/// (`statement`), `sql`, and `error` when the statement failed or did not end.
pub const PLANTED: &str = "planted";

/// The kind of a span: a stall that a watch of the server's threads reported, from the begin of its first victim to the end of its last one.
/// `stalls::watch::Parts` has the facts about the stall and its victims.
pub const STALL: &str = "stall";

/// The kind of a span: the wait of one victim of a [`STALL`].
pub const STALL_VICTIM: &str = "stall.victim";

/// The kind of a span: an entry of the server's slow log, as a watch read it. The span ends when the entry was read, up to 0.6 s after its statement.
/// Attribute: `connection`.
pub const LOGGED: &str = "log.slow_statement";

/// The kind of a span: a query that needs no data and no lock, and took 10 ms or longer ([`STALL`]'s watch sent it).
pub const CANARY: &str = "canary";

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
