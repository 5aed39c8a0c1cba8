// SPDX-License-Identifier: Apache-2.0
//! Repeated inventories of one server, as snapshots, from which `ledger` makes accounts later.

use super::processes::Known;
use super::{ALL_US, Options, inventory_of_known};
use crate::{Collector, Error, Pace, Reader, Reopening};
use capability::Flavour;
use evidence::{Format, INVENTORY};
use host::process::Identity;
use ledger::Inventory;
use std::time::Duration;

/// The target is held for at most one part in this many of the interval.
const SHARE: u32 = 100;

/// Reads inventories of one server. Each reading adds one snapshot, with an [`Inventory`] as JSON.
///
/// Its budget is a hundredth of the interval, for the time in which the server's processes are held. When two readings in a row hold them longer, the
/// interval is doubled until they fit; when they hold them for much less, it is halved again. Of many processes it reads as many in detail as fit.
pub struct InventoryReader {
    first: Identity,
    flavour: Option<Flavour>,
    version: Option<String>,
    connection: Option<Reopening>,
    asked: Duration,
    /// The requested interval, or two, four, ... times as long.
    interval: Duration,
    known: Known,
    /// How long the last reading but one, and the last one, held the processes.
    held_us: [u64; 2],
}

impl InventoryReader {
    /// `first`: mariadbd, mysqld or the postmaster. Without [`Self::asking`] no question is sent to the server.
    pub fn new(first: Identity, flavour: Option<Flavour>, interval: Duration) -> Self {
        Self {
            first,
            flavour,
            version: None,
            connection: None,
            asked: interval,
            interval,
            known: Known::default(),
            held_us: [0; 2],
        }
    }

    /// Sends questions to the server, too, over this connection; `version` is the server's version at login.
    #[must_use]
    pub fn asking(self, connection: Reopening, version: String) -> Self {
        Self { connection: Some(connection), version: Some(version), ..self }
    }

    /// The server's first process.
    pub fn process(&self) -> Identity {
        self.first
    }

    /// Reads one inventory.
    ///
    /// # Errors
    /// [`Error::Gone`]: the process has ended, even if a later process has its number.
    pub fn inventory(&mut self) -> Result<Inventory, Error> {
        let Identity { pid, start_time } = self.first;
        let options = Options { others_us: Some(self.budget_us()), ..Options::default() };
        let connection = self.connection.as_mut();
        let seen = inventory_of_known(Some(pid), self.flavour, connection, &options, &mut self.known);
        let is_it = seen.processes.first().is_some_and(|process| process.started_ticks == start_time);
        if !is_it || !self.first.is_alive() {
            return Err(Error::Gone { pid });
        }
        let held_us = seen.probes.iter().map(|probe| probe.held_us).sum();
        self.held_us = [self.held_us[1], held_us];
        Ok(Inventory { version: self.version.clone(), ..seen })
    }

    fn budget_us(&self) -> u64 {
        let us = (self.interval / SHARE).as_micros();
        u64::try_from(us).unwrap_or(u64::MAX).min(ALL_US)
    }
}

impl Reader for InventoryReader {
    fn name(&self) -> String {
        INVENTORY.to_owned()
    }

    fn read(&mut self, into: &mut Collector) -> Result<(), Error> {
        let content = serde_json::to_string(&self.inventory()?).map_err(|source| Error::Json { source })?;
        into.snapshot(INVENTORY, "", Format::Json, content);
        Ok(())
    }

    fn interval(&self) -> Option<Duration> {
        Some(self.interval)
    }

    /// Uses the shorter time of two readings: a single wait of this thread for a CPU says nothing about the server.
    fn pace(&mut self) -> Option<Pace> {
        let held = Duration::from_micros(self.held_us[0].min(self.held_us[1]));
        let before = self.interval;
        while held * SHARE > self.interval {
            self.interval *= 2;
        }
        // the interval is shortened only if there is much room: otherwise it would change back and forth
        if self.interval > self.asked && held * SHARE * 4 <= self.interval {
            self.interval /= 2;
        }
        if self.interval == before {
            return Some(Pace::AsBefore);
        }
        let (held, every) = (held.as_secs_f64() * 1e3, self.interval.as_secs_f64());
        let why = "a hundredth of the interval is granted";
        Some(Pace::Changed(format!(
            "a reading held the server for {held:.1} ms, and {why}; from here on it is read every {every:.1} s"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(interval: Duration) -> InventoryReader {
        InventoryReader::new(Identity::own().unwrap(), None, interval)
    }

    #[test]
    fn the_interval_is_stretched_until_the_readings_fit() {
        let mut reader = own(Duration::from_secs(1));
        let mut after = |held_us| {
            reader.held_us = [reader.held_us[1], held_us];
            (reader.pace(), reader.interval, reader.budget_us())
        };
        let same = |seconds: u64| (Some(Pace::AsBefore), Duration::from_secs(seconds), (seconds * 10_000).min(ALL_US));
        assert_eq!(after(10_000), same(1));
        assert_eq!(after(2_000_000), same(1), "once may be chance");
        assert_eq!(after(9_000), same(1));
        assert_eq!(after(25_000), same(1));
        let (pace, interval, budget_us) = after(31_000);
        let why = "a reading held the server for 25.0 ms, and a hundredth of the interval is granted; from here on it is read every 4.0 s";
        assert_eq!((pace, interval, budget_us), (Some(Pace::Changed(why.into())), Duration::from_secs(4), 40_000));
        assert_eq!(after(40_000), same(4));
        let intervals = [30_000, 10_000, 9_000, 9_000, 5_000, 1_000, 1_000].map(|held_us| after(held_us).1.as_secs());
        assert_eq!(intervals, [4, 2, 2, 2, 1, 1, 1], "shorter again, and not shorter than asked");
    }

    #[test]
    fn a_later_process_with_its_number_is_another_one() {
        let mut reader = own(Duration::from_secs(10));
        let seen = reader.inventory().unwrap();
        assert!(seen.processes[0].mappings.is_some() && seen.host.candidates.is_empty());
        reader.first.start_time -= 1;
        assert!(matches!(reader.inventory(), Err(Error::Gone { pid }) if pid == std::process::id()));
    }
}
