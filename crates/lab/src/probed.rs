// SPDX-License-Identifier: Apache-2.0
//! Reads of a data file before an arm's load: the cost of a read and of a scan on this host, cold and warm, past the page cache and through it.
//! The run itself reads, below a slow layer: so the figures are those of the host's disk and page cache. Where the server's RAM is limited, the process that
//! reads is limited with it.

use crate::cell::Phase;
use crate::error::Error;
use crate::lab::Lab;
use evidence::{Measured, Quantity, Unit};
use host::process::ChildSpec;
use probe::reads::{self, Order, ReadResults, Series};
use run::Role;
use squeeze::directory::largest_file;
use squeeze::limits::Limits;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A smaller file has no block to read.
const BLOCK_BYTES: u64 = 4096;
/// A file of 100 GiB is read twice in this time from a disk of 60 MiB/s.
const LONGEST: Duration = Duration::from_secs(3600);
/// Logs are left out: they are written while they are read, and queries do not read them.
const LOGS: [&str; 4] = ["ib_logfile", "ib_buffer_pool", "pg_wal", "#innodb_redo"];

impl Lab<'_> {
    /// Reads the file, where the arm asks for it. Its pages are not in the page cache when this returns.
    pub(crate) fn probe(&mut self, phase: &Phase) -> Result<(), Error> {
        let (Some(reads), Some(sandbox)) = (phase.load.probe, &self.sandbox) else { return Ok(()) };
        let is_data = |name: &str| !LOGS.iter().any(|log| name.starts_with(log));
        let Some((file, _)) = largest_file(&sandbox.data(), &is_data).filter(|(_, bytes)| *bytes >= BLOCK_BYTES) else {
            return self.notes.event("load", format!("{}: there is no data file to probe", phase.name));
        };
        self.notes.progress.step("load", &format!("{}: reading {}", phase.name, file.display()));
        let began = self.notes.clock.now_us();
        let order = Order { file: file.into(), reads, seed: phase.load.seed };
        let limit = self.squeezes.server_limits().filter(|limits| limits.asked().ram.is_some());
        let (seen, by) = match limit.and_then(Limits::memory_folder).map(Path::to_owned) {
            Some(cgroup) => (Some(self.within(cgroup, &order)?), ", within the server's RAM"),
            None => {
                let stop = self.stop.clone();
                (reads::read(&order, &|| stop.load(Ordering::SeqCst))?, "")
            }
        };
        self.check_stop()?;
        let Some(seen) = seen else { return Ok(()) };
        seen.series.iter().try_for_each(|series| self.series(phase, reads, series, by))?;
        self.scans(phase, &seen, by)?;
        let told = [("reads", reads.to_string()), ("bytes", seen.size_bytes.to_string())];
        self.span("load.probe", &phase.name, began, &told)
    }

    /// The same by a process in the server's memory cgroup: what it reads through the page cache counts towards the limit, as the server's reads do.
    fn within(&mut self, cgroup: PathBuf, order: &Order) -> Result<ReadResults, Error> {
        let spec =
            ChildSpec { cgroups: vec![cgroup], ready: true, ready_timeout: LONGEST, ..ChildSpec::internal(order)? };
        let child = self.run.spawn(Role::Server, spec)?;
        let seen = child.ready::<Order>();
        self.run.undo_step(child.step)?;
        let unread = |said| host::Error::call("read what the probe has seen", std::io::Error::other(said));
        Ok(seen.map_err(unread)?)
    }

    /// Records the mean of one series, and how many reads it had.
    fn series(&self, phase: &Phase, asked: u64, series: &Series, by: &str) -> Result<(), Error> {
        let (way, words) = match series.is_direct {
            true => ("direct", "direct reads (O_DIRECT)"),
            false => ("cached", "reads through the page cache"),
        };
        let (what, mechanism) =
            (format!("probe.read.{way}.{}", if series.is_warm { "warm" } else { "cold" }), format!("{words}{by}"));
        let Series { count, mean_us: mean, median_us: median, .. } = series;
        let witness =
            format!("the clock around each of {count} reads of 4 KiB: mean {mean:.1} us, median {median:.1} us");
        self.of_probe(
            phase,
            Measured { got: Some(Quantity::micros(*mean)), ..Measured::of(&what, &mechanism, &witness) },
        )?;
        let rate = Quantity { value: *count as f64 * 1e6 / series.elapsed_us.max(1) as f64, unit: Unit::PerSecond };
        let named = format!("{what}.rate");
        self.of_probe(phase, Measured { got: Some(rate), ..Measured::of(named, &mechanism, &witness) })?;
        let counted = Measured {
            asked: Some(Quantity::count(asked as f64)),
            got: Some(Quantity::count(*count as f64)),
            within_tolerance: Some(*count == asked),
            tolerance: Some("exactly".into()),
            ..Measured::of(format!("{what}.reads"), &mechanism, &witness)
        };
        self.of_probe(phase, counted)
    }

    /// The first round is the cold one.
    fn scans(&self, phase: &Phase, seen: &ReadResults, by: &str) -> Result<(), Error> {
        let ReadResults { size_bytes: size, scan: scanned, .. } = seen;
        if let Some(why) = &scanned.not_evicted {
            self.notes.event("load", format!("{}: the probe's scan was not cold: {why}", phase.name))?;
        }
        let names = [("probe.scan.cold", "probe.scan.cold.cached"), ("probe.scan.warm", "probe.scan.warm.cached")];
        for (round, (what, cached)) in scanned.rounds.iter().zip(names) {
            let witness = format!("{} bytes of the file's {size} in {:.3} s", round.bytes, round.seconds);
            let mechanism = format!("reads of the whole file in order, 128 KiB at once, through the page cache{by}");
            let rate = Quantity { value: round.bytes_per_second, unit: Unit::PerSecond };
            self.of_probe(phase, Measured { got: Some(rate), ..Measured::of(what, &mechanism, &witness) })?;
            let share = Quantity { value: round.cached_before, unit: Unit::Ratio };
            let witness =
                "the kernel's word on which of the file's pages are cached (cachestat or mincore), before the scan";
            self.of_probe(phase, Measured { got: Some(share), ..Measured::of(cached, &mechanism, witness) })?;
        }
        Ok(())
    }

    fn of_probe(&self, phase: &Phase, measured: Measured) -> Result<(), Error> {
        let (at_us, arm) = (self.notes.clock.now_us(), Some(phase.name.clone()));
        self.notes.measured(&Measured { at_us, arm, ..measured })
    }
}
