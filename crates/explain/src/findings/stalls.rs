// SPDX-License-Identifier: Apache-2.0
//! `stalls.events` and `stalls.account`: when queries stalled together, for which cause, and how much time they lost.

use super::figures::{StallEvent, StallsAccount, StallsEvents};
use super::{Doubt, Finding, FindingEvidence, doubt, percent, time};
use crate::stalled::ArmStalls;
use evidence::{Arrivals, Evidence, LatencyHistogram, Phase};
use stalls::Stall;
use std::collections::BTreeMap;
use units::counted;

/// At most this many stalls are listed one by one; these are the stalls that lost the most.
const LISTED: usize = 20;
/// A counter whose difference from the computed value is a larger share than this does not agree.
const AGREES: f64 = 0.1;

/// The findings of each arm that kept its slow statements, or whose server was watched.
pub(super) fn findings(evidence: &Evidence, arms: &[ArmStalls]) -> Vec<Finding> {
    arms.iter().flat_map(|arm| [events(arm), account(evidence, arm)].into_iter().flatten()).collect()
}

fn events(arm: &ArmStalls) -> Option<Finding> {
    let explained = &arm.explained;
    let least_us = explained.source.least_us;
    let victims = explained.account.by_cause.values().map(|of| of.victims).sum();
    let count = explained.stalls.len() as u64 + explained.stalls_left_out;
    let longest_us = explained.account.longest_us().unwrap_or(0);
    let no_stall_query_us = explained.account.no_stall_query_us;
    let mut statement = if count == 0 {
        format!("No statement stalled for {} or longer.", time(least_us as f64))
    } else {
        format!(
            "{} of up to {} hit {}.",
            counted(count, "stall"),
            time(longest_us as f64),
            counted(victims, "statement")
        )
    };
    if let Some(us) = no_stall_query_us.filter(|us| *us > 0) {
        statement += &format!(" Slow statements that took {} are in no stall.", time(us as f64));
    }
    let mut listed: Vec<&Stall> = explained.stalls.iter().collect();
    listed.sort_by_key(|stall| std::cmp::Reverse(stall.lost_query_us));
    listed.truncate(LISTED);
    listed.sort_by_key(|stall| stall.started_us);
    let events = listed.into_iter().map(event).collect();
    let evidence = StallsEvents { least_us, stalls: count, victims, longest_us, no_stall_query_us, events };
    Some(Finding {
        arm: Some(arm.arm.clone()),
        statement,
        evidence: FindingEvidence::StallsEvents(evidence),
        doubts: explained.notes.iter().map(|note| doubt("stalls.incomplete", note.clone(), None)).collect(),
    })
}

fn event(stall: &Stall) -> StallEvent {
    StallEvent {
        from_us: stall.started_us.and_then(|us| u64::try_from(us).ok()).unwrap_or(0),
        length_us: stall.length_us,
        cause: stall.cause.name().to_owned(),
        confidence: stall.confidence,
        victims: stall.victim_count,
        lost_query_us: stall.lost_query_us,
    }
}

/// `None`: no time was lost.
fn account(evidence: &Evidence, arm: &ArmStalls) -> Option<Finding> {
    let account = &arm.explained.account;
    if account.lost_query_us == 0 {
        return None;
    }
    // another program tells neither when its transactions were due, nor always how many connections it had
    let load_arm = evidence.arms.iter().find(|it| it.name == arm.arm)?;
    let load = load_arm.load.as_ref().filter(|load| load_arm.driven.is_none() && load.connections > 0);
    let all_us = load.map(|load| f64::from(load.connections) * load.measured.elapsed_us as f64);
    let share = all_us.map(|all_us| account.lost_query_us as f64 / all_us.max(1.0));
    let of_all = share.map_or_else(String::new, |share| format!(", {} of what its connections had", percent(share)));
    let by_cause: BTreeMap<String, u64> =
        account.by_cause.iter().map(|(cause, of)| (cause.name().to_owned(), of.lost_query_us)).collect();
    let mut causes: Vec<_> = by_cause.iter().collect();
    causes.sort_by_key(|(_, lost_us)| std::cmp::Reverse(**lost_us));
    let causes: Vec<String> = causes.iter().map(|(cause, us)| format!("{cause} {}", time(**us as f64))).collect();
    let mut statement =
        format!("Stalls cost {} of query time{of_all}: {}.", time(account.lost_query_us as f64), causes.join(", "));
    let wait_to_start_query_us = load.and_then(|load| wait_to_start_us(load.arrivals, &load.measured));
    if let Some(us) = wait_to_start_query_us.filter(|us| *us > 0) {
        statement += &format!(" Beside it, transactions that were due waited {} to start.", time(us as f64));
    }
    Some(Finding {
        arm: Some(arm.arm.clone()),
        statement,
        doubts: doubts(arm),
        evidence: FindingEvidence::StallsAccount(StallsAccount {
            lost_query_us: account.lost_query_us,
            attributed_query_us: account.attributed_query_us,
            unexplained_query_us: account.unexplained_query_us,
            by_cause,
            share,
            wait_to_start_query_us,
            wait_free: account.wait_free,
            wait_free_by_stalls: account.wait_free_by_stalls,
        }),
    })
}

