// SPDX-License-Identifier: Apache-2.0
//! `squeeze.got`: a squeeze that is not what was asked for.

use super::{doubt, time};
use evidence::{Evidence, Finding, Measured, Quantity, Unit};
use serde_json::json;
use units::Bytes;

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    evidence.measured.iter().filter(|measured| measured.within_tolerance == Some(false)).map(finding).collect()
}

fn finding(measured: &Measured) -> Finding {
    let wanted = measured.predicted.or(measured.asked);
    let got = measured.got.map_or_else(|| "nothing that could be measured".to_owned(), written);
    let asked = wanted.map_or_else(|| "something else".to_owned(), written);
    let tolerance = measured.tolerance.as_ref().map_or_else(String::new, |text| format!(" (tolerance {text})"));
    Finding {
        id: "squeeze.got".into(),
        arm: measured.arm.clone(),
        statement: format!("{} by {}: wanted {asked}, got {got}{tolerance}.", measured.what, measured.mechanism),
        evidence: json!({
            "what": measured.what, "mechanism": measured.mechanism, "asked": measured.asked, "predicted": measured.predicted,
            "got": measured.got, "witness": measured.witness, "tolerance": measured.tolerance,
        }),
        doubts: vec![doubt(
            "squeeze.witness",
            format!("measured once, by {}", measured.witness),
            Some("a busy host disturbs the measurement: run again when it is idle"),
        )],
    }
}

fn written(quantity: Quantity) -> String {
    match quantity.unit {
        #[allow(clippy::cast_possible_truncation)] // sizes are whole and positive
        Unit::Bytes => Bytes(quantity.value as u64).to_string(),
        Unit::Microseconds => time(quantity.value),
        Unit::Count => format!("{:.0}", quantity.value),
        Unit::PerSecond => format!("{:.0}/s", quantity.value),
        Unit::Ratio => super::percent(quantity.value),
    }
}
