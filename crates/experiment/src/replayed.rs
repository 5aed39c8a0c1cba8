// SPDX-License-Identifier: Apache-2.0
//! The settings of `load.replay`: the statements of a server's log are sent again.

use serde::Serialize;
use std::fmt;

/// A replay as `wringer replay` does it: each connection of the log is one connection of ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replay {
    /// The path of the log: absolute, or relative to the folder of the experiment's file.
    pub log: String,
    pub speed: Speed,
    /// True: all statements are sent. False: only those that are provably reads.
    pub writes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Speed {
    /// This many times as fast as recorded.
    Times(f64),
    /// Each statement is sent as soon as the one before it on its connection is done.
    Max,
}

impl Replay {
    /// The name of the load.
    pub fn name(&self) -> String {
        format!("replay {}", self.log)
    }

    /// How long the replay of a log of this many seconds takes; 0 at full speed, because the time is not known in advance.
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
