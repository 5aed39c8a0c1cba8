// SPDX-License-Identifier: Apache-2.0
//! The witness of a slow device: direct reads through it and past it, syncs, and the processor time that the kernel spends on it.
//! Nothing is written, because the data is the user's: so the only witness of the write delay is the kernel's table.

use super::timing::Timing;
use crate::looks::{LOOKS, Looked, Pace, timed};
use crate::probe::{self, Task};
use crate::{Error, accept};
use evidence::{LatencyHistogram, Measured, Quantity, Unit};
use host::change::mapping::set_table;
use host::mapper::{DelayTable, Mapping};
use host::permit::Permit;
use std::fs;
use std::path::Path;

/// The tolerance is this part of the prediction, or one tick if one tick is more.
const TOLERANCE: f64 = 0.1;
/// The kernel's name of the target's thread; a name has at most 15 characters.
const THREAD: &str = "dm-delay-flush-";
/// Processor times in `/proc` are in hundredths of a second on every architecture.
const CPU_TICK_US: f64 = 10_000.0;

/// Puts the table in force, and measures it.
///
/// # Errors
/// The kernel refuses the table; the device cannot be read. [`Error::OutOfTolerance`]: the result is missed
/// (`Measured::is_missed`); with `strict`, anything out of tolerance.
pub(super) fn set_and_measure(
    permit: &Permit,
    mapping: &Mapping,
    below: &Path,
    table: &DelayTable,
    timing: &Timing,
    strict: bool,
) -> Result<Vec<Measured>, Error> {
    set_table(permit, mapping, table)?;
    in_force(mapping, table)?;
    let mut measured = Vec::new();
    if table.read_ms > 0 {
        let (reads, thread) = read(mapping, below, table, timing)?;
        measured.push(reads);
        measured.extend(thread);
    }
    if table.flush_ms > 0 && keeps_writes_back(mapping)? {
        measured.push(sync(mapping, below, table, timing)?);
    }
    accept(measured, strict)
}

/// The table, read back from the kernel.
fn in_force(mapping: &Mapping, table: &DelayTable) -> Result<(), Error> {
    let shown = mapping.status()?.and_then(|status| status.table);
    if shown.as_ref() == Some(table) {
        return Ok(());
    }
    let got = shown.map_or_else(|| "none".into(), |it| it.to_string());
    let what = format!("the table of {}", mapping.name);
    Err(Error::OutOfTolerance { what, asked: table.to_string(), got, tolerance: "the same".into() })
}

fn read(
    mapping: &Mapping,
    below: &Path,
    table: &DelayTable,
    timing: &Timing,
) -> Result<(Measured, Option<Measured>), Error> {
    let effective_us = timing.effective_us(table, table.read_ms);
    let (pace, path, bare_file) = (Pace::of(effective_us as f64), mapping.path(), probe::open(below)?);
    let opened = probe::open(&path)?;
    let (mut bare, mut got) = (Looked::default(), Looked::default());
    let (mut cpu_us, mut elapsed_us) = (0.0, 0);
    for look in 0..LOOKS {
        bare.add(&probe::read(&bare_file, below, pace.bare())?.histogram);
        let cpu_before = thread_cpu_us();
        let reads = probe::read(&opened, &path, pace.look(look))?;
        cpu_us += thread_cpu_us() - cpu_before;
        elapsed_us += reads.elapsed_us;
        got.add(&reads.histogram);
    }
    let cpu = cpu_us / elapsed_us.max(1) as f64;
    let witness = format!(
        "{} direct reads of 4 KiB at depth 1 of {} in {LOOKS} looks, in turns with {} past it ({:.0} us)",
        got.all.count(),
        path.display(),
        bare.all.count(),
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
        looks: None,
        came_on: None,
    });
    Ok((reads, thread))
}

/// A sync of a device without dirty pages is one flush.
fn sync(mapping: &Mapping, below: &Path, table: &DelayTable, timing: &Timing) -> Result<Measured, Error> {
    let effective_us = timing.effective_us(table, table.flush_ms);
    let times = |path: &Path, task: Task| -> Result<LatencyHistogram, Error> {
        let file = fs::File::open(path).map_err(Error::file("open", path))?;
        timed(task, || file.sync_data().map_err(Error::file("sync", path)))
    };
    let (pace, path) = (Pace::of(effective_us as f64), mapping.path());
    let (mut bare, mut got) = (Looked::default(), Looked::default());
    for look in 0..LOOKS {
        bare.add(&times(below, pace.bare())?);
        got.add(&times(&path, pace.look(look))?);
    }
    let witness = format!("{} fdatasync of the device in {LOOKS} looks, one after the other", got.all.count());
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
    bare: &Looked,
    got: &Looked,
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
        tolerance: Some(format!("10 % more or less, at least a tick of {} us", timing.tick_us)),
        looks: Some(got.looks()),
        // The device's own time does not add to the ticks.
        came_on: (predicted > 0.0).then(|| got.median_us() / predicted),
    }
}

/// The processor time of all threads of the target together. The kernel does not tell the device of a thread, but another device with this target is
/// rare.
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
        let looked = |us: u64| {
            let (mut look, mut looked) = (LatencyHistogram::new(), Looked::default());
            look.record_n(us * 1000, 20);
            looked.add(&look);
            looked
        };
        let timing = Timing { version: [1, 4, 0], tick_us: 4000 };
        let within =
            |got| compare("x", 10, 12_000, &looked(100), &looked(got), &timing, String::new()).within_tolerance;
        assert_eq!([7_900, 12_100, 15_900].map(within), [Some(false), Some(true), Some(true)]);
        assert_eq!(within(17_000), Some(false));
    }
}
