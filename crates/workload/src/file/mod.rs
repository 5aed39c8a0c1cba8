// SPDX-License-Identifier: Apache-2.0
//! A workload that a user has written down: statements, the sources of their values, the share of each transaction, the time that clients think.
//!
//! In: the text of a TOML file. Out: a [`WorkloadFile`], which [`WorkloadFile::build`] makes a [`Workload`](crate::Workload) for one
//! family of servers; or every [`Problem`] at once, with its place. docs/workloads.md has the keys.
//!
//! A placeholder is `:name`, the same for all servers. Each parameter is drawn once a transaction, or once a statement when the file
//! says so; a value that the server has returned cannot be used.

mod read;
mod sent_statements;
mod source;
mod sql;
#[cfg(test)]
mod tests;

pub use keyfile::Problem;

use crate::{Kind, Workload};
use capability::Protocol;
use keyfile::At;
use source::{Parameter, Pause};
use sql::Sql;

/// The content of a file, checked as far as possible without the server.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadFile {
    /// `None`: the file says no name of its own.
    pub name: Option<String>,
    /// The file's text as it was written.
    pub text: String,
    parameters: Vec<Parameter>,
    transactions: Vec<TransactionOf>,
    /// Codes of errors after which a transaction is tried again; `None`: those of the built-in workloads.
    retry: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq)]
struct TransactionOf {
    name: String,
    weight: u32,
    /// The statement that opens the transaction; `None`: each statement commits by itself.
    begin: Option<String>,
    statements: Vec<StatementOf>,
    think: Pause,
}

#[derive(Debug, Clone, PartialEq)]
struct StatementOf {
    class: String,
    kind: Kind,
    mysql: Option<Sql>,
    postgresql: Option<Sql>,
    times: u32,
    pause: Pause,
    at: At,
}

impl StatementOf {
    fn sql(&self, protocol: Protocol) -> Option<&Sql> {
        match protocol {
            Protocol::Mysql => self.mysql.as_ref(),
            Protocol::Postgresql => self.postgresql.as_ref(),
        }
    }
}

impl WorkloadFile {
    /// Reads a workload's file.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the text; never empty.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        read::file(text)
    }

    /// The workload for servers of this family; `table_size` is the value of that word in the file.
    ///
    /// # Errors
    /// A statement has no text for this family, or a text that cannot be sent to it; a range that is empty with this `table_size`.
    pub fn build(&self, protocol: Protocol, table_size: u64) -> Result<Box<dyn Workload>, Vec<Problem>> {
        sent_statements::build(self, protocol, table_size).map(|played| Box::new(played) as Box<dyn Workload>)
    }

    /// Whether clients wait between transactions. Such waits have no meaning when a rate decides the starts.
    pub fn thinks(&self) -> bool {
        self.transactions.iter().any(|transaction| transaction.think != Pause::None)
    }

    /// Whether a parameter depends on the size of the tables.
    pub fn uses_table_size(&self) -> bool {
        self.parameters.iter().any(|parameter| parameter.source.uses_table_size())
    }

    /// The sources of the values, in words, for results.
    pub fn describe(&self) -> String {
        if self.parameters.is_empty() {
            return "none".to_owned();
        }
        let each =
            |parameter: &Parameter| format!("{} {}", parameter.name, parameter.source.describe(&self.parameters));
        self.parameters.iter().map(each).collect::<Vec<_>>().join("; ")
    }
}
