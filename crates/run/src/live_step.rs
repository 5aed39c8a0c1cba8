// SPDX-License-Identifier: Apache-2.0
//! A change to a step of a live run, made by another process than the run's controller.

use crate::dismantle::Executor as _;
use crate::executor::RealHost;
use crate::folder::Folder;
use crate::locks::is_held;
use crate::reading::{self, Unsure};
use crate::{Error, Phase, RunId, StepId, StepState};
use host::permit::Permit;
use host::places::Places;
use journal::State;

/// Makes a change that the undo of the applied step `step` covers: the intent of that step is on the disk already. When the run has ended or was
/// neutralised meanwhile, the step is neutralised again.
///
/// # Errors
/// The error of `change`; [`Error::NoSuchStep`] when the run is not live, or the step is not applied or is undone.
pub fn change_live_step<T, E: From<Error>>(
    places: &Places,
    id: &RunId,
    step: StepId,
    change: impl FnOnce(&Permit) -> Result<T, E>,
) -> Result<T, E> {
    standing(places, id, step)?;
    #[allow(clippy::disallowed_methods)] // the step's own intent is on the disk, and its undo covers this change
    let permit = Permit::issue(step.0.into());
    let changed = change(&permit);
    if let Err(error) = standing(places, id, step) {
        if let Ok((folder, state)) = read(places, id)
            && let Some(step) = state.step(step)
        {
            RealHost::of_state(id.clone(), folder, &state).neutralise(&permit, step);
        }
        return Err(error.into());
    }
    changed
}

fn read(places: &Places, id: &RunId) -> Result<(Folder, State), Error> {
    let folder = Folder::of(places, id);
    let reading = reading::read(&folder);
    let Some(content) = reading.whole() else {
        let why = Unsure::of(id, &reading).map(|unsure| unsure.why).unwrap_or_default();
        return Err(Error::Refused { what: why, hint: Some("`wringer status` shows that run".to_owned()) });
    };
    Ok((folder, content.state.clone()))
}

fn standing(places: &Places, id: &RunId, step: StepId) -> Result<(), Error> {
    let (folder, state) = read(places, id)?;
    let applied = |step: &StepState| step.phase == Phase::Done;
    let stands = is_held(&folder.owner())
        && folder.read_reason().is_none()
        && state.neutralised.is_none()
        && state.step(step).is_some_and(applied);
    if stands { Ok(()) } else { Err(Error::NoSuchStep { id: id.clone(), step }) }
}
