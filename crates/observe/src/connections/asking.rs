// SPDX-License-Identifier: Apache-2.0
use super::Lost;
use crate::server::{Query, remedy_of};
use ledger::Missing;

pub(super) type Row = Vec<Option<String>>;

/// Asks a server. A statement that the server refuses is noted as missing; a lost connection is an error.
pub(super) struct Asking<'a> {
    pub(super) connection: &'a mut dyn Query,
    pub(super) missing: Vec<Missing>,
}

impl Asking<'_> {
    /// `Ok(Err)`: the server refused the statement.
    fn ask(&mut self, sql: &str) -> Result<Result<Vec<Row>, String>, Lost> {
        match self.connection.rows(sql) {
            Ok(rows) => Ok(Ok(rows)),
            // the closures of tests refuse in this way
            Err(error) if !error.is::<load::Error>() && !error.is::<std::io::Error>() => Ok(Err(error.to_string())),
            Err(error) => match error.downcast_ref() {
                Some(load::Error::Server { .. }) => Ok(Err(error.to_string())),
                _ => Err(error),
            },
        }
    }

    /// The rows of the first statement that the server understands. `None`: it understands no statement; then `what` is missing.
    pub(super) fn first(
        &mut self,
        what: &str,
        statements: &[&str],
        remedy: Option<&str>,
    ) -> Result<Option<Vec<Row>>, Lost> {
        let mut last = String::new();
        for sql in statements {
            match self.ask(sql)? {
                Ok(rows) => return Ok(Some(rows)),
                Err(why) => last = why,
            }
        }
        let remedy = remedy_of(&last, remedy).map(str::to_owned);
        self.missing.push(Missing { what: what.into(), why: last, remedy });
        Ok(None)
    }

    pub(super) fn rows(&mut self, what: &str, sql: &str, remedy: Option<&str>) -> Result<Vec<Row>, Lost> {
        Ok(self.first(what, &[sql], remedy)?.unwrap_or_default())
    }
}

/// The text of a column; empty for NULL.
pub(super) fn text(row: &Row, column: usize) -> String {
    row.get(column).cloned().flatten().unwrap_or_default()
}

pub(super) fn number<T: std::str::FromStr>(row: &Row, column: usize) -> Option<T> {
    row.get(column)?.as_ref()?.trim().parse().ok()
}

/// A map from rows of name and value.
pub(super) fn pairs(rows: Vec<Row>) -> std::collections::BTreeMap<String, String> {
    rows.into_iter().map(|row| (text(&row, 0), text(&row, 1))).collect()
}
