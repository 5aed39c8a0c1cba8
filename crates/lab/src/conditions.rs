// SPDX-License-Identifier: Apache-2.0
//! The conditions of a run: the host, the server, and the mechanisms of its squeezes.

use crate::cell::{Cell, Phase};
use crate::error::Error;
use crate::lab::Lab;
use crate::squeeze_requests::{is_root, ram_mechanism};
use evidence::{Conditions, DiskMechanism, RamMechanism, Server, Tool};
use observe::conditions;
use sandbox::ServerOption;
use squeeze::limits::OptionNames;
use std::collections::BTreeMap;

impl Lab<'_> {
    /// Facts that only show when RAM is hidden, such as whether it could be locked.
    pub(crate) fn record_ram_traits(&mut self) -> Result<(), Error> {
        let (Some(traits), Some(conditions)) = (self.squeezes.ram_traits(), &mut self.conditions) else {
            return Ok(());
        };
        let traits = serde_json::from_value(serde_json::to_value(traits)?)?;
        if conditions.traits.get("ram") != Some(&traits) {
            conditions.traits.insert("ram".into(), traits);
            self.notes.recording.conditions(conditions)?;
        }
        Ok(())
    }

    /// How the data came to be, once that is known.
    pub(crate) fn record_data(&mut self) -> Result<(), Error> {
        let Some(conditions) = &mut self.conditions else { return Ok(()) };
        conditions.data.clone_from(&self.data);
        Ok(self.notes.recording.conditions(conditions)?)
    }

    pub(crate) fn record_conditions(&mut self) -> Result<(), Error> {
        let (Some(sandbox), Some(serving)) = (&self.sandbox, &self.serving) else { return Ok(()) };
        let data = sandbox.data();
        let host = conditions::host(&data);
        let mut caveats = conditions::caveats(&host);
        let left_out = self.cell.left_out.iter();
        caveats.extend(left_out.map(|left| format!("left out: {}: {}; {}", left.what, left.why, left.instead)));
        let installation = &sandbox.manifest.installation;
        let conditions = Conditions {
            tool: Tool {
                version: env!("CARGO_PKG_VERSION").into(),
                command: self.cell.command.clone(),
                as_root: is_root(),
            },
            host,
            server: Server {
                flavour: installation.flavour.to_string(),
                version: serving.running.version.clone(),
                binary: installation.program.display().to_string(),
                source: installation.source.describe(),
                build: installation.build()?,
                variables: serving.variables()?,
            },
            mechanisms: mechanisms(self.cell, &sandbox.options_under_a_library()?),
            traits: BTreeMap::new(),
            data: self.data.clone(),
            caveats,
        };
        self.notes.recording.conditions(&conditions)?;
        self.conditions = Some(conditions);
        Ok(())
    }
}

fn mechanisms(cell: &Cell, under_a_library: &[ServerOption]) -> BTreeMap<String, String> {
    let mut mechanisms = BTreeMap::new();
    let disk = cell.disk.map(|mechanism| match mechanism {
        DiskMechanism::Preload => {
            let options = under_a_library.iter().map(|option| format!("; the server has {option}"));
            format!("preload layer: a library in the server{}", options.collect::<String>())
        }
        DiskMechanism::Fuse | DiskMechanism::DeviceMapper | DiskMechanism::Loop => {
            "fuse layer in a private mount namespace".to_owned()
        }
    });
    mechanisms.extend(disk.map(|disk| ("disk".to_owned(), disk)));
    if let Some(asked) = cell.phases.iter().find_map(|phase| phase.ram) {
        let chosen = ram_mechanism(asked).map_or("none", RamMechanism::in_results);
        let how = if is_root() { chosen } else { "none: hiding RAM from the host needs root" };
        mechanisms.insert("ram".to_owned(), how.to_owned());
    }
    // a cell that cannot be planned was refused before
    let limits = |phase: &Phase| squeeze::limits::plan(&phase.limits, OptionNames::EXPERIMENT).ok();
    let planned: Vec<_> = cell.phases.iter().filter_map(limits).collect();
    for (name, controller) in [("server_ram", "memory"), ("server_cpus", "cpu"), ("server_cpuset", "cpuset")] {
        let mechanism = planned.iter().find_map(|plan| plan.mechanism(controller));
        mechanisms.extend(mechanism.map(|mechanism| (name.to_owned(), mechanism)));
    }
    mechanisms
}
