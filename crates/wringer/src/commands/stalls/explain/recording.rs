// SPDX-License-Identifier: Apache-2.0
//! The stalls of a recording, arm by arm: from the slow statements that the load kept, and the counter at both ends of what was measured.

use super::{Args, unreadable};
use crate::commands::report::{read, recording_in};
use crate::exit::{Exit, Failure};
use ::stalls::recorded::{Recorded, RecordedClass, SlowStatement};
use ::stalls::{Asked, Dialect, Explained, Server};
use capability::{Algorithm, Version};
use evidence::{Arm, Evidence, Phase};
use serde::Serialize;
use std::path::Path;

/// The counter that `backoff` makes a clock.
const COUNTER: &str = "Innodb_buffer_pool_wait_free";
const ALGORITHM: &str = "innodb_empty_free_list_algorithm";

#[derive(Debug, Serialize)]
pub(super) struct OfRecording {
    schema: u32,
    run: String,
    pub(super) arms: Vec<OfArm>,
}

#[derive(Debug, Serialize)]
pub(super) struct OfArm {
    pub(super) arm: String,
    #[serde(flatten)]
    pub(super) explained: Explained,
}

pub(super) fn explain(args: &Args, path: &Path, server: Option<Server>) -> Result<OfRecording, Failure> {
    let evidence = read(&recording_in(path), |_| false)?;
    let dialect = match evidence.conditions.server.flavour.as_str() {
        "postgresql" => Dialect::Postgresql,
        _ => Dialect::Mysql,
    };
    let server = server.or_else(|| recorded_server(&evidence));
    let began_us = began_us(&evidence).ok_or_else(|| {
        unreadable(
            path,
            std::io::Error::new(std::io::ErrorKind::InvalidData, format!("it began at {:?}", evidence.started)),
        )
    })?;
    let arms = evidence.arms.iter().filter_map(|arm| Some((arm, slow_statements(&evidence, arm, began_us)?)));
    let arms: Vec<OfArm> = arms
        .map(|(arm, recorded)| {
            let asked = Asked {
                least_us: args.at_least.as_ns() / 1000,
                server: server.clone(),
                algorithm: args.algorithm.map(Algorithm::from).or_else(|| algorithm(&evidence, arm)),
                wait_free: args.wait_free.or_else(|| wait_free(arm)),
                with_values: false,
            };
            OfArm { arm: arm.name.clone(), explained: ::stalls::recorded::explain(&recorded, dialect, &asked) }
        })
        .collect();
    if arms.is_empty() {
        let message = format!("{} has no slow statements one by one", path.display());
        let hint = "the experiment keeps them with load.slow_statements = \"20ms\"";
        return Err(Failure::message(Exit::Missing, message).hint(hint));
    }
    Ok(OfRecording { schema: 1, run: evidence.run_id, arms })
}

fn recorded_server(evidence: &Evidence) -> Option<Server> {
    let recorded = &evidence.conditions.server;
    let flavour = recorded.flavour.parse().ok()?;
    Some(Server { flavour, version: Version::find_in(&recorded.version)? })
}

/// Microseconds since the beginning of 1970.
fn began_us(evidence: &Evidence) -> Option<i64> {
    let format = &time::format_description::well_known::Rfc3339;
    let began = time::OffsetDateTime::parse(&evidence.started, format).ok()?;
    i64::try_from(began.unix_timestamp_nanos() / 1000).ok()
}

/// That of the arm, else that of the server's start.
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
    Some(counter?.delta())
}

/// `None`: this arm kept none.
fn slow_statements(evidence: &Evidence, arm: &Arm, began_us: i64) -> Option<Recorded> {
    let measured = &arm.load.as_ref()?.measured;
    let of_arm =
        |kind: &'static str| evidence.spans.iter().filter(move |span| span.kind == kind && span.entity == arm.name);
    let phase = of_arm("load.measured").next()?;
    let number = |name: &str| phase.attributes.get(name)?.parse::<u64>().ok();
    let threshold_us = number("slow_threshold_us")?;
    let slow = of_arm(evidence::SLOW_STATEMENT).map(|span| SlowStatement {
        statement: span.attributes.get("class").cloned().unwrap_or_default(),
        connection: span.attributes.get("connection").cloned().unwrap_or_default(),
        ended_us: began_us.saturating_add_unsigned(span.to_us),
        took_us: span.length_us(),
    });
    let (slow, dropped) = (slow.collect(), number("slow_dropped").unwrap_or(0));
    Some(Recorded { classes: classes(measured), slow, dropped, threshold_us })
}

fn classes(measured: &Phase) -> Vec<RecordedClass> {
    let class = |(statement, latencies): (&String, &evidence::Latencies)| RecordedClass {
        statement: statement.clone(),
        lengths_us: latencies.service.buckets().map(|bucket| (bucket.high_ns / 1000, bucket.count)).collect(),
    };
    measured.statements.iter().map(class).collect()
}
