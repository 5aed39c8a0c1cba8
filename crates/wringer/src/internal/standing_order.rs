// SPDX-License-Identifier: Apache-2.0
//! What a supervisor is told, and what it reports.

use crate::commands::sandbox;
use host::process::Order;
use run::supervise::Said;
use serde::{Deserialize, Serialize};
use squeeze::Plan;
use squeeze::standing::Report;
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
    Squeeze(Box<Report>),
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
    pub squeeze: Plan,
}

/// A refusal keeps its hint and its exit code.
pub fn told_to_the_command(error: squeeze::Error) -> Box<dyn std::error::Error + Send + Sync> {
    match error {
        squeeze::Error::Refused { what, hint } => run::Error::Refused { what, hint: Some(hint) }.into(),
        squeeze::Error::Run(error) => error.into(),
        other => other.into(),
    }
}
