// SPDX-License-Identifier: Apache-2.0
//! RAM, swap and CPUs of one command or one server: cgroups that it is started in, and its CPU affinity where there is no controller
//! of CPU sets.
//!
//! In: what is asked ([`Asked`]), and in whose words ([`OptionNames`]). [`plan`] looks at the machine and refuses what cannot be had;
//! [`Plan::changes`] says what would be done; [`Plan::apply`] does it as steps of a run. Out: the folders to join, the affinity, and in
//! the end an [`Account`] of what the kernel counted, or of a server what was asked and got ([`Limits::measure`]). All of it goes with
//! the run, or by [`Limits::remove`].
//!
//! Moving a running server would move none of its charges, so there is no such function. What a server's files have in the page cache
//! from outside is a free hit inside: [`evict`] them first.

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
pub use plan::{Change, Plan, plan};
pub use units::{CpuList, Cpus, Swap};

use serde::{Deserialize, Serialize};
use units::Bytes;

/// What a command or a server is to get. `None`: as much as there is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Page cache included.
    pub ram: Option<Bytes>,
    pub swap: Option<Swap>,
    pub cpus: Option<Cpus>,
    pub cpuset: Option<CpuList>,
    /// A cgroup of CPU time also without a quota: the kernel shares CPUs between cgroups first, so that who is in one runs beside
    /// others in another way than who is in none.
    pub cpu_group: bool,
}

impl Asked {
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}
