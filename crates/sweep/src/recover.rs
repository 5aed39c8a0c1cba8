// SPDX-License-Identifier: Apache-2.0
//! Undoes the changes that a killed cell has left, before anything else runs: first those in the journal, then its sandbox is deleted.

use crate::error::Error;
use crate::state::{AttemptEnd, State};
use host::places::Places;
use run::{RunId, Scope};
use sandbox::Sandbox;

/// Undoes the runs of interrupted attempts, where they have left something. Returns what was undone, in words.
///
/// # Errors
/// A change could not be undone: no cell may run on a host that is still changed.
pub(crate) fn recover(state: &State, places: &Places) -> Result<Vec<String>, Error> {
    let attempts = state.cells.iter().flat_map(|cell| &cell.attempts);
    let interrupted = attempts.filter(|attempt| attempt.end == Some(AttemptEnd::Interrupted));
    let runs: Vec<&str> = interrupted.filter_map(|attempt| attempt.run.as_deref()).collect();
    let mut told = Vec::new();
    for id in &runs {
        let Ok(id) = id.parse::<RunId>() else { continue };
        match run::undo(places, Scope::One(id), &mut |_| ()) {
            Err(run::Error::NoSuchRun { .. }) => {}
            Err(error) => return Err(error.into()),
            Ok(report) if report.is_whole() && report.unknown.is_empty() => {
                told.extend(report.ended.iter().map(|id| format!("run {id} is undone")));
                told.extend(report.restored);
            }
            Ok(report) => {
                let unknown = report.unknown.iter().map(|(id, why)| format!("run {id}: {why}"));
                let conflicts = report.conflicts.iter().map(|it| format!("{}: somebody else changed it", it.step));
                let unsure = report.unsure.iter().map(|it| it.why.clone());
                let why = report.failures.iter().cloned().chain(conflicts).chain(unsure).chain(unknown).collect();
                return Err(Error::NotUndone { why });
            }
        }
    }
    told.extend(sandboxes(&runs, places)?);
    Ok(told)
}

/// Deletes the sandboxes that these runs would have deleted at their end.
fn sandboxes(runs: &[&str], places: &Places) -> Result<Vec<String>, Error> {
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let is_theirs = |sandbox: &Sandbox| sandbox.manifest.run.as_deref().is_some_and(|run| runs.contains(&run));
    let left = Sandbox::list(places).into_iter().filter(|(_, sandbox)| sandbox.as_ref().is_ok_and(is_theirs));
    let mut told = Vec::new();
    for (name, _) in left {
        Sandbox::delete(&name, places, true).map_err(|source| Error::Sandbox { source: Box::new(source) })?;
        told.push(format!("its sandbox {name} is deleted"));
    }
    Ok(told)
}
