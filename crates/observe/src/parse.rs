// SPDX-License-Identifier: Apache-2.0
//! The kernel's text formats. Each function takes the file's text and passes each value to `each`; it leaves out lines that it does not understand.

use crate::Kind;

/// Bytes in a sector of diskstats and of a device's `stat`, whatever the size of the device's own sectors (kernel, admin-guide/iostats.rst).
pub(crate) const SECTOR_BYTES: f64 = 512.0;

/// `/proc/meminfo`, and `status` and `smaps_rollup` of a process: `Name:   123 kB`, or a bare count. Lines without a number are left
/// out.
pub fn key_values(text: &str, mut each: impl FnMut(&str, Kind, f64)) {
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(':') else { continue };
        let mut words = rest.split_ascii_whitespace();
        let Some(value) = words.next().and_then(|word| word.parse::<f64>().ok()) else { continue };
        match words.next() {
            Some("kB") => each(name, Kind::BytesNow, value * 1024.0),
            None => each(name, Kind::CountNow, value),
            Some(_) => {}
        }
    }
}

/// `/proc/vmstat`. `nr_*` are gauges, except the few that count since boot (kernel, mm/vmstat.c).
pub fn vmstat(text: &str, mut each: impl FnMut(&str, Kind, f64)) {
    const COUNTING: [&str; 5] =
        ["nr_dirtied", "nr_written", "nr_vmscan_write", "nr_vmscan_immediate_reclaim", "nr_throttled_written"];
    for line in text.lines() {
        let Some((name, value)) = line.split_once(' ') else { continue };
        let Ok(value) = value.trim().parse::<f64>() else { continue };
        let gauge = name.starts_with("nr_") && !COUNTING.contains(&name);
        each(name, if gauge { Kind::CountNow } else { Kind::CountTotal }, value);
    }
}

/// `/proc/pressure/*` (kernel, accounting/psi.rst): `some.avg10`, `full.total`, ...
pub fn pressure(text: &str, mut each: impl FnMut(&str, Kind, f64)) {
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(who) = words.next() else { continue };
        for word in words {
            let Some((key, value)) = word.split_once('=') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            let kind = if key == "total" { Kind::MicrosTotal } else { Kind::PercentNow };
            each(&format!("{who}.{key}"), kind, value);
        }
    }
}

/// One device a line of `/proc/diskstats` (kernel, admin-guide/iostats.rst); `each(device, name, kind, value)`. Devices that
/// never did anything are left out.
pub fn diskstats(text: &str, mut each: impl FnMut(&str, &str, Kind, f64)) {
    const FIELDS: [(&str, Kind, f64); 17] = [
        ("reads", Kind::CountTotal, 1.0),
        ("reads_merged", Kind::CountTotal, 1.0),
        ("read_bytes", Kind::BytesTotal, SECTOR_BYTES),
        ("read_time", Kind::MicrosTotal, 1000.0),
        ("writes", Kind::CountTotal, 1.0),
        ("writes_merged", Kind::CountTotal, 1.0),
        ("write_bytes", Kind::BytesTotal, SECTOR_BYTES),
        ("write_time", Kind::MicrosTotal, 1000.0),
        ("in_flight", Kind::CountNow, 1.0),
        ("io_time", Kind::MicrosTotal, 1000.0),
        ("weighted_io_time", Kind::MicrosTotal, 1000.0),
        ("discards", Kind::CountTotal, 1.0),
        ("discards_merged", Kind::CountTotal, 1.0),
        ("discard_bytes", Kind::BytesTotal, SECTOR_BYTES),
        ("discard_time", Kind::MicrosTotal, 1000.0),
        ("flushes", Kind::CountTotal, 1.0),
        ("flush_time", Kind::MicrosTotal, 1000.0),
    ];
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace().skip(2);
        let Some(device) = words.next() else { continue };
        let values: Vec<f64> = words.map_while(|word| word.parse().ok()).collect();
        if values.iter().all(|value| *value == 0.0) {
            continue;
        }
        for ((name, kind, factor), value) in FIELDS.iter().zip(values) {
            each(device, name, *kind, value * factor);
        }
    }
}

