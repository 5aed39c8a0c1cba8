// SPDX-License-Identifier: Apache-2.0
//! The host's transparent huge pages, for the server of a phase: set before it starts, put back when it has stopped.

use crate::cell::{Cell, Phase};
use crate::error::Error;
use crate::lab::Lab;
use experiment::Thp;
use squeeze::host_thp::{self, HostThp};

impl Cell {
    /// Whether the setting is changed for the whole host: then the caller must ask for consent first.
    pub fn sets_host_thp(&self) -> bool {
        let in_force = host_thp::in_force();
        let others = |phase: &Phase| of_host(phase).is_some_and(|asked| Some(asked.name()) != in_force.as_deref());
        host_thp::may_set() && self.phases.iter().any(others)
    }
}

/// The host's setting that this phase's server needs. `never` needs none: it is set for the server alone.
fn of_host(phase: &Phase) -> Option<Thp> {
    phase.start.thp.filter(|asked| *asked != Thp::Never)
}

impl Lab<'_> {
    /// Sets it for a server that is stopped.
    pub(crate) fn set_host_thp(&mut self, phase: &Phase) -> Result<(), Error> {
        let Some(asked) = of_host(phase).filter(|_| host_thp::may_set()) else { return Ok(()) };
        self.host_thp = host_thp::set(&mut self.run, asked.name())?;
        match &self.host_thp {
            Some(HostThp { before, set, .. }) => {
                let told = format!("transparent huge pages of the host: {set}, before {before}");
                self.notes.event("squeeze", told)
            }
            None => Ok(()),
        }
    }

    /// Puts the old setting back; the server has stopped.
    pub(crate) fn put_host_thp_back(&mut self) -> Result<(), Error> {
        let Some(thp) = self.host_thp.take() else { return Ok(()) };
        Ok(HostThp::give_back(thp, &mut self.run)?)
    }
}
