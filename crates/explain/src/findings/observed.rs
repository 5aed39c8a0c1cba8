// SPDX-License-Identifier: Apache-2.0
//! `observe.server`: the work of host and server while they were observed, without a load of ours.

use super::figures::{ObserveJoined, ObserveServer};
use super::{Doubt, Finding, FindingEvidence, doubt, percent};
use crate::joined::ELSEWHERE;
use crate::series::{SERVER_CPU, Series, server_cpu_us_between};
use evidence::{Arm, Evidence, Phase};
use units::Bytes;

/// A counter of a server's work.
struct Counter {
    witness: &'static str,
    /// Source and name of its series.
    series: (&'static str, &'static str),
    /// What it counts, for people.
    what: &'static str,
}

const STATEMENTS: Counter =
    Counter { witness: "Questions", series: ("server.status", "Questions"), what: "statements" };
const TRANSACTIONS: Counter = Counter {
    witness: "pg_stat_database.xact_commit",
    series: ("server.pg_stat_database", "xact_commit"),
    what: "transactions",
};

const LATE: &str = "PostgreSQL's backends hand their counts in up to ten seconds late";

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let observed = evidence.arms.iter().filter(|arm| arm.is_observed());
    let observed = observed.map(|arm| Arm { ended_us: evidence.end_of(arm), ..arm.clone() });
    observed.filter(|arm| arm.ended_us > arm.started_us).map(|arm| finding(evidence, &arm)).collect()
}

/// `observe.joined`: the work of host and server while a joined load was measured.
pub(super) fn joined(evidence: &Evidence) -> Vec<Finding> {
    let joined = evidence.arms.iter().filter_map(|arm| Some((arm, arm.settings.get(ELSEWHERE)?, arm.load.as_ref()?)));
    joined.map(|(arm, exact, load)| of_load(evidence, arm, exact, &load.measured)).collect()
}

fn of_load(evidence: &Evidence, arm: &Arm, exact: &str, phase: &Phase) -> Finding {
    let (from_us, to_us) = (phase.started_us, phase.started_us + phase.elapsed_us);
    // Some(None): the counter began anew.
    let during = |counter: &Counter| {
        let grown = find(evidence, counter)?.grown_between(from_us, to_us)?;
        Some((!began_anew(evidence, counter, from_us, to_us)).then_some(grown))
    };
    let cpu_us = server_cpu_us_between(evidence, from_us, to_us);
    let counted = [&STATEMENTS, &TRANSACTIONS].map(|counter| during(counter).map(|count| (counter.what, count)));
    let [statements, transactions] = counted.map(|counted| counted?.1);
    let counts = counted.map(|counted| counted.map(|(what, count)| tell(what, count, |by| format!("{by:.0} {what}"))));
    let cpus = cpu_us.map(|us| format!("the server used {:.2} CPUs", us / phase.elapsed_us.max(1) as f64));
    let parts = [cpus].into_iter().chain(counts);
    let told: Vec<String> = parts.flatten().collect();
    let told = if told.is_empty() { "the server was not observed all the time".to_owned() } else { told.join("; ") };
    let seconds = phase.elapsed_us as f64 / 1e6;
    let partly = "the observing began after the load, or ended before it".to_owned();
    let hint = Some("start `wringer observe` first and end it last");
    Finding {
        arm: Some(arm.name.clone()),
        statement: format!("While the load sent {} queries in {seconds:.1} s, {told}.", phase.queries()),
        evidence: FindingEvidence::ObserveJoined(ObserveJoined {
            queries: phase.queries(),
            transactions_of_the_load: phase.transactions,
            elapsed_us: phase.elapsed_us,
            server_cpu_us: cpu_us,
            statements,
            transactions,
            clock: exact.to_owned(),
        }),
        doubts: [
            cpu_us.is_none().then(|| doubt("observe.partly", partly, hint)),
            transactions.map(|_| doubt("observe.late_counts", LATE, None)),
        ]
        .into_iter()
        .chain(counted.map(|counted| about_beginning_anew(counted?)))
        .flatten()
        .collect(),
    }
}

