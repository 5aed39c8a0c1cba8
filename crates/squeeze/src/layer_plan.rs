// SPDX-License-Identifier: Apache-2.0
//! The plan of a slow layer that only one program sees. It is made without a delay; the delay is a change of it.

use crate::Error;
use crate::directory::FILE_SYSTEM;
use crate::disk::SlowLayer;
use crate::ram::Change;
use diskmodel::Model;
use evidence::DiskMechanism;
use run::Run;
use std::path::PathBuf;

/// The program that sees the layer.
#[derive(Debug, Clone)]
pub enum Owner {
    /// A server that is stopped. The arms of an experiment have different models, so the plan names none.
    Server,
    /// A user's command, which may have several layers.
    Command { model: Box<Model> },
}

/// A layer that this machine can make.
#[derive(Debug, Clone)]
pub struct LayerPlan {
    pub directory: PathBuf,
    pub mechanism: DiskMechanism,
    pub owner: Owner,
    /// The folder for the library of a preload layer.
    pub(crate) library: PathBuf,
    /// What is unknown about the directory.
    pub(crate) note: Option<String>,
}

impl LayerPlan {
    /// `first` and `number`: the first layer of this program, and how many it has.
    pub(crate) fn start(&self, run: &mut Run, first: Option<&SlowLayer>, number: u32) -> Result<SlowLayer, Error> {
        let Self { directory, library, .. } = self;
        match (&self.owner, self.mechanism) {
            (_, DiskMechanism::Preload) => SlowLayer::preload(run, directory, library, number),
            (Owner::Command { .. }, _) => SlowLayer::start_for_command(run, directory, number, first),
            (Owner::Server, _) => SlowLayer::start(run, directory),
        }
    }

    /// The model of a command's disk. `None`: the layer of a server, whose model changes.
    pub fn model(&self) -> Option<&Model> {
        match &self.owner {
            Owner::Server => None,
            Owner::Command { model } => Some(model),
        }
    }

    pub(crate) fn change(&self) -> Change {
        let directory = self.directory.display();
        let model = self.model().map(|model| format!(": {model}")).unwrap_or_default();
        match self.mechanism {
            DiskMechanism::Preload => Change {
                change: format!(
                    "a library (LD_PRELOAD) in the command and what it starts, for files below {directory}{model}"
                ),
                undo: "the delay goes to 0, and the library goes with the command".into(),
            },
            _ => Change {
                change: format!(
                    "a slow layer ({FILE_SYSTEM}) over {directory}, in a mount namespace of the command's own{model}"
                ),
                undo: "the delay goes to 0, it is unmounted, and the namespace goes with the command".into(),
            },
        }
    }
}
