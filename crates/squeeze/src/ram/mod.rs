// SPDX-License-Identifier: Apache-2.0
//! Hiding RAM from the whole host.
//!
//! A *holder* process reserves huge pages without touching them: the kernel takes them off its free lists at mmap(2) (surplus pages,
//! reserved; mm/hugetlb.c, hugetlb_acct_memory), other programs cannot get them, and they come back when the holder dies, however it
//! dies. `vm.nr_overcommit_hugepages` is raised only while the holder reserves. With `oom_score_adj` 1000 the holder is what the OOM
//! killer takes first, so that an over-squeeze gives the RAM back and kills no database.
//!
//! [`plan`] reads and refuses; [`hide`] changes; the result carries its own measurement.

pub mod holder;

mod hide;
mod plan;

pub use hide::{Hidden, hide};
pub use plan::{Amount, Change, Options, Plan, floor_bytes, plan};

/// As it is named in recordings.
pub const MECHANISM: &str = "huge-page holder";

/// Pages of the default size that may be taken beyond the pool (kernel, admin-guide/mm/hugetlbpage.rst).
pub const OVERCOMMIT: &str = "/proc/sys/vm/nr_overcommit_hugepages";
