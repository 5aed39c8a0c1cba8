// SPDX-License-Identifier: Apache-2.0
//! One client: its present activity and its needs.

use crate::draws::Draws;

/// The next event of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No event: the client has nothing to do.
    Out,
    /// A query begins.
    Starts,
    /// A burst needs its next page.
    NextPage,
    /// `backoff`: a wait is over.
    Polls,
    /// It waits for a batch that another thread runs.
    BehindBatch,
    /// It has looked for a clean page and found none.
    Searched,
    /// Its sleep before a single page flush is over.
    Slept,
    /// It has taken a clean page from the LRU list.
    Took,
    /// Its single page flush is over; with a page, or without.
    Wrote { has_page: bool },
    /// It runs a batch itself.
    OwnBatch,
    /// It waits until another thread makes a page free, but at most until `until`.
    OnCondition { until: u64 },
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) draws: Draws,
    pub(crate) is_burst: bool,
    pub(crate) phase: Phase,
    pub(crate) ticket: u32,
    /// When its query should have begun, and when it did.
    pub(crate) intended: u64,
    pub(crate) started: u64,
    /// Pages that its query still needs.
    pub(crate) left: u64,
    /// The time that its query takes once it has all pages.
    pub(crate) cost_ns: u64,
    /// The instance of the page that it needs.
    pub(crate) instance: Option<usize>,
    /// Since when it waits for that page, and how many tries have failed.
    pub(crate) since: u64,
    pub(crate) tries: u32,
}

impl Client {
    pub(crate) fn new(draws: Draws, is_burst: bool) -> Self {
        Self {
            draws,
            is_burst,
            phase: Phase::Out,
            ticket: 0,
            intended: 0,
            started: 0,
            left: 0,
            cost_ns: 0,
            instance: None,
            since: 0,
            tries: 0,
        }
    }
}
