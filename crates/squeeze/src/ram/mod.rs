// SPDX-License-Identifier: Apache-2.0
//! Hides RAM from the whole host, by the mechanism that the machine allows.
//!
//! | mechanism | what takes the RAM | whether the RAM is back when all processes of Wringer are killed |
//! | --- | --- | --- |
//! | [`holder`] | a process reserves huge pages without touching them: the kernel takes them off its free lists at mmap(2) (surplus pages, reserved; mm/hugetlb.c, hugetlb_acct_memory). `vm.nr_overcommit_hugepages` is raised only while it reserves | yes |
//! | `pool` | pages of the huge-page pool, as in article 1: nobody holds them, and any program may take them | no |
//! | `offline` | memory blocks taken offline: the only mechanism that makes `MemTotal` smaller | no |
//! | [`balloon`] | a process touches its own memory; without root, and in containers | yes |
//!
//! With `oom_score_adj` 1000 that process is the first victim of the OOM killer: a squeeze that is too large gives the RAM back,
//! and kills no database.
//!
//! [`plan`] reads and refuses; [`crate::Squeezes`] applies the plan. The result carries its measurement, its mechanism, and the mechanism's traits.

pub mod balloon;
pub mod holder;

mod changes;
mod hide;
mod host_state;
mod measure;
mod objections;
mod offline;
pub mod persist;
mod plan;
mod planning;
pub(crate) mod pool;
mod refused;
mod room;
mod server_pages;
mod taken_ram;
mod traits;

pub use changes::Change;
pub use hide::Hidden;
pub(crate) use hide::hide;
pub use measure::{remainder, shortage};
pub use plan::{Options, Plan};
pub use planning::{automatic, plan};
pub use room::Room;
pub use server_pages::{GrantedPages, ServerPages, Wish};
pub use taken_ram::Node;
pub use traits::Traits;

/// Pages of the default size that may be taken beyond the pool (kernel, admin-guide/mm/hugetlbpage.rst).
pub const OVERCOMMIT: &str = "/proc/sys/vm/nr_overcommit_hugepages";
