// SPDX-License-Identifier: Apache-2.0
//! Models a disk in numbers: how long an operation takes, how many operations it does in a second, how many at once.
//!
//! ```text
//! text (flags, experiment file) -> DiskRequest -> Model -> Law -> how long this request waits
//!                        profiles.toml ->/       \-> simulate -> what a probe should see
//! ```
//!
//! In: requests with their start in nanoseconds. Out: the delay of each answer. No I/O and no clock: the caller of [`Law`] has the
//! clock. The only randomness is a generator whose seed is part of the model, so that a run can be repeated.
//!
//! A request first gets its tokens (operations and bytes for each second), then waits for a free server of the disk, then takes a
//! time drawn from the distribution of its class, which is longer during a stall.

mod bucket;
mod class;
mod disk_request;
mod distribution;
mod law;
mod model;
mod profile;
mod simulate;
mod spec;
mod table;
mod waited;

pub use bucket::Bucket;
pub use class::Class;
pub use disk_request::DiskRequest;
pub use distribution::{Distribution, Rare};
pub use law::{Law, Request};
pub use model::{Counts, Limit, Model, Of, Operation, Stalls};
pub use profile::{Figure, Profile, ProfileSpec, profiles};
pub use simulate::{ClosedLoop, closed_loop};
pub use spec::{LimitSpec, OperationSpec, SpecError};
pub use table::{Bin, Table};
pub use waited::Waited;
