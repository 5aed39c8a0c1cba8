// SPDX-License-Identifier: Apache-2.0
//! `wringer disk status`: what is slow, how slow, and its counts; also for runs that were cut off.

use super::{counted_in_words, device, loop_disk, socket};
use crate::commands::standing::{self, Output};
use crate::exit::Outcome;
use crate::terminal;
use host::places::Places;
use run::FoundRun;
use serde_json::json;
use slowfs::control::Client;
use squeeze::Slowed;
use std::path::Path;

pub fn status(places: &Places, output: Output) -> Outcome {
    let found = run::find_runs(places)?;
    let slow = standing::slowing_or_left(&found);
    let in_force = |run: &FoundRun| {
        let ask = |mut client: Client| Ok((client.model()?, client.stats()?));
        Client::connect(socket(places, run)).and_then(ask).ok()
    };
    if output == Output::Json {
        let row = |run: &FoundRun, directory: &Path| {
            let mut value = standing::run_json(run);
            let (model, stats) = in_force(run).unzip();
            value["directory"] = json!(directory);
            value["delay"] = json!(stats.as_ref().map(|stats| stats.delay));
            value["model"] = json!(model);
            value["stats"] = json!(stats);
            value
        };
        let (mut directories, mut devices, mut images) = (Vec::new(), Vec::new(), Vec::new());
        for (run, slowed) in &slow {
            match slowed {
                Slowed::Directory { directory, .. } => directories.push(row(run, directory)),
                Slowed::Device(slow) => devices.push(device::row(run, slow)),
                Slowed::Loop(slow) => images.push(loop_disk::row(places, run, slow)),
            }
        }
        let value = json!({ "schema": 1, "directories": directories, "devices": devices, "images": images });
        terminal::json(&value);
        return Ok(());
    }
    if slow.is_empty() {
        terminal::data(
            "no directory or device is slowed down by this WRINGER_HOME; `wringer status` names runs of others",
        );
    }
    let cut_off = slow.iter().any(|(run, _)| run.hot);
    for (run, slowed) in slow {
        let delay = match &slowed {
            Slowed::Device(slow) => device::line(slow),
            Slowed::Loop(slow) => loop_disk::line(places, run, slow),
            Slowed::Directory { .. } => in_force(run)
                .map_or_else(|| "the layer does not answer".into(), |(model, stats)| counted_in_words(&model, &stats)),
        };
        terminal::data(format_args!("{}: {delay}\n    {}", slowed.path().display(), standing::headline(run)));
    }
    standing::hint_at_hot(cut_off);
    Ok(())
}
