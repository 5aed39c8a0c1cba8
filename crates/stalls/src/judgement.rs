// SPDX-License-Identifier: Apache-2.0
//! Judges candidates: which of them stalled, which stalled together, for which cause; and makes the account.

use crate::burst::{Burst, bursts};
use crate::cause::{Cause, Clock, Known, is_left_over, judge};
use crate::class::Classes;
use crate::dearest::Dearest;
use crate::explained::{Account, Stall, Victim};
use crate::heads::Writer;
use crate::ladder::Lattice;
use crate::ladder_fit::{Lengths, compare};
use crate::no_stall::NoStall;
use crate::server::Backoff;
use crate::victim::{Candidate, Stalled, stalled};
use capability::LADDER;

/// The most victims of one stall that are listed.
const MOST_VICTIMS: usize = 200;

/// The stalls that have been judged until now.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    pub(crate) stalls: Dearest,
    pub(crate) account: Account,
    /// Tries that the stalls under `backoff` took together.
    tries: u64,
    /// Slow statements that are in no stall.
    pub(crate) no_stall: NoStall,
}

/// What is known beside the candidates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) least_us: u64,
    /// The servers, by the numbers that the candidates have.
    pub(crate) writers: &'a [Writer],
    /// By how much the counter rose, where the candidates are all there are, and of one server.
    pub(crate) wait_free: Option<u64>,
}

impl Settled {
    /// Judges these candidates.
    pub(crate) fn settle(&mut self, candidates: Vec<Candidate>, classes: &mut Classes, around: Around<'_>) {
        let (mut victims, no_stall) = stalled(candidates, classes, around.least_us);
        self.no_stall.add(&no_stall);
        for (number, writer) in around.writers.iter().enumerate() {
            let its = victims.extract_if(.., |victim| victim.candidate.server == number).collect();
            self.of_writer(its, writer, classes, around.wait_free);
        }
        self.account.own_work_query_us = self.no_stall.own_work_us;
        self.account.no_stall_query_us = Some(self.no_stall.not_judged_us());
    }

    fn of_writer(&mut self, victims: Vec<Stalled>, writer: &Writer, classes: &mut Classes, wait_free: Option<u64>) {
        let Writer { server, backoff } = writer;
        let (server, backoff) = (server.as_ref(), *backoff);
        let (bursts, left_out) = bursts(victims);
        left_out.iter().for_each(|victim| self.no_stall.usual(&victim.candidate.figures, victim.candidate.took_us));
        let lengths = if backoff == Backoff::NotThere { Lengths::Silent } else { compare(&bursts, &LADDER) };
        let usual = Lattice::new(&LADDER, Lattice::USUAL_OVERHEAD_US);
        let lattice = lengths.fit().map_or(&usual, |fit| &fit.lattice);
        let known = Known { backoff, server, lengths: &lengths, clock: None };
        let clocks = clocks(&bursts, known, wait_free, lattice);
        for (burst, clock) in bursts.into_iter().zip(clocks) {
            self.burst(burst, classes, Known { clock, ..known }, lattice);
        }
    }

    fn burst(&mut self, burst: Burst, classes: &mut Classes, known: Known<'_>, lattice: &Lattice) {
        let verdict = judge(&burst, known);
        let (lost, count) = (burst.lost_us(), burst.victims.len() as u64);
        if verdict.cause == Cause::FreeListBackoff {
            self.tries += tries(&burst, lattice);
            self.account.wait_free_by_stalls = Some(self.tries);
            self.account.sleep_overhead_us = Some(lattice.overhead_us());
        }
        for victim in &burst.victims {
            if let Some(class) = classes.get_mut(victim.candidate.class) {
                class.stalled += 1;
                class.lost_us = class.lost_us.saturating_add(victim.lost_us);
            }
        }
        let (started_us, length_us, ends_within_us) =
            (burst.is_dated().then(|| burst.began_us()), burst.length_us(), burst.ends_within_us());
        let victims: Vec<Victim> = burst.victims.into_iter().take(MOST_VICTIMS).map(|it| listed(it, classes)).collect();
        let stall = Stall {
            started_us,
            length_us,
            cause: verdict.cause,
            confidence: verdict.confidence,
            lost_query_us: lost,
            ends_within_us,
            goes_on: false,
            evidence: verdict.evidence,
            held_by: Vec::new(),
            victim_count: count,
            victims,
        };
        self.account.add(&stall);
        self.stalls.add(stall);
    }
}

/// For each burst, the counter beside the tries of all bursts that may be waits for a free page. `None` for the others: the log's fields name what they
/// waited for. Where all that the fields leave open is not what the counter says, and those are that look like `backoff` without it, it is those.
fn clocks(bursts: &[Burst], known: Known<'_>, wait_free: Option<u64>, lattice: &Lattice) -> Vec<Option<Clock>> {
    let Some(rose) = wait_free else { return vec![None; bursts.len()] };
    let clock = |are: &[bool]| {
        let of = bursts.iter().zip(are).filter(|(_, is)| **is);
        Clock { rose, by_lengths: of.map(|(burst, _)| tries(burst, lattice)).sum() }
    };
    let left_over: Vec<bool> = bursts.iter().map(is_left_over).collect();
    let alike: Vec<bool> = bursts.iter().map(|burst| judge(burst, known).cause == Cause::FreeListBackoff).collect();
    let are = if !clock(&left_over).agrees() && clock(&alike).agrees() { alike } else { left_over };
    let clock = clock(&are);
    are.into_iter().map(|is| is.then_some(clock)).collect()
}

/// How many sleeps waits of these lengths take. Time that the log's fields explain is left out.
fn tries(burst: &Burst, lattice: &Lattice) -> u64 {
    burst.victims.iter().map(|victim| lattice.nearest(victim.parts.rest as f64).0 as u64).sum()
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
