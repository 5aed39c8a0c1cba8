// SPDX-License-Identifier: Apache-2.0
//! What is seen besides numbers: a text at one moment, and what went on for a while.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The [`Snapshot::source`] of what a server's memory is made of: one JSON value each, a `ledger::Inventory`.
pub const INVENTORY: &str = "memory.inventory";

/// A text, taken whole at one moment, and kept as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// On the run's clock.
    pub at_us: u64,
    /// The name of the arm that went on; `None`: between arms.
    pub arm: Option<String>,
    /// Where it was read, as in [`crate::Series::source`]: `server.innodb_status`.
    pub source: String,
    /// Which one of several; empty when there is but one.
    pub entity: String,
    pub format: Format,
    pub content: String,
}

/// What the content of a [`Snapshot`] is.
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

/// The kind of a span: one statement of the load that lasted as long as was asked for, or longer. Attributes: `connection` (of the load, from
/// 1), `class`; `late_us` (open loop: how long before it was meant to start), `failed` where so. The span `load.measured` of its
/// arm has `slow_threshold_us`, `slow_statements` (how many were kept) and `slow_dropped` (for how many there was no room).
pub const SLOW_STATEMENT: &str = "load.slow_statement";

/// The kind of a span: what the run itself did to its server beside the load, so that a finding can be held against it. Attributes: `cause`
/// (`statement`), `sql`, and `error` where it failed or did not end.
pub const PLANTED: &str = "planted";

/// The kind of a span: a stall that a watch of the server's threads told, from its first victim's begin to the last one's end. What is known of
/// it, and of its victims, is in `stalls::watch::Parts`.
pub const STALL: &str = "stall";

/// The kind of a span: the wait of one victim of a [`STALL`].
pub const STALL_VICTIM: &str = "stall.victim";

/// The kind of a span: an entry of the server's slow log, as a watch read it. It ends when it was read, up to 0.6 s after its statement. Attribute:
/// `connection`.
pub const LOGGED: &str = "log.slow_statement";

/// The kind of a span: a query that needs nothing, and took 10 ms or longer ([`STALL`]'s watch sent it).
pub const CANARY: &str = "canary";

/// The source of a snapshot: what such a watch came to, when it had ended: its account, its cost, what it could not read.
pub const STALLS_WATCHED: &str = "stalls.watch";

/// Something that went on for a while.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// On the run's clock.
    pub from_us: u64,
    /// Not before [`Self::from_us`].
    pub to_us: u64,
    /// `fill`, `server.start`, `preheat`, `load.warmup`, `load.measured`, ...
    pub kind: String,
    /// Of what: the arm's name where it is a part of an arm; empty when there is but one.
    pub entity: String,
    /// What is known of it, by name; values as people read them.
    pub attributes: BTreeMap<String, String>,
}

impl Span {
    pub fn length_us(&self) -> u64 {
        self.to_us.saturating_sub(self.from_us)
    }
}