/// In an open loop, from the intended starts of all transactions to their starts; of those that had not started at the end, until then. The sums of two
/// histograms are known to a thousandth, so they are compared only where some transaction was late.
fn wait_to_start_us(arrivals: Arrivals, phase: &Phase) -> Option<u64> {
    if arrivals == Arrivals::Closed {
        return None;
    }
    if phase.late == 0 && phase.skipped == 0 {
        return Some(0);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
    let waited_us = waited_us(phase) as u64;
    Some(waited_us)
}

/// Of all transactions together, whose times begin at their intended starts; of those that had not started at the end, until then.
pub(super) fn waited_us(phase: &Phase) -> f64 {
    let sum_us = |it: &LatencyHistogram| it.mean_ns() * it.count() as f64 / 1000.0;
    let waited_us: f64 = std::iter::once(&phase.transaction)
        .chain(&phase.unended)
        .map(|it| sum_us(&it.response) - sum_us(&it.service))
        .sum();
    waited_us.max(0.0)
}

fn doubts(arm: &ArmStalls) -> Vec<Doubt> {
    let account = &arm.explained.account;
    let remedy = match arm.watched {
        None => {
            "`observe.stalls = true` in the experiment, or `wringer stalls watch` beside the load, sees what its threads wait in"
        }
        Some(_) => "`wringer stalls explain` on the recording has the evidence of each stall",
    };
    let unexplained = (account.unexplained_query_us > 0).then(|| {
        let text = format!("{} of it has no cause that is known", time(account.unexplained_query_us as f64));
        doubt("stalls.unexplained", text, Some(remedy))
    });
    let counter = account
        .wait_free
        .zip(account.wait_free_by_stalls)
        .filter(|(rose, by_stalls)| (*rose as f64 - *by_stalls as f64).abs() > AGREES * (*rose as f64));
    let disagrees = counter.map(|(rose, by_stalls)| {
        let text = format!("Innodb_buffer_pool_wait_free rose by {rose}, and these stalls make it rise by {by_stalls}");
        doubt("witness.disagrees", text, None)
    });
    unexplained.into_iter().chain(disagrees).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::Latencies;
    use stalls::recorded::{Recorded, RecordedClass, SlowStatement, explain};
    use stalls::{Asked, Dialect};

    #[test]
    fn an_open_loop_waits_to_start_beside_what_its_victims_lose() {
        // one second's stall of one connection at 10/s: ten transactions are late by up to a second
        let open = Arrivals::Constant { per_second: 10.0 };
        let mut phase = Phase::default();
        for late_ms in (0..1000).step_by(100) {
            phase.transaction.response.record((late_ms + 1) * 1_000_000);
            phase.transaction.service.record(1_000_000);
        }
        assert_eq!(wait_to_start_us(open, &phase), Some(0), "none of them counts as late");
        phase.late = 9;
        assert!(wait_to_start_us(open, &phase).unwrap().abs_diff(4_500_000) < 10_000);
        let mut unended = Latencies::default();
        unended.response.record(2_000_000_000);
        phase.unended = Some(unended);
        assert!(wait_to_start_us(open, &phase).unwrap().abs_diff(6_500_000) < 10_000, "one has not started");
        assert_eq!(wait_to_start_us(Arrivals::Closed, &phase), None);
    }

    #[test]
    fn slow_statements_that_are_in_no_stall_are_told_beside_the_stalls() {
        let statement = || "update".to_owned();
        let class = RecordedClass { statement: statement(), lengths_us: vec![(300_000, 2)] };
        let ended = |ended_us, connection: &str| SlowStatement {
            statement: statement(),
            connection: connection.to_owned(),
            ended_us,
            took_us: 300_000,
            seen_us: None,
        };
        let slow = vec![ended(1_000_000, "1"), ended(1_150_000, "2")];
        let recorded = Recorded { classes: vec![class], slow, dropped: 0, threshold_us: 60_000 };
        let explained = explain(&recorded, Dialect::Postgresql, &Asked::default());
        let found = events(&ArmStalls { arm: "sync".to_owned(), explained, watched: None }).unwrap();
        let told = "No statement stalled for 60.0 ms or longer. Slow statements that took 600.0 ms are in no stall.";
        assert_eq!(found.statement, told);
        assert_eq!(found.doubts[0].id, "stalls.incomplete");
    }
}
