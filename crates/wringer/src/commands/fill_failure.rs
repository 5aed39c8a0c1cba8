// SPDX-License-Identifier: Apache-2.0
//! The exit code and the hints for each way in which a fill fails.

use super::connection::server_failure;
use crate::exit::{Exit, Failure};
use load::fill::Error;

/// Makes the failure for an error before anything was made.
pub fn refused(error: Error) -> Failure {
    match error {
        Error::Server { operation, source } => {
            let failure = server_failure(source);
            Failure { error: failure.error.context(operation), ..failure }
        }
        Error::Exists { .. } => Failure::new(Exit::Missing, error)
            .hint("--replace drops it first; --resume goes on with a fill that was cut off"),
        Error::Spec { .. } | Error::RowsPerPage { .. } | Error::RowTooWide { .. } | Error::RowTooNarrow { .. } => {
            Failure::new(Exit::Usage, error)
        }
        other => failed(other),
    }
}

/// Makes the failure for an error while rows were written, or after that: the made tables are dropped again, unless the fill was resumed.
pub fn failed(error: Error) -> Failure {
    match error {
        Error::Stopped | Error::Paused => Failure::new(Exit::Interrupted, error),
        Error::Busy => {
            Failure::new(Exit::Missing, error).hint("wait for its end; a fill that was killed lets go by itself")
        }
        Error::Resume { .. } => Failure::new(Exit::Missing, error)
            .hint("give the flags of the fill that was cut off; --replace drops the tables and begins anew"),
        Error::Left { .. } => Failure::new(Exit::NotRestored, error)
            .hint("once the server is well: the same flags with --replace begin anew, with --resume they go on"),
        _ => Failure::new(Exit::Failed, error),
    }
}
