// SPDX-License-Identifier: Apache-2.0
//! The result of one check of this machine.

use host::tool;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Good,
    /// Works, but the user should know something.
    Caution,
    Missing,
}

#[derive(Debug, Serialize)]
pub struct Check {
    pub id: &'static str,
    pub state: State,
    pub found: String,
    pub remedy: Option<String>,
}

impl Check {
    pub fn good(id: &'static str, found: impl Into<String>) -> Self {
        Self { id, state: State::Good, found: found.into(), remedy: None }
    }

    pub fn caution(id: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { id, state: State::Caution, found: found.into(), remedy: Some(remedy.into()) }
    }

    pub fn missing(id: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { id, state: State::Missing, found: found.into(), remedy: Some(remedy.into()) }
    }
}

/// Whether this machine can fetch packages of its distribution, and unpack them without installing them.
pub fn has_package_client() -> bool {
    tool::find("apt-get").is_some() && tool::find("dpkg-deb").is_some()
}
