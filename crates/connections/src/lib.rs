// SPDX-License-Identifier: Apache-2.0
//! Connection limits: how many connections each account may have, how many it has, and which limit would keep one account from taking the connections
//! of all others.
//!
//! In: [`ServerReading`], what `observe` read of a server and of pgBouncer in front of it. Out:
//! - [`audit()`]: limits, use now and sampled peak of the server, its accounts, its databases and its pooler; whether more is promised than there is.
//! - [`explain()`]: which limit an error message is about, with its present value.
//! - [`plan()`]: a limit for each account, the statements that set it in the server's dialect, and the statements that restore the present limits.
//!
//! Not here: this crate asks no server and changes nothing. No I/O, no clock, no randomness.

mod account;
mod account_use;
mod audit;
mod claim;
mod client;
mod explain;
mod plan;
mod pooler;
mod pressure;
mod readings;
mod refusal;
mod standing;
mod statement;
mod usage;

pub use account::Account;
pub use account_use::AccountUse;
pub use audit::{Audit, DatabaseUse, Overbooking, Reserve, ServerUse, Unassigned, audit};
pub use claim::Claim;
pub use explain::{Explained, Hit, explain};
pub use plan::{Change, Plan, PlanRequest, Planned, Unplanned, plan};
pub use pooler::{PoolUse, PoolerUse};
pub use pressure::Pressure;
pub use readings::{AccountSeen, DatabaseSeen, Look, PoolSeen, PoolerSeen, ServerReading, Sessions};
pub use refusal::{Limit, Refusal, refusal};
pub use statement::dialect_is_known;

#[cfg(test)]
mod tests;
