// SPDX-License-Identifier: Apache-2.0
//! `sandbox start --disk`: a standing server whose data directory is on a slow disk, also without root.

use crate::commands::disk::flags;
use crate::commands::squeeze::disk_mechanism;
use crate::exit::Failure;
use crate::terminal;
use diskmodel::{Asked, Model};
use evidence::DiskMechanism;
use host::places::Places;
use run::Run;
use sandbox::{Sandbox, StartOptions};
use serde::{Deserialize, Serialize};
use squeeze::directory::probe_file;
use squeeze::disk::SlowLayer;
use squeeze::{access_lists, preloaded};

/// A slow disk, planned for this machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowDisk {
    model: Model,
    /// The mechanism of the delay: a layer, or a library in the server where no layer can be mounted.
    mechanism: DiskMechanism,
}

/// # Errors
/// Exit code 2: the disk cannot be parsed. 3: this machine allows neither mechanism, or the allowed one cannot slow this server.
pub fn checked(asked: &Asked, sandboxes: &[Sandbox], places: &Places) -> Result<SlowDisk, Failure> {
    let model = flags::model(asked)?;
    let (mechanism, why) = disk_mechanism(places)?;
    if let Some(why) = why {
        terminal::say(format_args!("note: {why}"));
    }
    for sandbox in sandboxes {
        if mechanism == DiskMechanism::Preload {
            preloaded::check_program(&sandbox.manifest.installation.program)?;
            preloaded::check_directory(&sandbox.data())?;
        } else if let Some(unknown) = access_lists::refuse(&sandbox.data())? {
            terminal::say(format_args!("note: {unknown}"));
        }
    }
    Ok(SlowDisk { model, mechanism })
}

impl SlowDisk {
    /// Puts the layer, without a delay, over the data directory of a stopped server. Returns how to start the server.
    pub fn put(
        &self,
        run: &mut Run,
        sandbox: &Sandbox,
        places: &Places,
        start: StartOptions,
    ) -> Result<(SlowLayer, StartOptions), squeeze::Error> {
        let library = preloaded::library_folder(places);
        let layer = SlowLayer::over(run, &sandbox.data(), self.mechanism, &library)?;
        let start = start.seeing(SlowLayer::for_programs(&[&layer]));
        Ok((layer, start))
    }

    /// Sets the delay; call it when the server answers. Returns the disk and a probe's results, for people.
    pub fn begin(&self, run: &mut Run, mut layer: SlowLayer, sandbox: &Sandbox) -> Result<String, squeeze::Error> {
        let how = layer.mechanism().in_results();
        let file = probe_file(&sandbox.data()).filter(|_| self.mechanism != DiskMechanism::Preload);
        let measured = layer.apply(run, &self.model, file.as_deref(), "sandbox")?;
        let got = measured.iter().find(|one| one.what.starts_with("disk.read.median")).and_then(|one| one.got);
        let got = got.map(|got| format!("; the median of a probe's reads was {:.0} us", got.value));
        Ok(format!("{} ({how}){}", self.model, got.unwrap_or_default()))
    }
}
