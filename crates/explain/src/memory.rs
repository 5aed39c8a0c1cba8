// SPDX-License-Identifier: Apache-2.0
//! The memory of a server over time, from the inventories that a recording has as snapshots.

use evidence::{Evidence, Format, INVENTORY, INVENTORY_FIGURES, Snapshot};
use ledger::{Inventory, Moment, OverTime, side_by_side};
use serde::{Deserialize, Serialize};

/// Whether this snapshot holds an inventory, or the figures of one.
pub fn is_inventory(snapshot: &Snapshot) -> bool {
    [INVENTORY, INVENTORY_FIGURES].contains(&snapshot.source.as_str()) && snapshot.format == Format::Json
}

/// An inventory with its figures alone: hundreds of whole ones do not fit into memory together, and [`crate::explain`] says the same of both. Other snapshots stay as
/// they are.
#[must_use]
pub fn with_figures_alone(snapshot: Snapshot) -> Snapshot {
    // one that cannot be read has no figures, and is counted later
    let figures = |snapshot: &Snapshot| serde_json::to_string(&figures(snapshot)?).ok();
    reduced(snapshot, |snapshot| figures(snapshot).unwrap_or_default())
}

/// For a reader of the rest: an inventory without its content. Other snapshots stay as they are.
#[must_use]
pub fn without_inventory(snapshot: Snapshot) -> Snapshot {
    reduced(snapshot, |_| String::new())
}

fn reduced(snapshot: Snapshot, content: impl Fn(&Snapshot) -> String) -> Snapshot {
    if !is_inventory(&snapshot) {
        return snapshot;
    }
    Snapshot { source: INVENTORY_FIGURES.to_owned(), content: content(&snapshot), ..snapshot }
}

/// `None`: this build cannot read it.
fn figures(snapshot: &Snapshot) -> Option<Moment> {
    match snapshot.source.as_str() {
        INVENTORY => serde_json::from_str::<Inventory>(&snapshot.content).ok().as_ref().map(Moment::of),
        _ => serde_json::from_str(&snapshot.content).ok(),
    }
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
    let read = own.filter_map(|snapshot| {
        let figures = figures(snapshot).map(|figures| figures.at(snapshot.at_us));
        unreadable += u64::from(figures.is_none());
        figures
    });
    let over_time = side_by_side(read);
    ArmMemory { arm: arm.clone(), unreadable, over_time }
}
