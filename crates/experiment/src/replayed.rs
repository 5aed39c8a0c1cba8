// SPDX-License-Identifier: Apache-2.0
//! What `load.replay` asks for: the statements of a server's log, once more.

use serde::Serialize;
use std::fmt;

/// As `wringer replay` does it: each connection of the log is one of ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replay {
    /// From the folder of the experiment's file, unless it is absolute.
    pub log: String,
    pub speed: Speed,
    /// Everything is sent. Else only what is provably a read.
    pub writes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Speed {
    /// This many times as fast as recorded.
    Times(f64),
    /// Each statement as soon as the one before it on its connection is done.
    Max,
}

impl Replay {
    /// What the load is called.
    pub fn name(&self) -> String {
        format!("replay {}", self.log)
    }

    /// How long a log of so many seconds takes; nobody knows it of one that is sent as fast as the server goes.
    pub(crate) fn seconds(&self, log_seconds: f64) -> f64 {
        match self.speed {
            Speed::Times(times) => log_seconds / times,
            Speed::Max => 0.0,
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times(1.0) => f.write_str("as fast as recorded"),
            Self::Times(times) => write!(f, "{times} times as fast as recorded"),
            Self::Max => f.write_str("each statement as soon as the one before it on its connection is done"),
        }
    }
}
