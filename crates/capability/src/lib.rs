// SPDX-License-Identifier: Apache-2.0
//! Which server, and what it can do: flavours, versions, and the one table of what differs between them (invariant 11).
//!
//! - [`Flavour`], [`Version`]: as people, programs and packages write them.
//! - [`Protocol`]: how a flavour is spoken to.
//! - [`words`]: what holds for a capability in one version; nothing, when the server lacks it. Code asks this and never compares a
//!   version itself.
//! - [`gauges`]: which of the numbers that a capability yields are no counters.
//! - [`questions`]: how a server is asked itself whether it has a capability, so that the table can be held against real servers.
//! - [`free_list()`]: what InnoDB does about an empty free list in one version, with its source.
//! - [`MALLOCS`]: the mallocs that a server can be started with.
//! - [`is_kept`]: the variables that a sandbox sets itself, and nobody else.
//!
//! Not here: talking to a server. `sandbox` starts servers by this table, `observe` reads them by it.

mod error;
mod flavour;
mod free_list;
mod gauges;
mod kept;
mod malloc;
mod name;
mod protocol;
mod question;
mod table;
mod version;

pub use error::Error;
pub use flavour::Flavour;
pub use free_list::{
    Adapt, Algorithm, BACKOFF_PAGES_MIN, BatchLimit, Bug, Clock, Counter, Evidence, FreeList, Function, LADDER, Ladder,
    OnEmpty, Progress, Refiller, SCAN_DEPTH_MIN, Search, Setting, SleepCall, Target, Watch, bugs, free_list,
    free_lists, setting, waiting_function, watches,
};
pub use gauges::Gauges;
pub use kept::is_kept;
pub use malloc::{MALLOCS, MallocKind, MallocSetting, is_malloc_variable, malloc_setting};
pub use name::Capability;
pub use protocol::Protocol;
pub use question::{Answer, Question, Verdict, questions};
pub use table::{Entry, any_words, entries, first_since, gauges, has, stop_signal, words};
pub use version::Version;
