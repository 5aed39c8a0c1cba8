// SPDX-License-Identifier: Apache-2.0
//! A server that is started for a stated time: what its supervisor is told, and what it reports.

use super::squeezed::Squeezed;
use sandbox::{ServerOption, Wrapping};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The order from `start --for` to the supervisor that stops the server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timed {
    pub(super) command: Vec<String>,
    pub(super) sandbox: String,
    pub(super) options: Vec<ServerOption>,
    pub(super) wait: Duration,
    pub(super) lasts: Duration,
    pub(super) squeezed: Squeezed,
    pub(super) wrapping: Wrapping,
}

/// The supervisor's report about the started server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Started {
    pub(super) server: u32,
    pub(super) version: String,
    /// The limits under which the server was started, for people.
    pub(super) limits: Option<String>,
    /// One line for each wrapper.
    pub(super) got: Vec<String>,
    /// The port of the pgBouncer in front of the server.
    pub(super) pooler: Option<u16>,
    /// The slow disk and its measurement, for people.
    pub(super) disk: Option<String>,
}
