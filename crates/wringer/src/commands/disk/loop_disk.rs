// SPDX-License-Identifier: Apache-2.0
//! `wringer disk delay IMAGE`: a loop device over a FUSE file, for an unused image file or block device.

use super::{counted_in_words, dry_change, show_measured};
use crate::commands::standing::{self, Output, Shown, Standing};
use crate::exit::Outcome;
use crate::terminal;
use diskmodel::Model;
use host::places::Places;
use run::FoundRun;
use serde_json::{Value, json};
use slowfs::control::Client;
use slowfs::disk::{RESEND_SINCE, WORKER_SOCKET, kept, protocol};
use squeeze::Error;
use squeeze::loop_disk::{SlowDisk, check, notes};
use squeeze::standing::{Asked, SlowedImage};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub fn delay(places: &Places, path: &Path, model: &Model, words: &Standing, takes: Duration) -> Outcome {
    let image = check(path)?;
    let notes = notes(model, protocol().is_none_or(|it| it >= RESEND_SINCE));
    if words.dry_run {
        dry_run(&image.path, model, &notes, words.output);
        return Ok(());
    }
    let spinner = terminal::spinner("attaching the slow loop device, probing it");
    let result = standing::start(places, words, Asked::Image { image, model: Box::new(model.clone()) }, takes);
    spinner.finish_and_clear();
    show(&result?, words.output);
    Ok(())
}

/// Changes a disk that is slow already: one switch, also for a mounted device.
pub fn change(places: &Places, slow: &SlowDisk, model: &Model, words: &Standing) -> Outcome {
    if words.dry_run {
        dry_change(&slow.run, &slow.image, model, words.output);
        return Ok(());
    }
    let Some(device) = slow.device() else {
        let what = format!("the loop device of {} is detached", slow.image.display());
        return Err(Error::Refused { what, hint: "`wringer undo` ends this run".into() }.into());
    };
    let folder = folder(places, slow);
    let resends = kept(&folder).is_ok_and(|kept| kept.resends);
    let in_force = SlowedImage::set(&folder, &slow.image, &device.path, model, resends, words.strict)?;
    show(&Shown::changed(&slow.run, in_force), words.output);
    Ok(())
}

fn dry_run(image: &Path, model: &Model, notes: &[String], output: Output) {
    let served =
        format!("a keeper and a worker serve {} as a FUSE file that is mounted nowhere: {model}", image.display());
    let changes = [
        (served, "the delay goes to 0 at once; they end when the loop device has let go".to_owned()),
        (
            "a free loop device is attached to that file, past the page cache, with autoclear".to_owned(),
            "detached when nobody has it mounted or open".to_owned(),
        ),
    ];
    if output == Output::Json {
        let changes: Vec<Value> =
            changes.iter().map(|(change, undo)| json!({ "change": change, "undo": undo })).collect();
        let value = json!({ "schema": 1, "dry_run": true, "changes": changes, "model": model, "notes": notes });
        return terminal::json(&value);
    }
    changes.iter().for_each(|(change, undo)| terminal::data(format_args!("{change}\n    undo: {undo}")));
    notes.iter().for_each(|note| terminal::say(format_args!("note: {note}")));
}

fn show(shown: &Shown<SlowedImage>, output: Output) {
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
