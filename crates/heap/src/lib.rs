// SPDX-License-Identifier: Apache-2.0
//! Heap profiles: files in which profilers wrote which functions hold a program's heap. They are read in bounded memory.
//!
//! - [`plain`]: reads compressed files as the text before compression.
//! - [`Format`]: Valgrind's Massif and DHAT, heaptrack, gperftools, jemalloc; the first bytes of a file tell it.
//! - [`Outline`], [`trees`]: the snapshots of a file, and the trees of callers of some of them.
//! - [`Symbols`]: a source of the names of functions, for formats that hold nothing but addresses.
//! - [`Holdings`], [`growth`]: how much each function holds, and by how much it grew. Each branch is charged to its first function that does more than
//!   pass an allocation on; `my_malloc` and `palloc` only pass it on.
//! - [`folded`], [`flame`]: a tree for flame graphs.
//! - [`massif`], [`ms_print`]: Massif's file as a stream, and the same text that Valgrind's `ms_print` makes of it; a tree in Massif's format.
//! - [`at_times`]: what heaptrack's file holds at any times.
//!
//! A file that breaks off or is damaged is read up to the damage ([`Damage`]). Not here: opening files; running a profiler.

mod addresses;
mod budget;
mod callers;
mod damage;
mod dhat;
mod estimate;
pub mod flame;
pub mod folded;
mod format;
mod frame;
mod growth;
mod heaptrack;
mod lines;
pub mod massif;
pub mod ms_print;
mod outline;
mod paths;
mod plain;
mod profile;
mod sampled;
mod snapshot;
mod subsystem;
mod tree;
mod wrappers;

pub use addresses::{Mapping, NoSymbols, Symbols};
pub use callers::AskedBelow;
pub use damage::{Damage, Error};
pub use format::Format;
pub use frame::{Frame, Label, base_name};
pub use growth::{Bounds, Growth, Held, Holdings, PartHeld, changed, growth};
pub use heaptrack::at_times;
pub use lines::MOST_BYTES;
pub use outline::Outline;
pub use plain::plain;
pub use profile::{each_tree, trees};
pub use snapshot::{Kind, Snapshot, TimeUnit};
pub use tree::{Tree, TreeNode};
