// SPDX-License-Identifier: Apache-2.0
//! `wringer disk delay IMAGE`: a loop device over a FUSE file, for an unused image file or block device.

use super::{counted_in_words, show_measured};
use crate::commands::standing::{self, Output, Shown};
use crate::terminal;
use host::places::Places;
use run::FoundRun;
use serde_json::{Value, json};
use slowfs::control::Client;
use slowfs::disk::{WORKER_SOCKET, kept};
use squeeze::loop_disk::SlowDisk;
use squeeze::standing::SlowedImage;
use std::path::PathBuf;

pub(super) fn show(shown: &Shown<SlowedImage>, output: Output) {
    if output == Output::Json {
        return terminal::json(shown);
    }
    let SlowedImage { image, device, model, measured, notes, .. } = &shown.in_force;
    let (image, device) = (image.display(), device.display());
    terminal::data(format_args!("{device} over {image}: {model} (run {})", shown.run));
    measured.iter().for_each(show_measured);
    notes.iter().for_each(|note| terminal::say(format_args!("note: {note}")));
    if let Some(until) = &shown.until {
        terminal::say(format_args!(
            "use it as any device: mount {device} DIRECTORY (mke2fs {device} before, if there is no file system yet)\n\
            until {until}; unmount it before, then `wringer disk release {image}` ends it"
        ));
    }
}

fn folder(places: &Places, slow: &SlowDisk) -> PathBuf {
    places.journal.join(slow.run.as_str())
}

/// The present state of the worker, for `status`.
pub fn line(places: &Places, run: &FoundRun, slow: &SlowDisk) -> String {
    let folder = folder(places, slow);
    let ask = |mut client: Client| Ok((client.model()?, client.stats()?));
    let delay = Client::connect(folder.join(WORKER_SOCKET))
        .and_then(ask)
        .map_or_else(|_| "its worker does not answer".to_owned(), |(model, stats)| counted_in_words(&model, &stats));
    let device = slow.device().map_or_else(
        || "its loop device is detached".to_owned(),
        |device| {
            let used = match device.mount() {
                Some(mount) => format!("mounted at {mount}"),
                None if device.is_used(&run.processes) => "in use".into(),
                None => "not in use".into(),
            };
            format!("as {}, {used}", device.path.display())
        },
    );
    let restarts = kept(&folder).map_or(0, |kept| kept.restarts);
    let replaced = if restarts == 0 {
        String::new()
    } else {
        format!("; {}", units::counted(restarts.into(), "worker") + " replaced")
    };
    format!("{delay}; {device}{replaced}")
}

pub fn row(places: &Places, run: &FoundRun, slow: &SlowDisk) -> Value {
    let folder = folder(places, slow);
    let mut value = standing::run_json(run);
    let ask = |mut client: Client| Ok((client.model()?, client.stats()?));
    let (model, stats) = Client::connect(folder.join(WORKER_SOCKET)).and_then(ask).ok().unzip();
    let (device, kept) = (slow.device(), kept(&folder).ok());
    value["image"] = json!(slow.image);
    value["device"] = json!(device.as_ref().map(|device| &device.path));
    value["in_use"] = json!(device.as_ref().map(|device| device.is_used(&run.processes)));
    value["delay"] = json!(stats.as_ref().map(|stats| stats.delay));
    value["model"] = json!(model);
    value["stats"] = json!(stats);
    value["keeper"] = json!(kept);
    value
}
