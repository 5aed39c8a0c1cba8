// SPDX-License-Identifier: Apache-2.0
//! Makes tables of a given size and shape: sysbench's `sbtest1..N`, with rows of the width that is asked for.
//!
//! In: a [`FillSpec`] and the server's facts. [`plan`] computes rows, widths and statements from them, without I/O. [`run`] writes the rows in key
//! order over several connections, by each server's fastest way that keeps its durability settings. Then it reads everything back: the rows by count,
//! sum, least and greatest key; rows on a page and size from the server's own statistics. Out: a [`FillReport`] with the asked, the predicted and the
//! actual figures side by side.
//!
//! Columns of fixed width with a default value make a row wide. The row keeps this width when a load deletes and inserts it, and the filler is not
//! sent over the network. No row is written twice.
//!
//! Not here: starting the server (`sandbox`), sending a load (`engine`).

mod error;
mod facts;
mod folder;
mod guard;
mod layout;
mod plan;
mod readback;
mod report;
mod resume;
mod rows;
mod run;
mod spec;
mod write;

pub use error::Error;
pub use folder::DataFolder;
pub(crate) use guard::Guard;
pub use plan::{FillPlan, Lane, Predicted, plan};
pub use readback::TableGot;
pub use report::{FillReport, Got};
pub(crate) use run::without;
pub use run::{Progress, Stage, ensure_database, run};
pub use spec::{FillSpec, ServerFacts, Shape, Size, TEXT_INDEXES};

use std::sync::atomic::{AtomicBool, Ordering};

/// # Errors
/// [`Error::Stopped`]: `stop` was set.
fn go_on(stop: &AtomicBool) -> Result<(), Error> {
    if stop.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
}
