// SPDX-License-Identifier: Apache-2.0
//! The logs that the arms of an experiment replay: each is read once, before anything is made.

use crate::commands::recorded_log;
use crate::exit::{Exit, Failure};
use ::load::Protocol;
use ::load::replay::{self, Plan};
use experiment::{Experiment, Replay};
use lab::{Log, Logs};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The logs, by the names that the arms use.
///
/// # Errors
/// Exit code 2: a log is of another kind of server than the experiment's, or an assertion is about a class of statements that the log does not have.
/// 3: a log cannot be read, or has nothing that would be sent.
pub fn read(file: &Path, experiment: &Experiment) -> Result<Logs, Failure> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut logs = Logs::new();
    for arm in &experiment.arms {
        let Some(asked) = &arm.load.replay else { continue };
        if !logs.contains_key(&asked.log) {
            let (format, recorded) = recorded_log::read(&folder.join(&asked.log))?;
            logs.insert(asked.log.clone(), Arc::new(Log { name: asked.log.clone(), format, recorded }));
        }
        refuse_unlike(experiment, &logs[&asked.log])?;
        let plan = refuse_empty(&arm.name, asked, &logs[&asked.log])?;
        for asserted in &arm.assertions {
            let (line, column) = asserted.place;
            let wrong = |why| Failure::message(Exit::Usage, format!("{}:{line}:{column}: {why}", file.display()));
            asserted.assertion.check_class(plan.classes.iter().map(String::as_str)).map_err(wrong)?;
        }
    }
    Ok(logs)
}

/// The length of each log, for the plan.
pub fn seconds(logs: &Logs) -> BTreeMap<String, f64> {
    logs.iter().map(|(name, log)| (name.clone(), log.recorded.length_us() as f64 / 1e6)).collect()
}

fn refuse_unlike(experiment: &Experiment, log: &Log) -> Result<(), Failure> {
    let (protocol, flavour) = (Protocol::of(log.format.dialect()), experiment.server.flavour);
    if protocol == flavour.protocol() {
        return Ok(());
    }
    let message = format!("{} is a {}, and the experiment's server is {flavour}", log.name, log.format.name());
    Err(Failure::message(Exit::Usage, message)
        .hint("a MySQL server does not understand the statements of PostgreSQL, nor the other way round"))
}

/// The statements that the arm would send; fails if there are none.
fn refuse_empty(arm: &str, asked: &Replay, log: &Log) -> Result<Plan, Failure> {
    let plan = replay::plan(&log.recorded, Protocol::of(log.format.dialect()), asked.writes, None);
    if plan.statements() > 0 {
        return Ok(plan);
    }
    let hint = if asked.writes || plan.skipped.is_empty() {
        "the log must hold all statements: see `wringer replay --help`"
    } else {
        "load.writes = true sends the others, too: the server's data are the experiment's own"
    };
    let message = format!("arm '{arm}': the log {} has no statement that would be sent", log.name);
    Err(Failure::message(Exit::Missing, message).hint(hint))
}
