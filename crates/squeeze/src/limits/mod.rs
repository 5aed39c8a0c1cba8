// SPDX-License-Identifier: Apache-2.0
//! RAM, swap and CPUs of one command or one server. The command starts in cgroups; where there is no controller of CPU sets, its CPU affinity is set.
//!
//! In: the limits ([`LimitRequest`]), and the names of the user's options ([`OptionNames`]). [`plan`] inspects the machine and refuses
//! what it cannot do; [`Plan::changes`] lists the changes; a run's [`crate::Squeezes`] makes them as its steps. Out: the cgroup folders to
//! join, the affinity, and at the end an [`Account`] of the kernel's counts, or for a server a comparison of asked and got
//! ([`Limits::measure`]). All limits end with the run, or by [`crate::Squeezes::release`].
//!
//! There is no function to move a running server, because its charges would not move with it. Pages of a server's files that are
//! already in the page cache cost it nothing inside: [`evict`] them first.

mod account;
mod apply;
mod measure;
mod option_names;
mod page_cache;
mod plan;

pub use account::{Account, CpuAccount, MemoryAccount};
pub use apply::{Got, Limits};
pub use measure::{CPU_US, Usage};
pub use option_names::OptionNames;
pub use page_cache::evict;
pub use plan::{Change, Plan, available_cpus, plan};
pub use units::{CpuList, Cpus, Swap};

use serde::{Deserialize, Serialize};
use units::Bytes;

/// The limits of a command or a server. `None`: no limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitRequest {
    /// Page cache included.
    pub ram: Option<Bytes>,
    pub swap: Option<Swap>,
    pub cpus: Option<Cpus>,
    pub cpuset: Option<CpuList>,
    /// Make a CPU cgroup also without a quota. The kernel shares CPUs between cgroups first, so a process in a cgroup competes with
    /// others in another way than a process without one.
    pub cpu_group: bool,
}

impl LimitRequest {
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}
