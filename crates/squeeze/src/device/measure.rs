// SPDX-License-Identifier: Apache-2.0
//! The witness of a slow device: direct reads through it and past it, syncs, and the processor time that the kernel spends on it.
//! Nothing is written: the data is the user's, and so the write delay has no witness but the table that the kernel shows.

use super::timing::Timing;
use crate::Error;
use crate::probe::{self, tried};
use evidence::{LatencyHistogram, Measured, Quantity, Unit};
use host::change::mapping::set_table;
use host::mapper::{DelayTable, Mapping};
use host::permit::Permit;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const PROBE_TIME_US: u64 = 1_500_000;
const LEAST: u64 = 5;
const MOST: u64 = 1000;
const LOOKS: u32 = 3;
/// Of what is predicted; or a tick where that is more.
const TOLERANCE: f64 = 0.1;
/// As the kernel names the target's thread; a name has at most 15 characters.
const THREAD: &str = "dm-delay-flush-";
/// Processor times in `/proc` are in hundredths of a second on every architecture.
const CPU_TICK_US: f64 = 10_000.0;

/// Puts the table in force, and says what came of it.
///
/// # Errors
/// The kernel does not take the table; the device cannot be read.
pub(super) fn set_and_measure(
    permit: &Permit,
    mapping: &Mapping,
    below: &Path,
    table: &DelayTable,
    timing: &Timing,
) -> Result<Vec<Measured>, Error> {
    set_table(permit, mapping, table)?;
    in_force(mapping, table)?;
    let mut measured = Vec::new();
    if table.read_ms > 0 {
        let (reads, thread) = tried(LOOKS, || read(mapping, below, table, timing))?;
        measured.push(reads);
        measured.extend(thread);
    }
    if table.flush_ms > 0 && keeps_writes_back(mapping)? {
        measured.push(tried(LOOKS, || Ok((sync(mapping, below, table, timing)?, ())))?.0);
    }
    Ok(measured)
}

/// The kernel's own word for the table.
fn in_force(mapping: &Mapping, table: &DelayTable) -> Result<(), Error> {
    let shown = mapping.status()?.and_then(|status| status.table);
    if shown.as_ref() == Some(table) {
        return Ok(());
    }
    let got = shown.map_or_else(|| "none".into(), |it| it.to_string());
    let what = format!("the table of {}", mapping.name);
    Err(Error::OutOfTolerance { what, asked: table.to_string(), got, tolerance: "the same".into() })
}

fn how_many(effective_us: u64) -> u64 {
    (PROBE_TIME_US / effective_us.max(1)).clamp(LEAST, MOST)
}

fn read(
    mapping: &Mapping,
    below: &Path,
    table: &DelayTable,
    timing: &Timing,
) -> Result<(Measured, Option<Measured>), Error> {
    let effective_us = timing.effective_us(table, table.read_ms);
    let count = u32::try_from(how_many(effective_us)).unwrap_or(u32::MAX);
    let bare = probe::read(&probe::open(below)?, below, count)?;
    let path = mapping.path();
    let opened = probe::open(&path)?;
    let (cpu_before, start) = (thread_cpu_us(), Instant::now());
    let got = probe::read(&opened, &path, count)?;
    let cpu = (thread_cpu_us() - cpu_before) / start.elapsed().as_micros().max(1) as f64;
    let witness = format!(
        "{} direct reads of 4 KiB at depth 1 of {}, and as many past it ({:.0} us)",
        got.count(),
        path.display(),
        bare.median_us()
    );
    let reads = compare("disk.read.median", table.read_ms, effective_us, &bare, &got, timing, witness);
    let thread = timing.burns_a_core(table).then(|| Measured {
        at_us: 0,
        arm: None,
        what: "disk.delay_thread.cpu".into(),
        mechanism: timing.mechanism(),
        asked: None,
        predicted: Some(Quantity { value: 1.0, unit: Unit::Ratio }),
        got: Some(Quantity { value: cpu, unit: Unit::Ratio }),
        witness: format!("processor time of the kernel's {THREAD}* threads during these reads, of one processor"),
        within_tolerance: None,
        tolerance: None,
    });
    Ok((reads, thread))
}