/// `/proc/stat`: the host's CPU time by purpose, and the scheduler's counts. `tick_us`: microseconds in a tick of USER_HZ.
pub fn stat(text: &str, tick_us: f64, mut each: impl FnMut(&str, Kind, f64)) {
    const CPU: [&str; 10] =
        ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"];
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let name = words.next().unwrap_or_default();
        let mut numbers = words.map_while(|word| word.parse::<f64>().ok());
        match name {
            "cpu" => CPU.iter().zip(numbers).for_each(|(name, ticks)| each(name, Kind::MicrosTotal, ticks * tick_us)),
            "ctxt" | "processes" => numbers.take(1).for_each(|value| each(name, Kind::CountTotal, value)),
            "procs_running" | "procs_blocked" => {
                if let Some(value) = numbers.next() {
                    each(name, Kind::CountNow, value);
                }
            }
            _ => {}
        }
    }
}

/// `/proc/loadavg`: `1.05 0.70 0.30 2/300 4711`.
pub fn loadavg(text: &str, mut each: impl FnMut(&str, Kind, f64)) {
    let words = text.split_ascii_whitespace().map_while(|word| word.parse::<f64>().ok());
    ["load1", "load5", "load15"].iter().zip(words).for_each(|(name, value)| each(name, Kind::CountNow, value));
}

/// `/proc/PID/stat` (proc_pid_stat(5)). The program's name may contain blanks and brackets: fields are counted after the last `)`.
pub fn process_stat(text: &str, tick_us: f64, page_bytes: f64, mut each: impl FnMut(&str, Kind, f64)) {
    let Some((_, rest)) = text.rsplit_once(") ") else { return };
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // field 3 of the manual page is the first field after the name
    const FIELDS: [(usize, &str, Kind, Scale); 12] = [
        (10, "minflt", Kind::CountTotal, Scale::One),
        (11, "cminflt", Kind::CountTotal, Scale::One),
        (12, "majflt", Kind::CountTotal, Scale::One),
        (13, "cmajflt", Kind::CountTotal, Scale::One),
        (14, "utime", Kind::MicrosTotal, Scale::Tick),
        (15, "stime", Kind::MicrosTotal, Scale::Tick),
        (16, "cutime", Kind::MicrosTotal, Scale::Tick),
        (17, "cstime", Kind::MicrosTotal, Scale::Tick),
        (20, "num_threads", Kind::CountNow, Scale::One),
        (23, "vsize", Kind::BytesNow, Scale::One),
        (24, "rss", Kind::BytesNow, Scale::Page),
        (42, "delayacct_blkio", Kind::MicrosTotal, Scale::Tick),
    ];
    for (number, name, kind, scale) in FIELDS {
        let Some(value) = fields.get(number - 3).and_then(|word| word.parse::<f64>().ok()) else { continue };
        let factor = match scale {
            Scale::One => 1.0,
            Scale::Tick => tick_us,
            Scale::Page => page_bytes,
        };
        each(name, kind, value * factor);
    }
}

#[derive(Clone, Copy)]
enum Scale {
    One,
    Tick,
    Page,
}

/// `/proc/PID/io` (proc_pid_io(5)).
pub fn process_io(text: &str, mut each: impl FnMut(&str, Kind, f64)) {
    key_values(text, |name, _, value| {
        let kind = if name.starts_with("sysc") { Kind::CountTotal } else { Kind::BytesTotal };
        each(name, kind, value);
    });
}

/// The lines of `/proc/PID/status` about memory and context switches.
pub fn process_status(text: &str, mut each: impl FnMut(&str, Kind, f64)) {
    key_values(text, |name, kind, value| {
        if name.ends_with("ctxt_switches") {
            each(name, Kind::CountTotal, value);
        } else if kind == Kind::BytesNow {
            each(name, kind, value);
        }
    });
}

/// `/proc/PID/statm`: numbers of pages.
pub fn process_statm(text: &str, page_bytes: f64, mut each: impl FnMut(&str, Kind, f64)) {
    let words = text.split_ascii_whitespace().map_while(|word| word.parse::<f64>().ok());
    ["size", "resident", "shared"]
        .iter()
        .zip(words)
        .for_each(|(name, pages)| each(name, Kind::BytesNow, pages * page_bytes));
}
