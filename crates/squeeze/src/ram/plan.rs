// SPDX-License-Identifier: Apache-2.0
//! How much RAM is to be hidden, by which mechanism, and within which bounds.

use crate::Meminfo;
use crate::ram::room::Room;
use evidence::{OomVictim, RamAmount, RamMechanism};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Options {
    pub amount: RamAmount,
    /// Drop the clean page cache of the whole host first: faster, but it slows down every program.
    pub drop_caches: bool,
    /// How long the reservation may take: with a full page cache the kernel has to make room.
    pub deadline: Duration,
    /// Continue although the host has swap: then the kernel may swap a server out instead of running short.
    pub with_swap: bool,
    /// `None`: the holder where the machine allows it, else the balloon.
    pub mechanism: Option<RamMechanism>,
    pub oom_victim: OomVictim,
    /// Fail when less than all was hidden; without it, when less than half was.
    #[serde(default)]
    pub strict: bool,
}

impl Options {
    pub fn new(amount: RamAmount) -> Self {
        Self {
            amount,
            drop_caches: false,
            deadline: Duration::from_secs(60),
            with_swap: false,
            mechanism: None,
            oom_victim: OomVictim::Holder,
            strict: false,
        }
    }

    /// The oom_score_adj of the holding process. 1000: the kernel kills it before any database. 0: the kernel chooses, mostly the
    /// largest process, and a holder of huge pages counts as small.
    pub(crate) fn oom_score_adj(&self) -> i32 {
        if self.oom_victim == OomVictim::Server { 0 } else { 1000 }
    }
}

/// The planned change. Nothing is changed yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    pub options: Options,
    /// The chosen mechanism.
    pub mechanism: RamMechanism,
    pub before: Meminfo,
    /// The memory from which the RAM is taken.
    pub room: Room,
    /// The bytes that the mechanism takes in one piece: a huge page, a memory block, or an ordinary page.
    pub unit_bytes: u64,
    /// 0: the host is already as small as asked, and there is nothing to hide.
    pub units: u64,
    pub hide_bytes: u64,
    /// The available memory never falls below this.
    pub floor_bytes: u64,
    pub overcommit_before: u64,
    /// Pages of the huge-page pool, without surplus.
    pub pool_before: u64,
    /// Facts that the user should know; they do not forbid the plan.
    pub warnings: Vec<String>,
}

impl Plan {
    /// The `MemAvailable` at which hiding stops: a sixteenth below the floor. A plan may leave exactly the floor, and other
    /// programs allocate meanwhile.
    pub(crate) fn stop_bytes(&self) -> u64 {
        self.floor_bytes - self.floor_bytes / 16
    }

    /// The `vm.nr_overcommit_hugepages` by which all planned pages are granted: the kernel grants a page beyond the pool only while there are fewer
    /// surplus pages than that, of everybody (mm/hugetlb.c, alloc_surplus_hugetlb_folio).
    pub(super) fn raised_cap(&self, cap: u64, surplus: u64) -> u64 {
        cap.max(surplus).saturating_add(self.units)
    }

    pub fn is_nothing(&self) -> bool {
        self.units == 0
    }
}
