// SPDX-License-Identifier: Apache-2.0
//! One client: what it is doing, and what it needs.

use crate::draws::Draws;

/// What the next event of a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// None: it has nothing to do.
    Out,
    /// A query begins.
    Starts,
    /// A burst needs its next page.
    NextPage,
    /// `backoff`: a wait is over.
    Polls,
    /// It waits for a batch of somebody else.
    BehindBatch,
    /// It has looked for a clean page and found none.
    Searched,
    /// Its sleep before a single page flush is over.
    Slept,
    /// It has a clean page in its hand.
    Took,
    /// Its single page flush is over; with a page, or without.
    Wrote { has_page: bool },
    /// It runs a batch itself.
    OwnBatch,
    /// It waits for somebody to make a page free, until then at most.
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
    /// Pages that its query needs still.
    pub(crate) left: u64,
    /// What its query takes once it has all pages.
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
