// SPDX-License-Identifier: Apache-2.0
//! The stalls of each arm whose load kept its slow statements. They come from these statements, from the histograms of their classes, and from the
//! counter at both ends of the measured phase; a watch of the server's threads adds the causes that it saw. When an arm was only watched, the stalls
//! are those of the watch.

use crate::watched::{self, WatchedArm};
use capability::{Algorithm, Version};
use evidence::{Arm, Evidence, Latencies, Phase, SLOW_STATEMENT};
use stalls::recorded::{Recorded, RecordedClass, SlowStatement};
use stalls::{Asked, Dialect, Explained, Server};

/// The counter that becomes a clock under `backoff`.
const COUNTER: &str = "Innodb_buffer_pool_wait_free";
const ALGORITHM: &str = "innodb_empty_free_list_algorithm";

/// Values from a caller that replace those of the recording, and the caller's wishes.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The shortest stall that is looked for. Statements that are shorter than the load's threshold are never found.
    pub least_us: u64,
    pub server: Option<Server>,
    pub algorithm: Option<Algorithm>,
    pub wait_free: Option<u64>,
}

/// The stalls of one arm. Times are those of the run's clock.
#[derive(Debug, Clone)]
pub struct ArmStalls {
    pub arm: String,
    pub explained: Explained,
    /// `None`: the server's threads were not watched.
    pub watched: Option<WatchedArm>,
}

/// In the order of the arms. Empty when no load kept its slow statements, and the threads were not watched.
pub fn arms(evidence: &Evidence, wanted: &Wanted) -> Vec<ArmStalls> {
    let dialect = match evidence.conditions.server.flavour.as_str() {
        "postgresql" => Dialect::Postgresql,
        _ => Dialect::Mysql,
    };
    let server = wanted.server.clone().or_else(|| recorded_server(evidence));
    let arms = evidence.arms.iter().filter_map(|arm| {
        let watch = watched::of(evidence, &arm.name);
        let name = arm.name.clone();
        let Some(recorded) = slow_statements(evidence, arm) else {
            let watch = watch?;
            let explained = watch.explained(wanted.least_us, server.as_ref().map(ToString::to_string));
            return Some(ArmStalls { arm: name, explained, watched: Some(watch.arm) });
        };
        let asked = Asked {
            least_us: wanted.least_us,
            server: server.clone(),
            algorithm: wanted.algorithm.or_else(|| algorithm(evidence, arm)),
            wait_free: wanted.wait_free.or_else(|| wait_free(arm)),
            with_values: false,
        };
        let explained = match &watch {
            Some(watch) => watch.joined(recorded, dialect, &asked),
            None => stalls::recorded::explain(&recorded, dialect, &asked),
        };
        Some(ArmStalls { arm: name, explained, watched: watch.map(|it| it.arm) })
    });
    arms.collect()
}

fn recorded_server(evidence: &Evidence) -> Option<Server> {
    let recorded = &evidence.conditions.server;
    let flavour = recorded.flavour.parse().ok()?;
    Some(Server { flavour, version: Version::find_in(&recorded.version)? })
}

/// The algorithm that the arm sets, otherwise that of the server's start.
fn algorithm(evidence: &Evidence, arm: &Arm) -> Option<Algorithm> {
    let set = arm.settings.iter().find(|(key, _)| key.ends_with(ALGORITHM)).map(|(_, value)| value);
    match set.or_else(|| evidence.conditions.server.variables.get(ALGORITHM))?.as_str() {
        "backoff" => Some(Algorithm::Backoff),
        "legacy" => Some(Algorithm::Legacy),
        _ => None,
    }
}

fn wait_free(arm: &Arm) -> Option<u64> {
    let counter = arm.witnesses.iter().find(|witness| witness.of == "server" && witness.counter == COUNTER);
    counter?.grown()
}

/// `None`: this arm kept no slow statements.
fn slow_statements(evidence: &Evidence, arm: &Arm) -> Option<Recorded> {
    let measured = &arm.load.as_ref()?.measured;
    let of_arm =
        |kind: &'static str| evidence.spans.iter().filter(move |span| span.kind == kind && span.entity == arm.name);
    let phase = of_arm("load.measured").next()?;
    let number = |name: &str| phase.attributes.get(name)?.parse::<u64>().ok();
    let threshold_us = number("slow_threshold_us")?;
    let slow = of_arm(SLOW_STATEMENT).map(|span| SlowStatement {
        statement: span.attributes.get("class").cloned().unwrap_or_default(),
        connection: span.attributes.get("connection").cloned().unwrap_or_default(),
        ended_us: i64::try_from(span.to_us).unwrap_or(i64::MAX),
        took_us: span.length_us(),
        seen_us: None,
    });
    let (slow, dropped) = (slow.collect(), number("slow_dropped").unwrap_or(0));
    Some(Recorded { classes: classes(measured), slow, dropped, threshold_us })
}

fn classes(measured: &Phase) -> Vec<RecordedClass> {
    let class = |(statement, latencies): (&String, &Latencies)| RecordedClass {
        statement: statement.clone(),
        lengths_us: latencies.service.buckets().map(|bucket| (bucket.high_ns / 1000, bucket.count)).collect(),
    };
    measured.statements.iter().map(class).collect()
}
