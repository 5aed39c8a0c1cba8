// SPDX-License-Identifier: Apache-2.0
//! `squeeze.got`: a squeeze that is not as it was asked for. `squeeze.foreign_cache`: other cgroups pay for pages that a limited server reads.

use super::figures::{SqueezeForeignCache, SqueezeGot};
use super::{Finding, FindingEvidence, doubt, time};
use evidence::{Evidence, Measured, Quantity, Unit};
use units::Bytes;

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let outside = evidence.measured.iter().filter(|measured| measured.within_tolerance == Some(false));
    outside.map(|it| if it.what == FOREIGN_CACHE { foreign_cache(it) } else { finding(it) }).collect()
}

const FOREIGN_CACHE: &str = "server.ram.cached_by_others";

fn foreign_cache(measured: &Measured) -> Finding {
    let bytes = measured.got.map_or(0.0, |got| got.value);
    let got = measured.got.map_or_else(|| "Some".to_owned(), written);
    Finding {
        arm: measured.arm.clone(),
        statement: format!(
            "{got} of the server's files are in the page cache of others: reads of them are free of its memory limit."
        ),
        evidence: FindingEvidence::SqueezeForeignCache(SqueezeForeignCache {
            cached_by_others_bytes: bytes,
            mechanism: measured.mechanism.clone(),
            witness: measured.witness.clone(),
            tolerance: measured.tolerance.clone(),
        }),
        doubts: vec![doubt(
            "squeeze.foreign_cache",
            "fewer reads reached the disk than the limit alone would have let through",
            Some(
                "stop what else reads the server's files (a backup, a second server, an indexer), and run again; or a slow layer \
                 (squeeze.disk), below which no page cache of others is read",
            ),
        )],
    }
}

fn finding(measured: &Measured) -> Finding {
    let wanted = measured.predicted.or(measured.asked);
    let got = measured.got.map_or_else(|| "nothing that could be measured".to_owned(), written);
    let asked = wanted.map_or_else(|| "something else".to_owned(), written);
    let tolerance = measured.tolerance.as_ref().map_or_else(String::new, |text| format!(" (allowed: {text})"));
    let arm = measured.arm.as_ref().map_or_else(String::new, |arm| format!(" in \"{arm}\""));
    Finding {
        arm: measured.arm.clone(),
        statement: format!("{}{arm} came to {got}, where {asked} was expected{tolerance}.", measured.subject()),
        evidence: FindingEvidence::SqueezeGot(SqueezeGot {
            what: measured.what.clone(),
            mechanism: measured.mechanism.clone(),
            asked: measured.asked,
            predicted: measured.predicted,
            got: measured.got,
            witness: measured.witness.clone(),
            tolerance: measured.tolerance.clone(),
            looks: measured.looks,
            came_on: measured.came_on,
        }),
        doubts: vec![doubt(
            "squeeze.witness",
            format!("measured by {}{}", measured.witness, looks(measured)),
            Some("a busy host disturbs the measurement: run again when it is idle"),
        )],
    }
}

/// The range of the looks of a witness, in words; empty when there was one look.
fn looks(measured: &Measured) -> String {
    let (Some(looks), Some(got)) = (measured.looks.filter(|looks| looks.number > 1), measured.got) else {
        return String::new();
    };
    let at = |value: f64| written(Quantity { value, ..got });
    format!("; its {} looks lay between {} and {}", looks.number, at(looks.lowest), at(looks.highest))
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
