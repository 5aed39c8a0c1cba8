// SPDX-License-Identifier: Apache-2.0
//! How much RAM is to be hidden, by which mechanism, and within which bounds.

use crate::Meminfo;
use crate::ram::mechanism::{Choice, Mechanism};
use crate::ram::room::Room;
use run::OomVictim;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use units::Bytes;

/// How much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// Take this much away.
    Hide(Bytes),
    /// Take so much away that `MemAvailable` is this.
    Leave(Bytes),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Options {
    pub amount: Amount,
    /// Drop the clean page cache of the whole host first: faster, and felt by everybody.
    pub drop_caches: bool,
    /// How long the reservation may take; on a full cache the kernel has to make room.
    pub deadline: Duration,
    /// Go on although the host has swap, and hidden RAM may page the server out instead of being missed.
    pub with_swap: bool,
    pub mechanism: Choice,
    pub oom_victim: OomVictim,
    /// Less than all of it is a failure; otherwise less than half.
    #[serde(default)]
    pub strict: bool,
}

impl Options {
    pub fn new(amount: Amount) -> Self {
        Self {
            amount,
            drop_caches: false,
            deadline: Duration::from_secs(60),
            with_swap: false,
            mechanism: Choice::Auto,
            oom_victim: OomVictim::Holder,
            strict: false,
        }
    }

    /// Of the process that holds it: 1000, so that the kernel kills it before any database; 0 leaves the kernel its choice, which is the
    /// largest, and a holder of huge pages counts as small.
    pub(crate) fn oom_score_adj(&self) -> i32 {
        if self.oom_victim == OomVictim::Server { 0 } else { 1000 }
    }
}

/// What will be done. Nothing is changed yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    pub options: Options,
    /// The one that was chosen.
    pub mechanism: Mechanism,
    pub before: Meminfo,
    /// What there is to take from.
    pub room: Room,
    /// Huge pages, memory blocks, or ordinary pages: what the mechanism takes in one piece.
    pub unit_bytes: u64,
    /// 0: the host is as small as asked already, and there is nothing to hide.
    pub units: u64,
    pub hide_bytes: u64,
    /// What is available stays above it.
    pub floor_bytes: u64,
    pub overcommit_before: u64,
    /// Pages of the huge-page pool, without surplus.
    pub pool_before: u64,
    /// To be known, and no reason to refuse.
    pub warnings: Vec<String>,
}

impl Plan {
    /// `MemAvailable` at which taking stops. A plan may leave exactly the floor, and others take and give meanwhile: so this is a
    /// sixteenth below it.
    pub(crate) fn stop_bytes(&self) -> u64 {
        self.floor_bytes - self.floor_bytes / 16
    }

    pub fn is_nothing(&self) -> bool {
        self.units == 0
    }
}
