// SPDX-License-Identifier: Apache-2.0
//! Reads of a data file before an arm's load: the cost of a read and of a scan on this host, cold and warm, past the page cache and through it.
//! The run itself reads, below a slow layer and outside of the server's limits: so the figures are those of the host's disk and page cache.

use crate::cell::Phase;
use crate::error::Error;
use crate::lab::Lab;
use evidence::{Measured, Quantity, Unit};
use probe::evict::evict;
use probe::random::{self, Operation};
use probe::scan::{self, Scan};
use probe::target::Target;
use squeeze::directory::largest_file;
use std::time::Duration;

/// The size of one read: the same as ioping's, and a page of the host.
const BLOCK_BYTES: usize = 4096;
/// The size of one read of a scan: the same as that of `cat` of coreutils.
const SCAN_BLOCK_BYTES: usize = 128 << 10;
/// Logs are left out: they are written while they are read, and queries do not read them.
const LOGS: [&str; 4] = ["ib_logfile", "ib_buffer_pool", "pg_wal", "#innodb_redo"];

/// One series of random reads: its name in the result, and the seed of its offsets.
struct Series {
    what: &'static str,
    mechanism: &'static str,
    seed: u64,
}

impl Lab<'_> {
    /// Reads the file, where the arm asks for it. Its pages are not in the page cache when this returns.
    pub(crate) fn probe(&mut self, phase: &Phase) -> Result<(), Error> {
        let (Some(reads), Some(sandbox)) = (phase.load.probe, &self.sandbox) else { return Ok(()) };
        let is_data = |name: &str| !LOGS.iter().any(|log| name.starts_with(log));
        let block_bytes = BLOCK_BYTES as u64;
        let Some((file, _)) = largest_file(&sandbox.data(), &is_data).filter(|(_, bytes)| *bytes >= block_bytes) else {
            return self.notes.event("load", format!("{}: there is no data file to probe", phase.name));
        };
        self.notes.progress.step("load", &format!("{}: reading {}", phase.name, file.display()));
        let began = self.notes.clock.now_us();
        let cached = Target::open(&file)?;
        let direct = Target::open(&file)?;
        direct.go_direct()?;
        let (size, seed) = (cached.size_bytes, phase.load.seed);
        // reads past the page cache leave nothing in it for the next series
        evict(&cached.file, &file)?;
        let past = "direct reads (O_DIRECT)";
        let through = "reads through the page cache";
        self.series(phase, &direct, reads, &Series { what: "probe.read.direct.cold", mechanism: past, seed })?;
        self.series(phase, &cached, reads, &Series { what: "probe.read.cached.cold", mechanism: through, seed })?;
        let options = scan::Options { rounds: 2, block_bytes: SCAN_BLOCK_BYTES, evict: true };
        let scanned = scan::scan(&cached.file, &file, &options, &mut |_| {})?;
        self.check_stop()?;
        self.scans(phase, size, &scanned)?;
        // other blocks than the cold series read
        let seed = seed.wrapping_add(1);
        self.series(phase, &cached, reads, &Series { what: "probe.read.cached.warm", mechanism: through, seed })?;
        self.series(phase, &direct, reads, &Series { what: "probe.read.direct.warm", mechanism: past, seed })?;
        evict(&cached.file, &file)?;
        let told = [("reads", reads.to_string()), ("bytes", size.to_string())];
        self.span("load.probe", &phase.name, began, &told)
    }

    /// Records the median of one series, and how many reads it had.
    fn series(&self, phase: &Phase, target: &Target, reads: u64, series: &Series) -> Result<(), Error> {
        self.check_stop()?;
        let options = random::Options {
            operation: Operation::Read,
            block_bytes: BLOCK_BYTES,
            threads: 1,
            count: Some(reads),
            time: None,
            working_set_bytes: None,
            interval: Duration::ZERO,
            seed: series.seed,
        };
        let measured = random::measure(target, &options)?;
        let (count, elapsed) = (measured.histogram.count(), measured.elapsed.as_secs_f64());
        let mean = measured.histogram.mean_ns() / 1e3;
        let median = measured.histogram.percentile_ns(50.0) as f64 / 1e3;
        let witness =
            format!("the clock around each of {count} reads of 4 KiB: mean {mean:.1} us, median {median:.1} us");
        self.of_probe(
            phase,
            Measured { got: Some(Quantity::micros(mean)), ..Measured::of(series.what, series.mechanism, &witness) },
        )?;
        let rate = Quantity { value: count as f64 / elapsed.max(1e-9), unit: Unit::PerSecond };
        let what = format!("{}.rate", series.what);
        self.of_probe(phase, Measured { got: Some(rate), ..Measured::of(what, series.mechanism, &witness) })?;
        let counted = Measured {
            asked: Some(Quantity::count(reads as f64)),
            got: Some(Quantity::count(count as f64)),
            within_tolerance: Some(count == reads),
            tolerance: Some("exactly".into()),
            ..Measured::of(format!("{}.reads", series.what), series.mechanism, &witness)
        };
        self.of_probe(phase, counted)
    }

    /// The first round is the cold one.
    fn scans(&self, phase: &Phase, size: u64, scanned: &Scan) -> Result<(), Error> {
        if let Some(why) = &scanned.not_evicted {
            self.notes.event("load", format!("{}: the probe's scan was not cold: {why}", phase.name))?;
        }
        let names = [("probe.scan.cold", "probe.scan.cold.cached"), ("probe.scan.warm", "probe.scan.warm.cached")];
        for (round, (what, cached)) in scanned.rounds.iter().zip(names) {
            let witness = format!("{} bytes of the file's {size} in {:.3} s", round.bytes, round.seconds);
            let mechanism = "reads of the whole file in order, 128 KiB at once, through the page cache";
            let rate = Quantity { value: round.bytes_per_second, unit: Unit::PerSecond };
            self.of_probe(phase, Measured { got: Some(rate), ..Measured::of(what, mechanism, &witness) })?;
            let share = Quantity { value: round.cached_before, unit: Unit::Ratio };
            let witness =
                "the kernel's word on which of the file's pages are cached (cachestat or mincore), before the scan";
            self.of_probe(phase, Measured { got: Some(share), ..Measured::of(cached, mechanism, witness) })?;
        }
        Ok(())
    }

    fn of_probe(&self, phase: &Phase, measured: Measured) -> Result<(), Error> {
        let (at_us, arm) = (self.notes.clock.now_us(), Some(phase.name.clone()));
        self.notes.measured(&Measured { at_us, arm, ..measured })
    }
}
