// SPDX-License-Identifier: Apache-2.0
//! The facts that one run saw, as plain data.
//!
//! The stations of the data flow share this crate: `load` and `observe` make these types, `recording` stores them, `explain` reads them, and `report`
//! shows the results of `explain`. This crate does no I/O and knows no clock: a time is a number of nanoseconds or microseconds since the start of
//! the run, on one monotonic clock.
//!
//! Everything here was measured, or was asked for by the user. Rates, ledgers and modes are computed from it, so that an old run can be explained
//! anew (invariant 5 of `docs/architecture.md`).

mod conditions;
mod driven;
mod footprint;
mod histogram;
mod load;
mod measured;
mod run;
mod samples;
mod secret;
mod snapshots_and_spans;
mod squeeze;
mod times;
mod verdict;

pub use conditions::{Conditions, Data, DataHow, Host, Server, Tool};
pub use driven::{Driven, Output};
pub use footprint::{FOOTPRINT, Footprint};
pub use histogram::{Bucket, LatencyHistogram};
pub use load::{
    Arrivals, Fairness, Latencies, LoadResult, Phase, SlowStatement, SlowStatements, Statement, TimelinePoint,
};
pub use measured::{Looks, Measured, Quantity, Unit};
pub use run::{Arm, ArmOutcome, Delay, DelayMode, ENDED_EARLY, Event, Evidence, Witness};
pub use samples::{Point, SampleSink, Series, SinkError};
pub use secret::{
    MASK, command_masked, is_never_shown, is_password_word, is_secret_name, secrets_masked, setting_masked,
};
pub use snapshots_and_spans::{
    CANARY, CANARY_MEANWHILE, Format, INVENTORY, INVENTORY_FIGURES, LOGGED, PLANTED, PROBED_CALL, SERVER_COUNTED,
    SERVER_SAID, SLOW_STATEMENT, STALL, STALL_VICTIM, STALLS_WATCHED, Snapshot, Span, THREAD_WAIT,
};
pub use squeeze::{DiskMechanism, OomVictim, RamAmount, RamMechanism};
pub use times::{Clock, Time, Times};
pub use verdict::Verdict;
