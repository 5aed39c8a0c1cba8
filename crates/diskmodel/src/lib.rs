// SPDX-License-Identifier: Apache-2.0
//! What a disk does to a request, as numbers: how long an operation takes, how many a second, how many at once.
//!
//! ```text
//! words (flags, experiment file) -> Asked -> Model -> Law -> how long this request waits
//!                        profiles.toml ->/       \-> simulate -> what a probe is to see
//! ```
//!
//! In: requests with the moment they start, in nanoseconds. Out: how much later each is to be answered. No I/O, no clock, and the only
//! randomness is a generator whose seed is part of the model, so that a run can be repeated. Whoever calls [`Law`] holds the clock.
//!
//! A request first gets its tokens (operations a second, bytes a second), then waits for one of the disk's servers, then takes a time
//! drawn from its class's distribution, longer while a stall lasts.

mod asked;
mod bucket;
mod distribution;
mod law;
mod model;
mod profile;
mod simulate;
mod spec;
mod table;
mod waited;

pub use asked::Asked;
pub use bucket::Bucket;
pub use distribution::{Distribution, Rare};
pub use law::{Class, Law, Request};
pub use model::{Counts, Limit, Model, Of, Operation, Stalls};
pub use profile::{Figure, Profile, ProfileSpec, profiles};
pub use simulate::{Seen, closed_loop};
pub use spec::{LimitSpec, OperationSpec, SpecError};
pub use table::{Bin, Table};
pub use waited::Waited;
