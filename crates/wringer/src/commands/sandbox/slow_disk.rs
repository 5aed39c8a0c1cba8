// SPDX-License-Identifier: Apache-2.0
//! `sandbox start --disk`: a standing server whose data directory is on a slow disk, also without root.

use crate::commands::disk::flags;
use crate::commands::squeeze::disk_mechanism;
use crate::exit::Failure;
use crate::terminal;
use diskmodel::{Asked, Model};
use host::places::Places;
use run::Run;
use sandbox::{Sandbox, StartOptions};
use serde::{Deserialize, Serialize};
use squeeze::directory::{PROBE_FILE_BYTES, largest_file};
use squeeze::disk::{Mechanism, SlowLayer};
use squeeze::{access_lists, preloaded};

/// What is asked, on a machine that was looked at.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowDisk {
    model: Model,
    /// By a library in the server, where no layer can be mounted.
    preload: bool,
}

/// # Errors
/// Exit code 2: the words are none. 3: this machine allows neither mechanism, or this server cannot be slowed by the one that it allows.
pub fn checked(asked: &Asked, sandboxes: &[Sandbox], places: &Places) -> Result<SlowDisk, Failure> {
    let model = flags::model(asked)?;
    let (mechanism, why) = disk_mechanism(places)?;
    if let Some(why) = why {
        terminal::say(format_args!("note: {why}"));
    }
    let preload = mechanism == Mechanism::Preload;
    for sandbox in sandboxes {
        if preload {
            preloaded::check_program(&sandbox.manifest.installation.program)?;
            preloaded::check_directory(&sandbox.data())?;
        } else if let Some(unknown) = access_lists::refuse(&sandbox.data())? {
            terminal::say(format_args!("note: {unknown}"));
        }
    }
    Ok(SlowDisk { model, preload })
}

impl SlowDisk {
    /// Puts the layer over the data directory of a server that is stopped, without delay. Returns how the server is to be started.
    pub fn put(
        &self,
        run: &mut Run,
        sandbox: &Sandbox,
        places: &Places,
        start: StartOptions,
    ) -> Result<(SlowLayer, StartOptions), squeeze::Error> {
        let data = sandbox.data();
        let layer = match self.preload {
            false => SlowLayer::start(run, &data)?,
            true => SlowLayer::preload(run, &data, &preloaded::library_folder(places), 0)?,
        };
        let start = start.seeing(SlowLayer::for_programs(&[&layer]));
        Ok((layer, start))
    }

    /// Once the server answers: slow from here on. Returns in words what it is, and what a probe got.
    pub fn begin(&self, run: &mut Run, mut layer: SlowLayer, sandbox: &Sandbox) -> Result<String, squeeze::Error> {
        let how = layer.mechanism().in_results();
        let file = largest_file(&sandbox.data(), &|_| true).filter(|(_, bytes)| *bytes >= PROBE_FILE_BYTES);
        let Some((file, _)) = file.filter(|_| !self.preload) else {
            layer.set(&self.model)?;
            return Ok(format!("{} ({how})", self.model));
        };
        layer.open_probe(run, &file)?;
        layer.set(&self.model)?;
        let measured = layer.measure(&self.model, "sandbox", 0)?;
        layer.close_probe(run)?;
        // with fresh credits
        layer.set(&self.model)?;
        let got = measured.iter().find(|one| one.what.starts_with("disk.read.median")).and_then(|one| one.got);
        let got = got.map(|got| format!("; the median of a probe's reads was {:.0} us", got.value));
        Ok(format!("{} ({how}){}", self.model, got.unwrap_or_default()))
    }
}
