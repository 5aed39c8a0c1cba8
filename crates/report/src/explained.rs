// SPDX-License-Identifier: Apache-2.0
//! From what was explained to what is shown.

use crate::{ArmView, Context, Hump, ReadsPerQuery};
use evidence::{Arm, Evidence};
use explain::modes::Mode;
use explain::{ArmSummary, Explained, Reads};

impl<'a> Context<'a> {
    /// A recording, and what was made of it.
    pub fn new(evidence: &'a Evidence, explained: &Explained) -> Self {
        let found = |index: usize, arm: &Arm| explained.arms.get(index).filter(|found| found.name == arm.name);
        let arms = evidence.arms.iter().enumerate().map(|(index, arm)| view(arm, found(index, arm))).collect();
        Self::assemble(evidence, arms, explained.findings.clone())
    }
}

fn view<'a>(arm: &'a Arm, found: Option<&ArmSummary>) -> ArmView<'a> {
    let modes = found.and_then(|found| found.modes.as_ref());
    ArmView {
        arm,
        humps: modes.map(|modes| modes.modes.iter().map(hump).collect()).unwrap_or_default(),
        reason: modes.and_then(|modes| modes.reason.clone()),
        read_us: modes.and_then(|modes| modes.read_us),
        reads: found.and_then(|found| found.reads.as_ref()).map(reads).unwrap_or_default(),
        busy: found.and_then(|found| found.busy),
    }
}

fn reads(reads: &Reads) -> ReadsPerQuery {
    ReadsPerQuery {
        by_modes: reads.by_modes,
        by_server: reads.by_server,
        by_layer: reads.by_layer,
        off_server: reads.discrepancy_server,
        off_layer: reads.discrepancy_layer,
        layer_counts: reads.reference.as_deref() == Some("layer"),
    }
}

fn hump(mode: &Mode) -> Hump {
    Hump {
        center_us: mode.center_us,
        low_us: mode.low_us,
        high_us: mode.high_us,
        count: mode.count,
        share: mode.share,
        reads: mode.reads,
    }
}
