// SPDX-License-Identifier: Apache-2.0
//! The ledger: where a server's memory is, leaf by leaf, in bytes that sum to the kernel's total.
//!
//! In: an [`Inventory`], read by `observe`. Out: an [`Account`] of it, a [`WorstCase`] of the server, and an [`Oom`] of the host on which it was read; from
//! several inventories, [`OverTime`]. [`mapping`] parses the texts of /proc from which an inventory is made.
//!
//! How an account is made: each mapping belongs to one [`Class`]. The server's figures only split a class and never add to it. Where
//! they are larger than the resident memory they are scaled down; where they are smaller, the rest is unexplained. A difference is never a leaf.
//!
//! What it is not: it reads nothing and shows nothing. No I/O, no clock, no randomness, so that the same inventory always yields the same
//! account by the same build.

mod account;
mod advice;
mod allocations;
mod amount;
mod aria_cache;
mod beside_the_sum;
mod claim;
mod class;
mod contexts;
mod danger;
mod difference;
mod earlier;
mod entries;
mod estimate;
mod figures;
mod huge;
pub mod huge_pages;
mod innodb;
mod inventory;
mod kernel_log;
mod key_cache;
mod kind;
mod leaf;
mod leaves_of_classes;
pub mod mapping;
mod marks;
mod merged_pool;
mod oom;
mod over_time;
mod parts;
mod pieces;
mod plausible;
mod private;
mod row;
mod share;
mod table;
mod unread_processes;
mod untouched;
mod worst;

pub use account::account;
pub use class::{Class, classes, is_pool_that_may_grow};
pub use danger::{Advice, Arena, Oom, Victim};
pub use difference::{Difference, LeafDifference, difference};
pub use earlier::shared;
pub use entries::{Account, Basis, Beside, Leaf, ProcessAccount, ProcessLeaf, Unexplained, UnnamedMapping};
pub use estimate::{Estimates, RoleEstimate, is_enough};
pub use inventory::*;
pub use kernel_log::{Kill, is_of_a_kill, is_of_a_member, last_kill};
pub use kind::{Kind, kind};
pub use leaf::{event_leaf, rows, rows_for};
pub use marks::{AccountMark, Marks, Raised, StatementMark};
pub use oom::{badness, oom, oom_score};
pub use over_time::{LeafOverTime, Moment, OverTime, over_time, side_by_side};
pub use plausible::implausible;
pub use row::{Amount, Reckoned, Reckoning, Row, Rule};
pub use worst::{AccountClaim, Assumed, Concurrency, Line, Unbounded, WorstCase, worst_case};
