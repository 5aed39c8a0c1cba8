// SPDX-License-Identifier: Apache-2.0
//! The account: the time that stalls cost, for each cause and each class of statements; and the stalls themselves, up to a number.

use super::sample::Counters;
use super::watched::{ClassSeen, WatchCost, Watched};
use crate::dearest::Dearest;
use crate::explained::{Account, Source, Stall};
use sql::{Classes, Dialect};
use std::collections::HashMap;
use std::sync::Arc;

const MOST_CLASSES: usize = 1000;
/// The most bytes of a statement, and of a class.
const STATEMENT_BYTES: usize = 2000;

#[derive(Debug)]
pub(super) struct Books {
    dialect: Dialect,
    with_values: bool,
    names: Classes,
    account: Account,
    tries: u64,
    stalls: Dearest,
    classes: HashMap<Arc<str>, ClassSeen>,
}

impl Books {
    pub(super) fn new(dialect: Dialect, with_values: bool) -> Self {
        Self {
            dialect,
            with_values,
            names: Classes::default(),
            account: Account::default(),
            tries: 0,
            stalls: Dearest::default(),
            classes: HashMap::new(),
        }
    }

    /// The statement's class, and the statement itself where it was asked for.
    pub(super) fn statement(&mut self, statement: Option<String>) -> (Arc<str>, Option<String>) {
        let Some(statement) = statement else { return ("".into(), None) };
        let class = logs::cut(self.names.of(&statement, self.dialect), STATEMENT_BYTES).into();
        (class, Some(statement).filter(|_| self.with_values))
    }

    pub(super) fn own_work(&mut self, us: u64) {
        self.account.own_work_query_us = self.account.own_work_query_us.saturating_add(us);
    }

    pub(super) fn backoff(&mut self, tries: u64) {
        self.tries = self.tries.saturating_add(tries);
    }

    /// Adds the tries of a sleep that is too short to be reported, but that the server counts.
    pub(super) fn short_sleep(&mut self, tries: u64) {
        self.tries = self.tries.saturating_add(tries);
    }

    /// Counts a stall, with all of its victims.
    pub(super) fn account(&mut self, stall: &Stall) {
        self.account.add(stall);
        for victim in &stall.victims {
            if self.classes.len() >= MOST_CLASSES && !self.classes.contains_key(&victim.statement) {
                continue;
            }
            let (victims, lost_query_us, max_us) = (0, 0, 0);
            let class = self.classes.entry(victim.statement.clone()).or_insert_with(|| ClassSeen {
                statement: victim.statement.to_string(),
                victims,
                lost_query_us,
                max_us,
            });
            class.victims += 1;
            class.lost_query_us = class.lost_query_us.saturating_add(victim.lost_query_us);
            class.max_us = class.max_us.max(victim.length_us);
        }
    }

    /// Keeps a stall as a row of the result, if it is among those that cost the most.
    pub(super) fn keep(&mut self, stall: &Stall) {
        self.stalls.add(stall.clone());
    }

    /// `overhead_us`: by how much a sleep is longer than the server asked for, where the server has backoff.
    pub(super) fn watched(
        self,
        source: Source,
        counters: Option<[Counters; 2]>,
        overhead_us: Option<f64>,
        cost: WatchCost,
    ) -> Watched {
        let mut account = self.account;
        account.wait_free = counters.and_then(|[first, last]| last.wait_free?.checked_sub(first.wait_free?));
        account.wait_free_by_stalls = overhead_us.map(|_| self.tries);
        account.sleep_overhead_us = overhead_us;
        let mut classes: Vec<ClassSeen> = self.classes.into_values().collect();
        classes.sort_by(|a, b| b.lost_query_us.cmp(&a.lost_query_us).then_with(|| a.statement.cmp(&b.statement)));
        let notes = notes(&account);
        let (stalls, stalls_left_out) = self.stalls.into_stalls();
        Watched {
            schema: 1,
            source,
            stalls,
            stalls_left_out,
            account,
            classes,
            cost,
            resolution_us: 0,
            tiers: Vec::new(),
            least_free_by_instance: Vec::new(),
            counters,
            pressure: None,
            missing: Vec::new(),
            skipped: Vec::new(),
            notes,
        }
    }
}

fn notes(account: &Account) -> Vec<String> {
    let mut notes = Vec::new();
    if account.wait_free_by_stalls.is_none() && account.wait_free.is_some_and(|rose| rose > 0) {
        notes.push(
            "wait_free rose, and is no clock here: it counts looks for a free page, not the time of waits".to_owned(),
        );
    }
    notes
}
