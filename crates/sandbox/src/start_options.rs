// SPDX-License-Identifier: Apache-2.0
//! How a sandbox's server is started once: under what, with what, and how long it is waited for.

use crate::wrap::Wrapping;
use crate::{Pooling, ServerOption};
use run::ChildSpec;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The options for one start of a server.
#[derive(Debug, Clone)]
pub struct StartOptions {
    /// The process whose mount namespace the server enters, because a slow layer lies over its data directory there.
    pub namespaces_of: Option<u32>,
    /// Instead of a namespace, a library in the server: its environment, and the descriptors that it inherits for that. Input and output that such a
    /// library cannot see is turned off, if the server has an option for that.
    pub preload: Option<Preload>,
    /// A library in the server that sees no input and output of the server, and answers questions.
    pub asking: Option<Preload>,
    /// Folders of cgroups to join.
    pub cgroups: Vec<PathBuf>,
    /// The CPUs on which the server may run. `None`: as inherited.
    pub affinity: Option<Vec<u32>>,
    /// From -1000 to 1000; `None`: as inherited.
    pub oom_score_adj: Option<i32>,
    /// Options for the command line, which replace those of the configuration file.
    pub extra_options: Vec<ServerOption>,
    /// The changes to the server's process for this start.
    pub wrapping: Wrapping,
    /// The pooler in front of the server in this start.
    pub pooling: Pooling,
    /// The server outlives the command that starts it; the run must then be left, not released.
    pub standing: bool,
    /// How long to wait until it answers. Recovery on a slow disk takes long.
    pub ready_timeout: Duration,
    /// How long a clean end may take: dirty pages are written, perhaps to a slow disk.
    pub stop_grace: Duration,
}

/// The things by which a library gets into a server.
#[derive(Debug, Clone)]
pub struct Preload {
    pub environment: Vec<(OsString, OsString)>,
    pub inherit: Vec<Arc<OwnedFd>>,
}

impl StartOptions {
    /// The options for a server that is squeezed as a process with this spec: by its cgroups and CPUs, its namespace, or its libraries.
    #[must_use]
    pub fn squeezed(mut self, spec: ChildSpec) -> Self {
        self.namespaces_of = spec.namespaces_of;
        self.cgroups = spec.cgroups;
        self.affinity = spec.affinity;
        let is_empty = spec.inherit.is_empty() && spec.env.is_empty();
        self.preload = (!is_empty).then_some(Preload { environment: spec.env, inherit: spec.inherit });
        self
    }
}

impl Default for StartOptions {
    fn default() -> Self {
        Self {
            namespaces_of: None,
            preload: None,
            asking: None,
            cgroups: Vec::new(),
            affinity: None,
            oom_score_adj: None,
            extra_options: Vec::new(),
            wrapping: Wrapping::default(),
            pooling: Pooling::default(),
            standing: false,
            ready_timeout: Duration::from_secs(180),
            stop_grace: Duration::from_secs(120),
        }
    }
}
