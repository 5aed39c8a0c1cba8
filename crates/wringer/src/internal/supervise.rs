// SPDX-License-Identifier: Apache-2.0
//! `wringer internal supervise`: the controller of a standing squeeze. The command that started it passes the squeeze.

use crate::commands::{disk, sandbox};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use diskmodel::Model;
use evidence::Measured;
use host::places::Places;
use host::process::Order;
use run::supervise::{self, Said};
use run::{Begin, Kind, Resource, Run};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use squeeze::device::{Delays, Device, SlowDevice};
use squeeze::directory::{SlowDirectory, set_and_measure};
use squeeze::loop_disk::{self, Image, SlowDisk};
use squeeze::ram;
use std::path::PathBuf;
use std::time::Duration;

/// The order from a command to its supervisor.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Supervise {
    Squeeze(Box<StandingSqueeze>),
    Sandbox(Box<sandbox::Timed>),
}

impl Order for Supervise {
    const ROLE: &'static str = "supervise";
    type Ready = Said;
}

/// A standing squeeze.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StandingSqueeze {
    /// The command line as the user typed it.
    pub command: Vec<String>,
    pub lasts: Duration,
    /// A result out of tolerance is a failure.
    pub strict: bool,
    pub squeeze: Squeeze,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Squeeze {
    Ram(ram::Plan),
    Disk { directory: PathBuf, model: Box<Model> },
    Device { device: Device, delays: Delays },
    Loop { image: Image, model: Box<Model> },
}

impl Squeeze {
    pub fn resource(&self) -> Resource {
        match self {
            Self::Ram(_) => Resource::HostRam,
            Self::Disk { directory, .. } => Resource::Directory(directory.clone()),
            Self::Device { device, .. } => Resource::Device(device.path.clone()),
            Self::Loop { image, .. } if image.is_device => Resource::Device(image.path.clone()),
            Self::Loop { image, .. } => Resource::Image(image.path.clone()),
        }
    }
}

pub fn main(order: Supervise) -> Outcome {
    let order = match order {
        Supervise::Squeeze(order) => order,
        Supervise::Sandbox(timed) => return sandbox::supervise(*timed),
    };
    let begin = Begin {
        kind: Kind::Standing,
        command: order.command.clone(),
        resources: vec![order.squeeze.resource()],
        places: Places::from_environment(),
    };
    let places = begin.places.clone();
    let (_, released) = supervise::daemon::<Supervise, _>(begin, order.lasts, |run| {
        apply(&places, run, &order).map_err(told_to_the_command)
    })?;
    if let Some(reason) = &released.neutralised {
        terminal::say(format_args!("{}: ended by its watchdog: {reason}", released.run));
    }
    match released.conflicts.first() {
        None => Ok(()),
        Some(it) => {
            Err(Failure::message(Exit::NotRestored, format_args!("{}: now '{}'", it.step, it.found)).hint(&it.repair))
        }
    }
}

/// A refusal keeps its hint and its exit code.
pub fn told_to_the_command(error: squeeze::Error) -> Box<dyn std::error::Error + Send + Sync> {
    match error {
        squeeze::Error::Refused { what, hint } => run::Error::Refused { what, hint: Some(hint) }.into(),
        squeeze::Error::Run(error) => error.into(),
        other => other.into(),
    }
}

/// Returns the text that the command prints.
fn apply(places: &Places, run: &mut Run, order: &StandingSqueeze) -> Result<Value, squeeze::Error> {
    let StandingSqueeze { squeeze, lasts, strict, .. } = order;
    let until = host::clock::rfc3339(host::clock::unix_seconds() + lasts.as_secs());
    match squeeze {
        Squeeze::Ram(plan) => {
            let hidden = ram::hide(run, plan)?;
            Ok(json!({
                "mechanism": hidden.mechanism.in_results(),
                "traits": hidden.traits(),
                "hidden_bytes": hidden.bytes,
                "available_before_bytes": hidden.before.available_bytes,
                "available_after_bytes": hidden.after.available_bytes,
                "elapsed_us": units::Span(hidden.elapsed).as_us(),
                "nodes": hidden.nodes,
                "holder": hidden.holder,
                "measured": hidden.measured,
                "remainder": ram::remainder(&hidden.measured),
                "shortage": ram::shortage(&hidden.measured),
                "until": until,
            }))
        }
        Squeeze::Disk { directory, model } => {
            let slow = SlowDirectory::start(run, directory)?;
            let measured: Vec<Measured> = set_and_measure(&slow.socket, directory, model, *strict)?;
            Ok(
                json!({ "directory": directory, "delay": model.delay(), "model": model, "measured": measured, "until": until }),
            )
        }
        Squeeze::Device { device, delays } => {
            let slow = SlowDevice::start(run, device)?;
            let mut value = disk::device::set(places, &slow, *delays, *strict)?;
            value["until"] = json!(until);
            Ok(value)
        }
        Squeeze::Loop { image, model } => {
            let started = SlowDisk::start(run, image)?;
            let [worker, _] = loop_disk::sockets(&started.folder);
            let measured = loop_disk::set_and_measure(&worker, &started.device.path, model, *strict)?;
            let mut value =
                disk::loop_disk::described(&image.path, &started.device.path, model, measured, started.resends);
            value["until"] = json!(until);
            Ok(value)
        }
    }
}
