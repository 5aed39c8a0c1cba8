// SPDX-License-Identifier: Apache-2.0
use units::Bytes;

/// Why a fill was refused or ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{option} is {value}: it must be {expected}")]
    Spec { option: &'static str, value: String, expected: &'static str },
    #[error("no row width gives exactly {asked} rows on a page of {}; the nearest possible number is {near}", Bytes(*page_bytes))]
    RowsPerPage { asked: u32, page_bytes: u64, near: String },
    #[error("rows of {row_bytes} bytes do not stay on one page: the widest that do have {widest} bytes")]
    RowTooWide { row_bytes: u64, widest: u64 },
    #[error("rows of {row_bytes} bytes are narrower than the columns id, k, c and pad, which take {narrowest}")]
    RowTooNarrow { row_bytes: u64, narrowest: u64 },
    #[error("the table {table} is there already")]
    Exists { table: String },
    /// Nothing was changed.
    #[error("another fill is at work in this database")]
    Busy,
    /// Nothing was changed.
    #[error("the fill of {table} cannot go on: the table is not what this fill would have left. {what}")]
    Resume { table: String, what: String },
    /// The server refused, or the connection was lost.
    #[error("{operation}")]
    Server {
        operation: String,
        #[source]
        source: crate::Error,
    },
    #[error("{what} cannot be read from the server's answer to: {sql}")]
    Answer { what: &'static str, sql: String },
    /// The rows that were read back differ from the written ones.
    #[error("{table} does not hold what was written: {what} is {read}, and should be {written}")]
    Differs { table: String, what: &'static str, written: String, read: String },
    /// The stop flag was set. Tables that this fill made have been dropped.
    #[error("stopped; the tables that were being filled are dropped")]
    Stopped,
    /// The stop flag was set while a fill was resumed.
    #[error("stopped; the rows of completed transactions are kept, and --resume goes on with them")]
    Paused,
    /// The fill failed, and then the server did not drop the tables that it had made.
    #[error("the fill failed, and could not be undone ({why}): still there: {}", tables.join(", "))]
    Left {
        tables: Vec<String>,
        why: String,
        #[source]
        error: Box<Error>,
    },
    #[error("a connection's thread ended in a panic while filling")]
    Panicked,
}

impl Error {
    pub(crate) fn server(operation: impl Into<String>) -> impl FnOnce(crate::Error) -> Self {
        let operation = operation.into();
        move |source| Self::Server { operation, source }
    }
}
