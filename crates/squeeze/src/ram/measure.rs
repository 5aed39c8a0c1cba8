// SPDX-License-Identifier: Apache-2.0
//! Compares asked and hidden RAM, by witnesses that share no code with the change.

use crate::looks::{LOOKS, spread};
use crate::ram::balloon::resident_bytes;
use crate::ram::plan::Plan;
use crate::{Error, Meminfo};
use evidence::{Looks, Measured, Quantity, RamAmount, RamMechanism};
use std::time::Duration;
use units::Bytes;

const AVAILABLE: &str = "ram.available";

/// The pause between two looks: other programs allocate and free memory all the time.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// The median look at `/proc/meminfo` by `MemAvailable`, and the spread of the falls of `MemAvailable`.
pub(super) fn looked(before: &Meminfo) -> Result<(Meminfo, Looks), Error> {
    let mut looks = vec![Meminfo::now()?];
    while looks.len() < LOOKS as usize {
        std::thread::sleep(BETWEEN_LOOKS);
        looks.push(Meminfo::now()?);
    }
    looks.sort_by_key(|look| look.available_bytes);
    let falls: Vec<f64> =
        looks.iter().map(|look| before.available_bytes.saturating_sub(look.available_bytes) as f64).collect();
    Ok((looks[looks.len() / 2], spread(&falls, u64::from(LOOKS))))
}

/// The hidden RAM, from the traces of the mechanism itself.
pub(super) fn hidden(plan: &Plan, before: &Meminfo, after: &Meminfo, pid: Option<u32>) -> Measured {
    let (got, witness) = match plan.mechanism {
        RamMechanism::Holder => {
            // `Hugetlb` is the sum over all huge pages; the holder asked for reservations: both must have grown.
            let reserved = after.huge_reserved_pages.saturating_sub(before.huge_reserved_pages);
            let witness = "growth of Hugetlb and of HugePages_Rsvd in /proc/meminfo";
            (by_total(before, after).min(reserved * plan.unit_bytes), witness)
        }
        RamMechanism::Pool => {
            // Free pages only: a page that a program has taken meanwhile is not hidden.
            let grown = after.huge_free_pages.saturating_sub(before.huge_free_pages) * plan.unit_bytes;
            (by_total(before, after).min(grown), "growth of Hugetlb and of HugePages_Free in /proc/meminfo")
        }
        RamMechanism::Offline => (before.total_bytes.saturating_sub(after.total_bytes), "fall of MemTotal"),
        RamMechanism::Balloon => (pid.map_or(0, resident_bytes), "Rss of its file in the balloon's /proc/PID/smaps"),
    };
    let piece = plan.unit_bytes;
    let measured = figure("ram.hidden", plan, got, witness);
    Measured {
        within_tolerance: Some(got.abs_diff(plan.hide_bytes) <= piece),
        tolerance: Some(format!("{} of asked", Bytes(piece))),
        came_on: Some(got as f64 / plan.hide_bytes.max(1) as f64),
        ..measured
    }
}

fn by_total(before: &Meminfo, after: &Meminfo) -> u64 {
    after.hugetlb_bytes.saturating_sub(before.hugetlb_bytes)
}

pub(super) fn available(plan: &Plan, before: &Meminfo, after: &Meminfo, looks: Looks) -> Measured {
    let got = before.available_bytes.saturating_sub(after.available_bytes);
    let tolerance = available_tolerance(plan.hide_bytes);
    Measured {
        within_tolerance: Some(got.abs_diff(plan.hide_bytes) <= tolerance),
        tolerance: Some(format!("{} of asked: other programs take and give, too", Bytes(tolerance))),
        looks: Some(looks),
        ..figure(AVAILABLE, plan, got, "fall of MemAvailable, the middle one of the looks")
    }
}

/// 5 %, and the amount that a compiler allocates and frees within a second.
fn available_tolerance(asked_bytes: u64) -> u64 {
    asked_bytes / 20 + 512 * Bytes::MIB
}

pub(super) fn nothing_to_hide(plan: &Plan, before: &Meminfo) -> Measured {
    let asked = match plan.options.amount {
        RamAmount::Hide(bytes) | RamAmount::Leave(bytes) => bytes.0,
    };
    Measured {
        mechanism: "none: the host is as small as asked".into(),
        asked: Some(Quantity::bytes(asked)),
        ..figure("ram.left", plan, before.available_bytes, "MemAvailable")
    }
}

fn figure(what: &str, plan: &Plan, got_bytes: u64, witness: &str) -> Measured {
    Measured {
        at_us: 0,
        arm: None,
        what: what.into(),
        mechanism: plan.mechanism.in_results().into(),
        asked: Some(Quantity::bytes(plan.hide_bytes)),
        predicted: None,
        got: Some(Quantity::bytes(got_bytes)),
        witness: witness.into(),
        within_tolerance: None,
        tolerance: None,
        looks: None,
        came_on: None,
    }
}

/// How much less was hidden than asked, for people. `None`: all of it, up to one huge page.
pub fn shortage(measured: &[Measured]) -> Option<String> {
    let hidden = measured.iter().find(|it| it.what == "ram.hidden" && it.is_outside())?;
    let (asked, got) = (Bytes(bytes(hidden.asked)), Bytes(bytes(hidden.got)));
    Some(format!("{got} are hidden where {asked} were asked for"))
}

/// By how much the fall of the host's available memory differs from the hidden RAM, for people. Wringer did not cause the
/// difference, so it is reported and not refused.
pub fn remainder(measured: &[Measured]) -> Option<String> {
    let outside = measured.iter().find(|it| it.what == AVAILABLE && it.within_tolerance == Some(false))?;
    let (asked, got) = (bytes(outside.asked), bytes(outside.got));
    let difference = Bytes(asked.abs_diff(got));
    Some(if got < asked {
        format!(
            "available memory fell by {difference} less than was hidden: other programs gave so much back meanwhile"
        )
    } else {
        format!("available memory fell by {difference} more than was hidden: other programs took so much meanwhile")
    })
}

// Far below 2^53.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn bytes(quantity: Option<Quantity>) -> u64 {
    quantity.map_or(0, |it| it.value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn available_fell_by(got: u64) -> Measured {
        Measured {
            at_us: 0,
            arm: None,
            what: AVAILABLE.into(),
            mechanism: "holder".into(),
            asked: Some(Quantity::bytes(12 << 30)),
            predicted: None,
            got: Some(Quantity::bytes(got)),
            witness: String::new(),
            within_tolerance: Some(got.abs_diff(12 << 30) <= available_tolerance(12 << 30)),
            tolerance: None,
            looks: None,
            came_on: None,
        }
    }

    #[test]
    fn what_others_took_or_gave_is_told() {
        assert_eq!(remainder(&[available_fell_by((12 << 30) - (1 << 30))]), None);
        let less = remainder(&[available_fell_by(10 << 30)]).unwrap();
        assert!(less.contains("2 GiB less"), "{less}");
        let more = remainder(&[available_fell_by(14 << 30)]).unwrap();
        assert!(more.contains("2 GiB more"), "{more}");
    }
}
