// SPDX-License-Identifier: Apache-2.0
//! The product of a server, and its capabilities: flavours, versions, and the one table of the differences between them (invariant 11).
//!
//! - [`Flavour`], [`Version`]: as people, programs and packages write them.
//! - [`Protocol`]: the protocol that a flavour speaks.
//! - [`words`]: the table's words for a capability in one version; empty when the server lacks the capability. Code asks this function and never
//!   compares a version itself.
//! - [`gauges`]: which of the numbers that a capability yields are no counters.
//! - [`questions`]: statements that ask a server whether it has a capability, so that the table can be compared with real servers.
//! - [`free_list()`]: InnoDB's handling of an empty free list in one version, with its source.
//! - [`MALLOCS`]: the mallocs that a server can be started with.
//! - [`is_kept`]: the variables that a sandbox sets itself, and nobody else.
//!
//! Not here: talking to a server. `sandbox` starts servers by this table, `observe` reads them by it.

mod error;
mod flavour;
mod free_list;
mod gauges;
mod malloc;
mod name;
mod protocol;
mod question;
mod sandbox_variables;
mod table;
mod version;

pub use error::Error;
pub use flavour::Flavour;
pub use free_list::{
    Adapt, Algorithm, BACKOFF_PAGES_MIN, BatchLimit, Bug, Clock, Counter, Evidence, FreeList, Function, LADDER, Ladder,
    ONE_INSTANCE_BELOW, OnEmpty, Progress, Refiller, SCAN_DEPTH_MIN, Search, Setting, SleepCall, Target, Watch, bugs,
    free_list, free_lists, instances, setting, waiting_function, watches,
};
pub use gauges::Gauges;
pub use malloc::{MALLOCS, MallocKind, MallocSetting, is_malloc_variable, malloc_setting};
pub use name::Capability;
pub use protocol::Protocol;
pub use question::{Answer, Question, Verdict, questions};
pub use sandbox_variables::is_kept;
pub use table::{Entry, any_words, entries, first_since, gauges, has, stop_signal, words};
pub use version::Version;
