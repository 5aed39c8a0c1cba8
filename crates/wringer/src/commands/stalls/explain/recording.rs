// SPDX-License-Identifier: Apache-2.0
//! The stalls of a recording, arm by arm, at the times of the calendar.

use super::{Args, unreadable};
use crate::commands::report::{read, recording_in};
use crate::exit::{Exit, Failure};
use ::explain::WatchedArm;
use ::explain::stalled::{ArmStalls, Wanted, arms};
use ::stalls::{Explained, Server};
use capability::Algorithm;
use evidence::Evidence;
use serde::Serialize;
use std::io::{Error, ErrorKind};
use std::path::Path;

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
    /// If the server's threads were watched, too: the cost of the watch, and what the watch could not see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) watched: Option<WatchedArm>,
}

pub(super) fn explain(args: &Args, path: &Path, server: Option<Server>) -> Result<OfRecording, Failure> {
    let evidence = read(&recording_in(path), |_| false, ::explain::without_inventory)?;
    let wanted = Wanted {
        least_us: args.least_us(),
        server,
        algorithm: args.algorithm.map(Algorithm::from),
        wait_free: args.wait_free,
    };
    let began_us = began_us(&evidence).ok_or_else(|| {
        let why = format!("it says that it began at {:?}", evidence.started);
        unreadable(path, Error::new(ErrorKind::InvalidData, why))
    })?;
    let arms: Vec<OfArm> = arms(&evidence, &wanted).into_iter().map(|arm| dated(arm, began_us)).collect();
    if arms.is_empty() {
        let message = format!("{} has no slow statements one by one, and no watch for stalls", path.display());
        let hint = "an experiment keeps them with load.slow_statements = \"20ms\", and watches with observe.stalls = true; so does `wringer stalls watch --to`";
        return Err(Failure::message(Exit::Missing, message).hint(hint));
    }
    Ok(OfRecording { schema: 1, run: evidence.run_id, arms })
}

/// Microseconds since the beginning of 1970.
fn began_us(evidence: &Evidence) -> Option<i64> {
    let format = &time::format_description::well_known::Rfc3339;
    let began = time::OffsetDateTime::parse(&evidence.started, format).ok()?;
    i64::try_from(began.unix_timestamp_nanos() / 1000).ok()
}

fn dated(arm: ArmStalls, began_us: i64) -> OfArm {
    let ArmStalls { arm, mut explained, watched } = arm;
    for stall in &mut explained.stalls {
        let victims = stall.victims.iter_mut().map(|victim| &mut victim.started_us);
        let all = victims.chain([&mut stall.started_us]).flatten();
        all.for_each(|started_us| *started_us = started_us.saturating_add(began_us));
    }
    OfArm { arm, explained, watched }
}
