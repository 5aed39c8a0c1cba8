// SPDX-License-Identifier: Apache-2.0
//! The mechanisms that hide RAM, and their differences. The differences are data, so that a result can carry them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How RAM is taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// A process that reserves huge pages and touches none.
    Holder,
    /// The pool of huge pages: stays when all of Wringer is killed.
    Pool,
    /// Memory blocks taken offline: `MemTotal` shrinks.
    Offline,
    /// A process that touches its own memory: for users who are not root, and for containers.
    Balloon,
}

/// The mechanism that the user asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// The holder where the machine allows it, else the balloon.
    #[default]
    Auto,
    This(Mechanism),
}

/// The traits of a mechanism, by which its results differ from those of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traits {
    /// `MemTotal` falls: a server that sizes itself from it notices.
    pub mem_total_shrinks: bool,
    /// The page cache of all programs must fit into the rest.
    pub page_cache_limited: bool,
    /// It affects every program on the host, not one server.
    pub whole_host: bool,
    /// The kernel may swap the hidden RAM out.
    pub hidden_ram_swappable: bool,
    /// The RAM is free again when every process of Wringer is killed.
    pub back_by_itself: bool,
    /// Other programs cannot take part of the hidden RAM for themselves.
    pub safe_from_others: bool,
    pub needs_root: bool,
}

impl Mechanism {
    /// The name in recordings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holder => "huge-page holder",
            Self::Pool => "huge-page pool",
            Self::Offline => "memory blocks offline",
            Self::Balloon => "balloon process",
        }
    }

    pub fn traits(self) -> Traits {
        let held = Traits {
            mem_total_shrinks: false,
            page_cache_limited: true,
            whole_host: true,
            hidden_ram_swappable: false,
            back_by_itself: true,
            safe_from_others: true,
            needs_root: true,
        };
        match self {
            Self::Holder => held,
            Self::Pool => Traits { back_by_itself: false, safe_from_others: false, ..held },
            Self::Offline => Traits { mem_total_shrinks: true, back_by_itself: false, ..held },
            Self::Balloon => Traits { hidden_ram_swappable: true, needs_root: false, ..held },
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
