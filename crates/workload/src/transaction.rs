// SPDX-License-Identifier: Apache-2.0
//! The statements of a transaction with their values: all that an engine needs to know about a workload.

use crate::{Code, Rng};
use capability::Protocol;

/// How sysbench counts a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    Other,
}

/// One statement as the server prepares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementSpec {
    /// The group of its latencies: `point_select`. Several statements (one for each table) may share a class.
    pub class: String,
    pub kind: Kind,
    /// `?` as placeholder for MySQL, `$1` for PostgreSQL.
    pub sql: String,
    pub params: usize,
    pub returns_rows: bool,
}

impl StatementSpec {
    /// `sql` has `?` for each placeholder, and no other `?`.
    pub(crate) fn new(class: &str, kind: Kind, sql: &str, protocol: Protocol) -> Self {
        let params = sql.matches('?').count();
        let sql = match protocol {
            Protocol::Mysql => sql.to_owned(),
            Protocol::Postgresql => numbered(sql),
        };
        Self { class: class.to_owned(), kind, sql, params, returns_rows: kind == Kind::Read }
    }
}

/// `id=$1` for `id=?`.
fn numbered(sql: &str) -> String {
    let mut pieces = sql.split('?');
    let first = pieces.next().unwrap_or_default().to_owned();
    (1..).zip(pieces).fold(first, |sql, (number, piece)| sql + &format!("${number}") + piece)
}

/// A value for a placeholder. Text is a range of [`Transaction::text`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Param {
    Int(i64),
    Text { start: u32, end: u32 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    statement: u32,
    first_param: u32,
    /// How long the client waits before it sends this step.
    pause_ns: u64,
}

/// The steps of one transaction, in order. Cleared and refilled for the next one: no allocation once warm.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transaction {
    steps: Vec<Step>,
    params: Vec<Param>,
    text: Vec<u8>,
    think_ns: u64,
}

impl Transaction {
    pub fn clear(&mut self) {
        self.think_ns = 0;
        self.steps.clear();
        self.params.clear();
        self.text.clear();
    }

    /// Adds a step that runs `statement`, an index into [`Workload::statements`]; its parameters follow by [`Self::int`] and [`Self::text`].
    pub fn step(&mut self, statement: usize) {
        self.steps.push(Step { statement: narrow(statement), first_param: narrow(self.params.len()), pause_ns: 0 });
    }

    /// The client waits this long before it sends the step that was added last.
    pub fn pause(&mut self, ns: u64) {
        if let Some(step) = self.steps.last_mut() {
            step.pause_ns = ns;
        }
    }

    /// The connection stays idle for this long after this transaction, in a closed loop.
    pub fn think(&mut self, ns: u64) {
        self.think_ns = ns;
    }

    #[inline]
    pub fn think_ns(&self) -> u64 {
        self.think_ns
    }

    /// The pause before step `index` (below [`Self::len`]).
    #[inline]
    pub fn pause_ns(&self, index: usize) -> u64 {
        self.steps[index].pause_ns
    }

    pub fn int(&mut self, value: i64) {
        self.params.push(Param::Int(value));
    }

    /// Adds a text parameter; `write` appends its bytes.
    pub fn text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let text = self.append(write);
        self.params.push(text);
    }

    pub(crate) fn param(&mut self, value: Param) {
        self.params.push(value);
    }

    /// Adds a text that does not become a parameter of the last step by itself.
    pub(crate) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Param {
        let start = narrow(self.text.len());
        write(&mut self.text);
        Param::Text { start, end: narrow(self.text.len()) }
    }

    pub fn len(&self) -> usize {
        self.steps.len()
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The statement and parameters of step `index` (below [`Self::len`]).
    #[inline]
    pub fn get(&self, index: usize) -> (usize, &[Param]) {
        let step = self.steps[index];
        let end = self.steps.get(index + 1).map_or(self.params.len(), |next| next.first_param as usize);
        (step.statement as usize, &self.params[step.first_param as usize..end])
    }

    /// The bytes that [`Param::Text`] points into.
    #[inline]
    pub fn texts(&self) -> &[u8] {
        &self.text
    }
}

/// A transaction has far fewer than 2^32 steps or bytes.
fn narrow(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// What a connection sends, transaction after transaction.
pub trait Workload: Send + Sync {
    /// All statements, in a fixed order.
    fn statements(&self) -> &[StatementSpec];

    /// Adds the steps of the next transaction to `transaction`, which comes empty. Does not allocate once `transaction` has grown.
    fn next(&self, rng: &mut Rng, transaction: &mut Transaction);

    /// Whether a transaction that met this error is rolled back and tried again: with the same values, or with others where those are the reason
    /// ([`Code::is_duplicate_key`]).
    fn retries(&self, code: Code) -> bool {
        code.is_retryable()
    }
}
