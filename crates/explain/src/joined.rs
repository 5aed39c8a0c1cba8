// SPDX-License-Identifier: Apache-2.0
//! A load that ran on another host, joined with the observations of the server's host: it becomes one more arm, on the clock of the recording.

use evidence::{Arm, Evidence, LoadResult, Phase};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The setting of an arm whose load ran on another host; its value is the accuracy of the times.
pub(crate) const ELSEWHERE: &str = "load.host";

/// One load, as `wringer load -o json` prints it.
#[derive(Debug, Clone, Deserialize)]
struct Elsewhere {
    load: LoadResult,
    /// The time 0 of the load, by the clock of the load's host.
    started_unix_us: u64,
    server_clock: Option<ServerClock>,
}

/// The server's clock minus the clock of the load's host.
#[derive(Debug, Clone, Copy, Deserialize)]
struct ServerClock {
    ahead_us: i64,
    uncertainty_us: u64,
}

/// Why a load cannot be joined.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("this is not what `wringer load -o json` prints, with started_unix_us and server_clock: {0}")]
    NoLoad(String),
    #[error("the load does not say how far the server's clock was from its own (server_clock)")]
    NoClock,
    #[error("the recording is not one of `wringer observe`")]
    NotObserved,
    #[error(
        "the load ran from {load_s:.1} s to {until_s:.1} s of the observing, which took {observed_s:.1} s: they do not overlap"
    )]
    Apart { load_s: f64, until_s: f64, observed_s: f64 },
}

/// Adds the load, or each of several loads, as an arm of its own.
///
/// # Errors
/// [`Error`]; then the evidence is unchanged.
pub fn join(evidence: &mut Evidence, document: &Value) -> Result<(), Error> {
    let several = document["runs"].as_array();
    let runs: Vec<&Value> = several.map_or_else(|| vec![document], |runs| runs.iter().collect());
    let observed = evidence.arms.iter().find(|arm| arm.is_observed()).ok_or(Error::NotObserved)?;
    let (from_us, to_us) = (observed.started_us, observed.ended_us.max(evidence.elapsed_us));
    let started = started_unix_us(&evidence.started).ok_or(Error::NotObserved)?;
    let mut arms = Vec::new();
    for run in &runs {
        let run: Elsewhere = Elsewhere::deserialize(*run).map_err(|why| Error::NoLoad(why.to_string()))?;
        let clock = run.server_clock.ok_or(Error::NoClock)?;
        let offset_us = signed(run.started_unix_us).saturating_add(clock.ahead_us).saturating_sub(signed(started));
        let begins = signed(run.load.measured.started_us).saturating_add(offset_us);
        let ends = begins.saturating_add(signed(run.load.measured.elapsed_us));
        if ends <= signed(from_us) || begins >= signed(to_us) {
            let seconds = |us: i64| us as f64 / 1e6;
            let observed_s = seconds(signed(to_us - from_us));
            return Err(Error::Apart { load_s: seconds(begins), until_s: seconds(ends), observed_s });
        }
        arms.push((arm(run.load, clock, runs.len() > 1), offset_us));
    }
    // an observation that was cut off ends with its own last time, not with that of the load
    let last_us = evidence.elapsed_us;
    let cut_off = evidence.arms.iter_mut().filter(|arm| arm.is_observed() && arm.ended_us == 0);
    cut_off.for_each(|arm| arm.ended_us = last_us);
    // no time may be below zero: when a load began before the observation, all times of the observation become later
    let first = arms.iter().map(|(_, offset_us)| *offset_us).min().unwrap_or(0).min(0);
    shift_all(evidence, first.unsigned_abs());
    for (mut arm, offset_us) in arms {
        shift_load(&mut arm, (offset_us - first).unsigned_abs());
        evidence.elapsed_us = evidence.elapsed_us.max(arm.ended_us);
        evidence.arms.push(arm);
    }
    Ok(())
}

fn arm(load: LoadResult, clock: ServerClock, is_one_of_several: bool) -> Arm {
    let name = match is_one_of_several {
        true => format!("load, {} connections", load.connections),
        false => "load".to_owned(),
    };
    let exact = format!(
        "another; the server's clock was {:+.3} ms ahead of its own, to ±{:.3} ms",
        clock.ahead_us as f64 / 1e3,
        clock.uncertainty_us as f64 / 1e3
    );
    let settings = BTreeMap::from([(ELSEWHERE.to_owned(), exact)]);
    Arm { settings, load: Some(load), ..Arm::begun(&name, 0) }
}

fn shift_load(arm: &mut Arm, by_us: u64) {
    let Some(load) = &mut arm.load else { return };
    let shift = |phase: &mut Phase| {
        phase.started_us += by_us;
        phase.timeline.iter_mut().for_each(|slot| slot.at_us += by_us);
    };
    load.warmup.iter_mut().for_each(shift);
    shift(&mut load.measured);
    arm.started_us = load.warmup.as_ref().unwrap_or(&load.measured).started_us;
    arm.ended_us = load.measured.started_us + load.measured.elapsed_us;
}

fn shift_all(evidence: &mut Evidence, by_us: u64) {
    evidence.elapsed_us += by_us;
    for arm in &mut evidence.arms {
        arm.started_us += by_us;
        arm.ended_us += if arm.ended_us > 0 { by_us } else { 0 };
    }
    evidence.events.iter_mut().for_each(|event| event.at_us += by_us);
    evidence.measured.iter_mut().for_each(|measured| measured.at_us += by_us);
    evidence.snapshots.iter_mut().for_each(|snapshot| snapshot.at_us += by_us);
    evidence.spans.iter_mut().for_each(|span| (span.from_us, span.to_us) = (span.from_us + by_us, span.to_us + by_us));
    let points = evidence.samples.iter_mut().flat_map(|series| &mut series.points);
    points.for_each(|point| point.at_us += by_us);
}

fn signed(us: u64) -> i64 {
    i64::try_from(us).unwrap_or(i64::MAX)
}

/// The microseconds of a time such as `2026-11-20T20:15:30.000001Z`. `None` without a fraction of a second: the recording's start is not known
/// exactly enough.
fn started_unix_us(rfc3339: &str) -> Option<u64> {
    (rfc3339.get(19..20)? == ".").then_some(())?;
    let started = OffsetDateTime::parse(rfc3339, &Rfc3339).ok()?;
    u64::try_from(started.unix_timestamp_nanos() / 1000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        assert_eq!(started_unix_us("2026-11-20T20:15:30.000001Z"), Some(1_795_205_730_000_001));
        assert_eq!(started_unix_us("2000-02-29T00:00:00.500000Z"), Some(951_782_400_500_000));
        assert_eq!(started_unix_us("1970-01-01T00:00:00.000000Z"), Some(0));
        for without in ["2026-11-20T20:15:30Z", "", "yesterday, at about noon or so"] {
            assert_eq!(started_unix_us(without), None, "{without}");
        }
    }
}