/// A sync of a device without unwritten pages is one flush.
fn sync(mapping: &Mapping, below: &Path, table: &DelayTable, timing: &Timing) -> Result<Measured, Error> {
    let effective_us = timing.effective_us(table, table.flush_ms);
    let times = |path: &Path| -> Result<LatencyHistogram, Error> {
        let file = fs::File::open(path).map_err(Error::file("open", path))?;
        let mut histogram = LatencyHistogram::new();
        for _ in 0..how_many(effective_us) {
            let start = Instant::now();
            file.sync_data().map_err(Error::file("sync", path))?;
            histogram.record(nanoseconds(start.elapsed()));
        }
        Ok(histogram)
    };
    let (bare, got) = (times(below)?, times(&mapping.path())?);
    let witness = format!("{} fdatasync of the device, one after the other", got.count());
    Ok(compare("disk.sync.median", table.flush_ms, effective_us, &bare, &got, timing, witness))
}

/// A device without a cache is never asked to flush it: the kernel ends such a request at once.
fn keeps_writes_back(mapping: &Mapping) -> Result<bool, Error> {
    let Some(status) = mapping.status()? else { return Ok(false) };
    let path = format!("/sys/dev/block/{}/queue/write_cache", host::mapper::numbers(status.device));
    Ok(fs::read_to_string(path).is_ok_and(|text| text.trim() == "write back"))
}

#[allow(clippy::too_many_arguments)]
fn compare(
    what: &str,
    asked_ms: u32,
    effective_us: u64,
    bare: &LatencyHistogram,
    got: &LatencyHistogram,
    timing: &Timing,
    witness: String,
) -> Measured {
    let predicted = timing.in_all_us(effective_us, bare.median_us());
    let tolerance = (predicted * TOLERANCE).max(timing.tick_us as f64);
    Measured {
        at_us: 0,
        arm: None,
        what: what.to_owned(),
        mechanism: timing.mechanism(),
        asked: Some(Quantity::micros(f64::from(asked_ms) * 1000.0)),
        predicted: Some(Quantity::micros(predicted)),
        got: Some(Quantity::micros(got.median_us())),
        witness,
        within_tolerance: Some((got.median_us() - predicted).abs() <= tolerance),
        tolerance: Some(format!("10 % of predicted, at least a tick of {} us", timing.tick_us)),
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Of all the target's threads together: their devices are not told apart, and others rarely have any.
fn thread_cpu_us() -> f64 {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    stats.filter_map(|stat| cpu_ticks_of_thread(&stat)).map(|ticks| ticks as f64 * CPU_TICK_US).sum()
}

fn cpu_ticks_of_thread(stat: &str) -> Option<u64> {
    let (head, tail) = stat.rsplit_once(") ")?;
    head.split_once('(').filter(|(_, name)| name.starts_with(THREAD))?;
    let fields: Vec<&str> = tail.split(' ').collect();
    let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
    Some(ticks(11)? + ticks(12)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_thread_and_no_other() {
        let stat = |name| format!("7 ({name}) R 2 0 0 0 -1 2129984 0 0 0 0 10 380 0 0 20 0 1 0 4711 0 0");
        assert_eq!(cpu_ticks_of_thread(&stat("dm-delay-flush-")), Some(390));
        assert_eq!(cpu_ticks_of_thread(&stat("kdelayd/7:0")), None);
    }

    #[test]
    fn held_to_ticks_not_to_what_was_asked() {
        let histogram = |us: u64| {
            let mut histogram = LatencyHistogram::new();
            histogram.record_n(us * 1000, 20);
            histogram
        };
        let timing = Timing { version: [1, 4, 0], tick_us: 4000 };
        let within =
            |got| compare("x", 10, 12_000, &histogram(100), &histogram(got), &timing, String::new()).within_tolerance;
        assert_eq!([7_900, 12_100, 15_900].map(within), [Some(false), Some(true), Some(true)]);
        assert_eq!(within(17_000), Some(false));
    }

    #[test]
    fn a_probe_is_short_for_every_delay() {
        assert_eq!([4000, 200_000, 60_000_000].map(how_many), [375, 7, 5]);
    }
}
