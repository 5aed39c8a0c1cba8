// SPDX-License-Identifier: Apache-2.0
//! The memory of a server over time, from the inventories that a recording has as snapshots.

use evidence::{Evidence, Format, INVENTORY, Snapshot};
use ledger::{Inventory, OverTime, over_time};
use serde::{Deserialize, Serialize};

/// Whether this snapshot holds an inventory.
pub fn is_inventory(snapshot: &Snapshot) -> bool {
    snapshot.source == INVENTORY && snapshot.format == Format::Json
}

/// The ledger of one arm, inventory by inventory. Times are those of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmMemory {
    /// `None`: the inventories were taken between arms.
    pub arm: Option<String>,
    /// The number of inventories that this build cannot read; they are in no other field.
    pub unreadable: u64,
    pub over_time: OverTime,
}

/// In the order of the arms' first inventories; empty when the recording has none.
pub(crate) fn of(evidence: &Evidence) -> Vec<ArmMemory> {
    let taken = evidence.snapshots.iter().filter(|snapshot| is_inventory(snapshot));
    let mut arms: Vec<&Option<String>> = Vec::new();
    taken.for_each(|snapshot| {
        if !arms.contains(&&snapshot.arm) {
            arms.push(&snapshot.arm);
        }
    });
    arms.into_iter().map(|arm| of_arm(evidence, arm)).collect()
}

fn of_arm(evidence: &Evidence, arm: &Option<String>) -> ArmMemory {
    let own = evidence.snapshots.iter().filter(|snapshot| is_inventory(snapshot) && snapshot.arm == *arm);
    let mut unreadable = 0;
    let read = own.filter_map(|snapshot| match serde_json::from_str::<Inventory>(&snapshot.content) {
        Ok(inventory) => Some((snapshot.at_us, inventory)),
        Err(_) => {
            unreadable += 1;
            None
        }
    });
    let over_time = over_time(read);
    ArmMemory { arm: arm.clone(), unreadable, over_time }
}
