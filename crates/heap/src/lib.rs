// SPDX-License-Identifier: Apache-2.0
//! Heap profiles: what programs wrote down of who holds their heap, read line by line in constant memory.
//!
//! - [`massif`]: the output of Valgrind's Massif (`massif.out.PID`): header, snapshots, and the tree of who allocated what in some of them.
//! - [`Outline`], [`trees`]: the snapshots of a file, and the trees of some of them.
//! - [`Holdings`], [`growth`]: which function holds how much, and which grew; each branch is charged to the first function that does not only pass an
//!   allocation on, as `my_malloc` and `palloc` do.
//! - [`folded`]: a tree for flame graph tools.
//! - [`ms_print`]: the same text that Valgrind's `ms_print` makes of it.
//!
//! A file that breaks off or is damaged is read up to the damage ([`Damage`]). Not here: opening files; running a profiler.

mod damage;
pub mod folded;
mod frame;
mod growth;
mod lines;
pub mod massif;
pub mod ms_print;
mod subsystem;
mod tree;
mod wrappers;

pub use damage::{Damage, Error};
pub use frame::{Frame, Label};
pub use growth::{Growth, Held, Holdings, growth};
pub use lines::MOST_BYTES;
pub use tree::{Outline, Tree, TreeNode, trees};
