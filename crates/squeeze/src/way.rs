// SPDX-License-Identifier: Apache-2.0
//! The result row about the kernel's way: the time that a FUSE layer subtracts from each delay.

use crate::Error;
use evidence::{Looks, Measured, Quantity};
use slowfs::control::Client;
use slowfs::way::{Looked, Way};

pub const WAY: &str = "disk.way.median";

/// The row's figure is for waits of up to this length, 3 ms, as those of a disk are; the witness names the figures of all lengths.
const TOLD_UP_TO_NS: u64 = 3_000_000;

/// `None`: this layer has no way to subtract.
///
/// # Errors
/// The layer is gone.
pub(crate) fn measured(client: &mut Client, mechanism: &str) -> Result<Option<Measured>, Error> {
    Ok(client.stats()?.way.map(|way| row(&way, mechanism)))
}

fn row(way: &Way, mechanism: &str) -> Measured {
    let told = way.lengths.iter().find(|looked| looked.up_to_ns == Some(TOLD_UP_TO_NS));
    Measured {
        at_us: 0,
        arm: None,
        what: WAY.into(),
        mechanism: mechanism.into(),
        asked: None,
        predicted: None,
        got: told.map(|looked| Quantity::micros(us(looked.taken_off_ns()))),
        witness: way.why_not.as_ref().map_or_else(|| in_words(way), |why| {
            format!("the kernel's way to the layer and back could not be measured ({why}): nothing is taken off for it, and each delay is longer by it")
        }),
        within_tolerance: None,
        tolerance: None,
        looks: told.map(|looked| Looks {
            number: looked.looks,
            readings: looked.looks.into(),
            lowest: us(looked.lowest_ns),
            highest: us(looked.highest_ns),
        }),
        came_on: None,
    }
}

fn in_words(way: &Way) -> String {
    let one = |looked: &Looked| {
        let waits = looked.up_to_ns.map_or_else(|| "longer".to_owned(), |ns| format!("up to {} ms", ns as f64 / 1e6));
        let [off, lowest, highest] = [looked.taken_off_ns(), looked.lowest_ns, looked.highest_ns].map(us);
        format!("{waits}: {off:.0} us ({} looks, {lowest:.0} to {highest:.0})", looked.looks)
    };
    let all: Vec<String> = way.lengths.iter().map(one).collect();
    format!(
        "the kernel's way to the layer and back, measured at the mount with reads that the layer alone answers, and taken off each delay; delays {}",
        all.join(", ")
    )
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_off_is_told_with_its_looks_and_what_is_not_with_the_reason() {
        let looked = |up_to_ns, median_ns| Looked {
            up_to_ns,
            held_ns: 1,
            looks: 21,
            lowest_ns: median_ns - 2_000,
            median_ns,
            highest_ns: median_ns + 40_000,
        };
        let lengths = vec![looked(Some(100_000), 11_000), looked(Some(TOLD_UP_TO_NS), 17_000), looked(None, 60_000)];
        let row = row(&Way { lengths, why_not: None }, "fuse layer");
        assert_eq!(row.got, Some(Quantity::micros(17.0)));
        assert_eq!(row.looks.map(|looks| (looks.number, looks.lowest, looks.highest)), Some((21, 15.0, 57.0)));
        let each =
            "delays up to 0.1 ms: 11 us (21 looks, 9 to 51), up to 3 ms: 17 us (21 looks, 15 to 57), longer: 60 us";
        assert!(row.witness.contains(each), "{}", row.witness);

        let none = super::row(&Way { lengths: Vec::new(), why_not: Some("no process".into()) }, "fuse layer");
        assert!(none.got.is_none() && none.witness.contains("(no process): nothing is taken off"), "{}", none.witness);
    }
}
