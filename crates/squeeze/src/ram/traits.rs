// SPDX-License-Identifier: Apache-2.0
//! The differences between the mechanisms that hide RAM, as data, so that a result can carry them.

use evidence::RamMechanism;
use serde::{Deserialize, Serialize};

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

impl Traits {
    pub(crate) fn of(mechanism: RamMechanism) -> Self {
        let held = Self {
            mem_total_shrinks: false,
            page_cache_limited: true,
            whole_host: true,
            hidden_ram_swappable: false,
            back_by_itself: true,
            safe_from_others: true,
            needs_root: true,
        };
        match mechanism {
            RamMechanism::Holder => held,
            RamMechanism::Pool => Self { back_by_itself: false, safe_from_others: false, ..held },
            RamMechanism::Offline => Self { mem_total_shrinks: true, back_by_itself: false, ..held },
            RamMechanism::Balloon => Self { hidden_ram_swappable: true, needs_root: false, ..held },
        }
    }
}