fn finding(evidence: &Evidence, arm: &Arm) -> Finding {
    let elapsed_us = (arm.ended_us - arm.started_us) as f64;
    let busy = busy(evidence);
    let cpu_us = server_cpu_us(evidence);
    // The first one in the recording. Some((_, None)): it began anew.
    let counted = [&STATEMENTS, &TRANSACTIONS].into_iter().find_map(|counter| {
        let witness = arm.witnesses.iter().find(|witness| witness.counter == counter.witness)?;
        let began_anew = began_anew(evidence, counter, arm.started_us, arm.ended_us);
        Some((counter.what, witness.grown().filter(|_| !began_anew)))
    });
    let memory = memory(evidence, arm);
    let parts = [
        busy.map(|share| format!("the host's CPUs were busy for {} of the time", percent(share))),
        cpu_us.map(|us| format!("the server used {:.2} CPUs", us / elapsed_us)),
        counted.map(|(what, count)| {
            tell(what, count, |by| format!("{:.1} {what} a second", by as f64 * 1e6 / elapsed_us))
        }),
        memory.map(|(what, first, last)| format!("its memory ({what}) went from {} to {}", bytes(first), bytes(last))),
    ];
    let told: Vec<String> = parts.into_iter().flatten().collect();
    let seconds = elapsed_us / 1e6;
    let statement = match told.is_empty() {
        true => format!("Nothing could be read in {seconds:.1} s."),
        false => format!("In {seconds:.1} s {}.", told.join("; ")),
    };
    let of = |wanted: &Counter| counted.filter(|(what, _)| *what == wanted.what).and_then(|(_, count)| count);
    Finding {
        arm: Some(arm.name.clone()),
        statement,
        evidence: FindingEvidence::ObserveServer(ObserveServer {
            elapsed_us,
            host_busy_share: busy,
            server_cpu_us: cpu_us,
            statements: of(&STATEMENTS),
            transactions: of(&TRANSACTIONS),
            memory: memory.map(|(what, ..)| what.to_owned()),
            memory_first_bytes: memory.map(|(_, first, _)| first),
            memory_last_bytes: memory.map(|(.., last)| last),
        }),
        doubts: [
            of(&TRANSACTIONS).map(|_| doubt("observe.late_counts", LATE, None)),
            counted.and_then(about_beginning_anew),
        ]
        .into_iter()
        .flatten()
        .collect(),
    }
}

fn find<'e>(evidence: &'e Evidence, counter: &Counter) -> Option<Series<'e>> {
    Series::find(evidence, counter.series.0, counter.series.1)
}

fn began_anew(evidence: &Evidence, counter: &Counter, from_us: u64, to_us: u64) -> bool {
    find(evidence, counter).is_some_and(|series| series.began_anew_between(from_us, to_us))
}

/// `count`: `None` when the counter began anew.
fn tell<T>(what: &str, count: Option<T>, told: impl FnOnce(T) -> String) -> String {
    count.map_or_else(|| format!("its count of {what} began anew"), |count| format!("it counted {}", told(count)))
}

fn about_beginning_anew<T>((what, count): (&str, Option<T>)) -> Option<Doubt> {
    let text = format!("the server set its count of {what} back to 0 meanwhile, so their number is not known");
    let hint = "after a crash, a restart, or a reset of its statistics; its log may say which";
    count.is_none().then(|| doubt("observe.began_anew", text, Some(hint)))
}

/// The busy share of all CPUs together. User time includes the time of guests.
fn busy(evidence: &Evidence) -> Option<f64> {
    let of = |names: &[&str]| names.iter().filter_map(|name| grown(Series::find(evidence, "stat", name)?)).sum::<f64>();
    let busy_us = of(&["user", "nice", "system", "irq", "softirq", "steal"]);
    let all_us = busy_us + of(&["idle", "iowait"]);
    (all_us > 0.0).then(|| busy_us / all_us)
}

/// The CPU time of processes that have ended since then is in the counters of their parent.
fn server_cpu_us(evidence: &Evidence) -> Option<f64> {
    let parts: Vec<f64> =
        SERVER_CPU.iter().filter_map(|name| grown(Series::find(evidence, "process.stat", name)?)).collect();
    (!parts.is_empty()).then(|| parts.iter().sum::<f64>().max(0.0))
}

/// The name of the measure, its first and its last value. Only `Pss` counts memory that processes share once. A measure that was given up early,
/// because it cost too much, has no value for the end.
fn memory(evidence: &Evidence, arm: &Arm) -> Option<(&'static str, f64, f64)> {
    let measures = [("Pss", "process.smaps_rollup", "Pss"), ("RSS", "process.stat", "rss")];
    let late_us = arm.ended_us - (arm.ended_us - arm.started_us) / 10;
    measures.iter().find_map(|(what, source, name)| {
        let points = &Series::find(evidence, source, name)?.0.points;
        let last = points.last().filter(|last| last.at_us >= late_us)?;
        Some((*what, points.first()?.value, last.value))
    })
}

/// The growth from the first reading to the last.
fn grown(Series(series): Series<'_>) -> Option<f64> {
    Some(series.points.last()?.value - series.points.first()?.value)
}

#[allow(clippy::cast_possible_truncation)] // sizes are whole and positive
fn bytes(value: f64) -> Bytes {
    Bytes(value.max(0.0).round() as u64)
}
