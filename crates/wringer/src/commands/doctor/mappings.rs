// SPDX-License-Identifier: Apache-2.0
//! Mapped devices that nothing will resume or remove: suspended ones, and Wringer's own without a run.

use super::check::{Check, State};
use host::mapper::{Present, present};
use host::places::Places;
use run::Step;
use std::collections::BTreeSet;

const ID: &str = "mapped-devices";

/// Reports these devices, and removes none: a device of somebody else is not ours, and a device whose journal is lost may be in use.
pub fn check(places: &Places) -> Check {
    let runs = run::find_runs(places).unwrap_or_default();
    let steps = runs.iter().flat_map(|run| &run.steps).filter(|step| step.is_open());
    let known = steps.filter_map(|step| match &step.change {
        Step::Mapping { uuid, .. } => Some(uuid.clone()),
        _ => None,
    });
    judge(&present(), &known.collect())
}

fn judge(present: &[Present], known: &BTreeSet<String>) -> Check {
    let (mut found, mut remedies) = (Vec::new(), Vec::new());
    for mapping in present {
        let Present { name, uuid, suspended } = mapping;
        if *suspended {
            found.push(format!("{name} is suspended: who reads or writes it waits"));
            remedies.push(format!("if whoever suspended it is gone: dmsetup resume {name}"));
        }
        if uuid.starts_with("WRINGER-") && !known.contains(uuid) {
            found.push(format!("{name} is a slow device of no run in this home"));
            remedies.push(format!(
                "`wringer undo` with the WRINGER_HOME it was made with; if that is lost: dmsetup remove {name}"
            ));
        }
    }
    if found.is_empty() {
        let found = match present.len() {
            0 => "none".to_owned(),
            count => format!("{count}, none of them suspended or left behind"),
        };
        return Check { id: ID, state: State::Good, found, remedy: None };
    }
    Check { id: ID, state: State::Caution, found: found.join("; "), remedy: Some(remedies.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(name: &str, uuid: &str, suspended: bool) -> Present {
        Present { name: name.into(), uuid: uuid.into(), suspended }
    }

    #[test]
    fn what_is_suspended_or_left_behind_is_named() {
        let present =
            [mapping("vg-root", "LVM-x", false), mapping("theirs", "", true), mapping("slow", "WRINGER-1", false)];
        let check = judge(&present, &BTreeSet::new());
        assert_eq!(check.state, State::Caution);
        assert!(check.found.contains("theirs is suspended") && check.found.contains("slow is a slow device of no run"));
        assert!(!check.found.contains("vg-root"), "{}", check.found);
        let known = BTreeSet::from(["WRINGER-1".to_owned()]);
        assert!(!judge(&present, &known).found.contains("of no run"));
        assert_eq!(judge(&present[..1], &known).state, State::Good);
    }
}
