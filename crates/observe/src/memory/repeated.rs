// SPDX-License-Identifier: Apache-2.0
//! Repeated inventories of one server, as snapshots, from which `ledger` makes accounts later.

use super::budget::{self, Cost};
use super::processes::Known;
use super::{ALL_US, Options, inventory_of_known};
use crate::procfile::ProcFile;
use crate::{Collector, Error, Pace, Reader, Reopening};
use capability::Flavour;
use evidence::{Format, INVENTORY};
use host::clock::thread_cpu_time;
use host::process::Identity;
use ledger::Inventory;
use std::time::Duration;

/// Reads inventories of one server. Each reading adds one snapshot, with an [`Inventory`] as JSON.
///
/// Its budget is a hundredth of the interval: for the time in which the server's processes are held and the server answers questions, and for the CPU
/// time of the reader. When two readings in a row cost more, the interval is doubled until they fit; when they cost much less, it is halved again. Of
/// many processes it reads as many in detail as fit.
pub struct InventoryReader {
    first: Identity,
    flavour: Option<Flavour>,
    version: Option<String>,
    connection: Option<Reopening>,
    asked: Duration,
    /// The requested interval, or two, four, ... times as long.
    interval: Duration,
    /// The cost for which the interval was last changed.
    why: Cost,
    known: Known,
    /// The cost of the last reading but one, and of the last one.
    costs: [Cost; 2],
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
            why: Cost::default(),
            known: Known::default(),
            costs: [Cost::default(); 2],
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
    /// [`Error::Gone`]: the process has ended, even if a later process has its number. Any other error: it goes on, and could not be read this time.
    pub fn inventory(&mut self) -> Result<Inventory, Error> {
        let Identity { pid, start_time } = self.first;
        let began = thread_cpu_time();
        let options = Options { others_us: Some(self.others_us()), ..Options::default() };
        let connection = self.connection.as_mut();
        let seen = inventory_of_known(Some(pid), self.flavour, connection, &options, &mut self.known);
        let is_it = seen.processes.first().is_some_and(|process| process.started_ticks == start_time);
        if !is_it || !self.first.is_alive() {
            return Err(self.why_not());
        }
        let cost = Cost::of(&seen.probes, thread_cpu_time().saturating_sub(began));
        self.costs = [self.costs[1], cost];
        let interval = budget::told(self.asked, self.interval, self.why);
        Ok(Inventory { version: self.version.clone(), interval: Some(interval), ..seen })
    }

    /// A process that has ended, and one of which nothing can be read (there may be no descriptor left), look the same in an inventory.
    fn why_not(&self) -> Error {
        let pid = self.first.pid;
        match ProcFile::open(format!("/proc/{pid}/stat")) {
            Err(error) if !error.says_gone() => error,
            Ok(_) if self.first.is_alive() => Error::Unread { pid },
            Ok(_) | Err(_) => Error::Gone { pid },
        }
    }

    /// The part of the budget for processes that are read in detail: half of it. The server's answers, and the reader's work with what it has read,
    /// need the rest. If there were no rest, the interval would grow with each reading. The first reading may take as long as a single one, because
    /// later ones go on from what it has told of each process.
    fn others_us(&self) -> u64 {
        if self.known.is_nothing() {
            return ALL_US;
        }
        let us = (budget::granted(self.interval) / 2).as_micros();
        u64::try_from(us).unwrap_or(u64::MAX).min(ALL_US)
    }
}

impl Reader for InventoryReader {
    fn name(&self) -> String {
        INVENTORY.to_owned()
    }

    fn read(&mut self, into: &mut Collector) -> Result<(), Error> {
        let began = thread_cpu_time();
        let content = serde_json::to_string(&self.inventory()?).map_err(|source| Error::Json { source })?;
        into.snapshot(INVENTORY, "", Format::Json, content);
        self.costs[1].cpu = thread_cpu_time().saturating_sub(began);
        Ok(())
    }

    fn interval(&self) -> Option<Duration> {
        Some(self.interval)
    }

    fn pace(&mut self) -> Option<Pace> {
        let cost = self.costs[1].or_cheaper(self.costs[0]);
        let next = budget::next(self.asked, self.interval, cost);
        if next == self.interval {
            return Some(Pace::AsBefore);
        }
        (self.interval, self.why) = (next, cost);
        Some(Pace::Changed(budget::changed(self.asked, next, cost)))
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
        assert_eq!(reader.others_us(), ALL_US, "the first one reads as many as a single reading does");
        reader.inventory().unwrap();
        let mut after = |answered_ms| {
            let cost = Cost { answered: Duration::from_millis(answered_ms), ..Cost::default() };
            reader.costs = [reader.costs[1], cost];
            (reader.pace(), reader.interval.as_secs(), reader.others_us())
        };
        let same = (Some(Pace::AsBefore), 1, 5000);
        assert_eq!(after(10), same);
        assert_eq!(after(2000), same, "once may be chance");
        assert_eq!([after(9), after(25)], [same.clone(), same]);
        let (pace, seconds, others_us) = after(31);
        let is_told = |pace| matches!(pace, Some(Pace::Changed(why)) if why.contains("its questions took 25.0 ms"));
        assert!((seconds, others_us) == (4, 20_000) && is_told(pace), "{seconds} {others_us}");
        let seconds = [40, 30, 10, 9, 9, 5, 1, 1].map(|answered_ms| after(answered_ms).1);
        assert_eq!(seconds, [4, 4, 2, 2, 2, 1, 1, 1], "shorter again, and not shorter than asked");
    }

    #[test]
    fn each_inventory_tells_the_interval_that_was_asked_and_the_one_that_it_got() {
        let mut reader = own(Duration::from_millis(100));
        let mut read = || {
            let seen = reader.inventory().unwrap();
            assert!(reader.costs[1].cpu > Duration::ZERO);
            reader.costs = [Cost { cpu: Duration::from_millis(3), ..Cost::default() }; 2];
            reader.pace();
            seen.interval.unwrap()
        };
        let (first, second) = (read(), read());
        assert_eq!((first.asked_us, first.got_us, first.why), (100_000, 100_000, None));
        assert_eq!((second.asked_us, second.got_us), (100_000, 400_000));
        assert!(second.why.is_some_and(|why| why.ends_with("used 3.0 ms of CPU time")));
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
