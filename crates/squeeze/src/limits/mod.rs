// SPDX-License-Identifier: Apache-2.0
//! RAM, swap and CPUs of one command: cgroups that it is started in, and its CPU affinity where there is no controller of CPU sets.
//!
//! In: what is asked ([`Asked`]). [`plan`] looks at the machine and refuses what cannot be had; [`Plan::changes`] says what would be
//! done; [`Plan::apply`] does it as steps of a run. Out: the folders to join, the affinity, and in the end an [`Account`] of what the
//! kernel counted. All of it goes with the run.

mod account;
mod apply;
mod plan;
mod words;

pub use account::{Account, CpuAccount, MemoryAccount};
pub use apply::{Got, Limits};
pub use plan::{Change, Plan, plan};
pub use words::{CpuList, Cpus, Swap};

use serde::Serialize;
use units::Bytes;

/// What a command is to get. `None`: as much as there is.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Asked {
    /// Page cache included.
    pub ram: Option<Bytes>,
    pub swap: Option<Swap>,
    pub cpus: Option<Cpus>,
    pub cpuset: Option<CpuList>,
}

impl Asked {
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}
