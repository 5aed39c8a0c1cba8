// SPDX-License-Identifier: Apache-2.0
//! A workload that a user has written down: statements, where their values come from, how often each transaction comes, how long
//! clients think.
//!
//! In: the text of a TOML file. Out: a [`WorkloadFile`], which [`WorkloadFile::build`] makes a [`Workload`](crate::Workload) for one
//! family of servers; or every [`Problem`] at once, with its place. docs/workloads.md has the keys.
//!
//! A placeholder is `:name`, the same for all servers. Each parameter is drawn once a transaction, or once a statement when the file
//! says so; a value that the server has returned cannot be used.

mod play;
mod read;
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

/// What a file says, checked as far as that can be without knowing the server.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadFile {
    /// `None`: the file says no name of its own.
    pub name: Option<String>,
    /// As it was written.
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
    /// What opens it; `None`: each statement commits by itself.
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

    /// The workload as it goes to servers of this family; `table_size` is what the file means by that word.
    ///
    /// # Errors
    /// A statement has no text for this family, or one that it cannot be sent; a range that is empty with this `table_size`.
    pub fn build(&self, protocol: Protocol, table_size: u64) -> Result<Box<dyn Workload>, Vec<Problem>> {
        play::build(self, protocol, table_size).map(|played| Box::new(played) as Box<dyn Workload>)
    }

    /// Whether clients wait between transactions, which has no meaning when a rate says when they start.
    pub fn thinks(&self) -> bool {
        self.transactions.iter().any(|transaction| transaction.think != Pause::None)
    }

    /// Whether a parameter goes by the size of the tables.
    pub fn uses_table_size(&self) -> bool {
        self.parameters.iter().any(|parameter| parameter.source.uses_table_size())
    }

    /// Where the values come from, in words, as results name it.
    pub fn describe(&self) -> String {
        if self.parameters.is_empty() {
            return "none".to_owned();
        }
        let each =
            |parameter: &Parameter| format!("{} {}", parameter.name, parameter.source.describe(&self.parameters));
        self.parameters.iter().map(each).collect::<Vec<_>>().join("; ")
    }
}
