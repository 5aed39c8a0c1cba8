// SPDX-License-Identifier: Apache-2.0
//! Judges candidates: which of them stalled, which stalled together, for which cause; and makes the account.

use crate::burst::{Burst, bursts};
use crate::cause::{Cause, Clock, Known, judge};
use crate::class::Classes;
use crate::explained::{Account, Stall, Victim};
use crate::fit::fit;
use crate::ladder::Lattice;
use crate::server::Backoff;
use crate::victim::{Candidate, Stalled, stalled};
use capability::LADDER;

/// The most stalls that are kept one by one, and the most victims of one of them.
const MOST_STALLS: usize = 2000;
const MOST_VICTIMS: usize = 200;
/// The most victims of all stalls together.
const MOST_VICTIMS_OF_ALL: usize = 20_000;

/// The stalls that have been judged until now.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    pub(crate) stalls: Vec<Stall>,
    pub(crate) stalls_left_out: u64,
    pub(crate) account: Account,
    listed_victims: usize,
    /// Tries that the stalls under `backoff` took together.
    tries: u64,
}

impl Settled {
    /// Judges these candidates. `wait_free`: by how much the counter rose, where these are all the candidates.
    pub(crate) fn settle(
        &mut self,
        candidates: Vec<Candidate>,
        classes: &mut Classes,
        least_us: u64,
        backoff: Backoff,
        wait_free: Option<u64>,
    ) {
        let (victims, own_work_us) = stalled(candidates, classes, least_us);
        self.account.own_work_query_us = self.account.own_work_query_us.saturating_add(own_work_us);
        let bursts = bursts(victims);
        let fitted = if backoff == Backoff::NotThere { None } else { fit(&bursts, &LADDER) };
        let usual = Lattice::new(&LADDER, Lattice::USUAL_OVERHEAD_US);
        let lattice = fitted.as_ref().map_or(&usual, |fit| &fit.lattice);
        let clock = wait_free.map(|rose| Clock { rose, by_lengths: tries(&bursts, lattice) });
        let known = Known { backoff, fit: fitted.as_ref(), clock };
        for burst in bursts {
            self.burst(burst, classes, known, lattice);
        }
    }

    fn burst(&mut self, burst: Burst, classes: &mut Classes, known: Known<'_>, lattice: &Lattice) {
        let verdict = judge(&burst, known);
        let (lost, count) = (burst.lost_us(), burst.victims.len() as u64);
        let account = &mut self.account;
        account.lost_query_us = account.lost_query_us.saturating_add(lost);
        let side = if verdict.cause == Cause::Unknown {
            &mut account.unexplained_query_us
        } else {
            &mut account.attributed_query_us
        };
        *side = side.saturating_add(lost);
        let of_cause = account.by_cause.entry(verdict.cause).or_default();
        of_cause.stalls += 1;
        of_cause.victims += count;
        of_cause.lost_query_us = of_cause.lost_query_us.saturating_add(lost);
        if verdict.cause == Cause::FreeListBackoff {
            self.tries += tries(std::slice::from_ref(&burst), lattice);
            account.wait_free_by_stalls = Some(self.tries);
            account.sleep_overhead_us = Some(lattice.overhead_us());
        }
        for victim in &burst.victims {
            if let Some(class) = classes.get_mut(victim.candidate.class) {
                class.stalled += 1;
                class.lost_us = class.lost_us.saturating_add(victim.lost_us);
            }
        }
        if self.stalls.len() >= MOST_STALLS || self.listed_victims >= MOST_VICTIMS_OF_ALL {
            self.stalls_left_out += 1;
            return;
        }
        let (started_us, length_us, ends_within_us) =
            (burst.is_dated().then(|| burst.began_us()), burst.length_us(), burst.ends_within_us());
        let victims: Vec<Victim> = burst.victims.into_iter().take(MOST_VICTIMS).map(|it| listed(it, classes)).collect();
        self.listed_victims += victims.len();
        self.stalls.push(Stall {
            started_us,
            length_us,
            cause: verdict.cause,
            confidence: verdict.confidence,
            lost_query_us: lost,
            ends_within_us,
            evidence: verdict.evidence,
            victim_count: count,
            victims,
        });
    }
}

/// How many sleeps waits of these lengths take. Time that the log's fields explain is left out.
fn tries(bursts: &[Burst], lattice: &Lattice) -> u64 {
    let victims = bursts.iter().flat_map(|burst| &burst.victims);
    victims.map(|victim| lattice.nearest(victim.parts.rest as f64).0 as u64).sum()
}

fn listed(victim: Stalled, classes: &Classes) -> Victim {
    let started_us = victim.is_dated().then(|| victim.began_us());
    let Stalled { candidate, lost_us, .. } = victim;
    Victim {
        connection: Some(candidate.connection).filter(|name| !name.is_empty()),
        thread: None,
        statement: classes.get(candidate.class).map_or_else(|| "".into(), |class| class.statement.clone()),
        statement_with_values: candidate.statement,
        started_us,
        length_us: candidate.took_us,
        lost_query_us: lost_us,
    }
}
