// SPDX-License-Identifier: Apache-2.0
//! What stalls have cost, for people: the same words for the stalls of a log and those of a server that runs.

use crate::commands::chart::time;
use crate::commands::connections::table::table;
use ::stalls::{Account, OfCause};

/// A table with a row for each cause, and `more` rows.
pub(super) fn by_cause(account: &Account, more: Option<(&str, OfCause)>) -> String {
    let of_cause = account.by_cause.iter().map(|(cause, of)| (cause.name(), *of));
    let rows: Vec<Vec<String>> = of_cause.chain(more).map(row).collect();
    table(&["What was lost", "stalls", "victims", "query time", ""], &rows)
}

fn row((name, of): (&str, OfCause)) -> Vec<String> {
    let lost = time(of.lost_query_us as f64);
    vec![name.to_owned(), of.stalls.to_string(), of.victims.to_string(), lost, String::new()]
}

/// By how much the counter rose, and by how much these stalls make it rise.
pub(super) fn wait_free(rose: u64, by_stalls: u64) -> String {
    let share = by_stalls as f64 / rose.max(1) as f64 * 100.0;
    format!("Innodb_buffer_pool_wait_free rose by {rose}; these stalls make it rise by {by_stalls} ({share:.0} %)\n")
}
