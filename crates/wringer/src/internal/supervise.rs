// SPDX-License-Identifier: Apache-2.0
//! `wringer internal supervise`: the controller of a standing squeeze. The command that started it passes the squeeze.

use crate::commands::sandbox;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use host::places::Places;
use host::process::Order;
use run::supervise::{self, Said};
use run::{Begin, Kind};
use serde::{Deserialize, Serialize};
use squeeze::standing::{Asked, InForce};
use std::time::Duration;

/// The order from a command to its supervisor.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Supervise {
    Squeeze(Box<StandingSqueeze>),
    Sandbox(Box<sandbox::Timed>),
}

/// The supervisor's report about the order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Supervised {
    Squeeze(Box<InForce>),
    Sandbox(sandbox::Started),
}

impl Order for Supervise {
    const ROLE: &'static str = "supervise";
    type Ready = Said<Supervised>;
}

/// A standing squeeze.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StandingSqueeze {
    /// The command line as the user typed it.
    pub command: Vec<String>,
    pub lasts: Duration,
    /// A result out of tolerance is a failure.
    pub strict: bool,
    pub squeeze: Asked,
}

pub fn main(order: Supervise) -> Outcome {
    let order = match order {
        Supervise::Squeeze(order) => order,
        Supervise::Sandbox(timed) => return sandbox::supervise(*timed),
    };
    let begin = Begin {
        kind: Kind::Standing,
        command: order.command.clone(),
        resources: order.squeeze.resources(),
        places: Places::from_environment(),
    };
    let places = begin.places.clone();
    let (_, released) = supervise::daemon::<Supervise, _, _>(begin, order.lasts, |run| {
        let in_force = order.squeeze.apply(run, &places, order.strict).map_err(told_to_the_command)?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Supervised::Squeeze(Box::new(in_force)))
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
