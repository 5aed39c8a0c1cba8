// SPDX-License-Identifier: Apache-2.0
use crate::Attached;
use capability::Flavour;
use ledger::huge_pages::HugeSeen;
use ledger::{Inventory, Missing, ServerSeen};
use observe::memory::{self, InventoryReader, Options};
use std::collections::BTreeMap;
use std::time::Duration;

/// What the server's rows tell about its realistic peak. Other rows that it refuses are no gap in an answer about the peak.
const OF_PEAK: [&str; 4] = ["the server's own rows", "the server's counters", "sessions", "other accounts' sessions"];

impl Attached {
    /// An inventory of the server's memory, from its process, its own rows and the host. Things that they do not tell are in
    /// [`Inventory::missing`]. A light reading with limits has the server's rows, too, because its high-water marks are in them; no process is held for
    /// that.
    pub fn inventory(&mut self, options: Options) -> Inventory {
        let (pid, flavour) = (self.pid(), self.flavour());
        let unseen = self.unseen.as_ref().filter(|_| pid.is_none()).map(ToString::to_string);
        let server = self.server.as_mut();
        let version = server.as_ref().map(|server| server.version.clone());
        let connection = server.map(|server| &mut server.connection);
        let mut inventory = memory::inventory(pid, flavour, connection, &options);
        let remedy = Some("--pid, on the server's host".to_owned());
        inventory.missing.extend(unseen.map(|why| Missing { what: "the server's processes".into(), why, remedy }));
        inventory.version = version.or(inventory.version);
        if options.lightly && options.limits {
            self.add_rows(&mut inventory);
        }
        inventory
    }

    /// Adds the server's rows. PostgreSQL's have no high-water marks: the kernel has those of its processes.
    fn add_rows(&mut self, inventory: &mut Inventory) {
        let Some(it) = self.server.as_mut().filter(|it| it.kind.flavour != Flavour::Postgresql) else { return };
        // without a process only the rows are read, and the host's own figures
        join(inventory, memory::inventory(None, Some(it.kind.flavour), Some(&mut it.connection), &Options::default()));
    }

    /// Reads inventories, one every `interval`, over a connection of its own. `None`: the server's process is not known.
    pub fn inventories(&mut self, interval: Duration) -> Option<InventoryReader> {
        let reader = InventoryReader::new(self.process()?.identity(), self.flavour(), interval);
        Some(match &mut self.server {
            Some(server) => reader.asking(server.hand_over(), server.version.clone()),
            None => reader,
        })
    }

    /// The data on how many huge pages the server needs and has. `deep`: its mappings are read however long that holds the server.
    pub fn huge_pages(&mut self, deep: bool) -> HugeSeen {
        let (pid, flavour) = (self.pid(), self.flavour());
        let server = self.server.as_mut();
        let version = server.as_ref().map(|server| server.version.clone());
        let connection = server.map(|server| &mut server.connection);
        let mut seen = memory::huge_pages(pid, flavour, connection, deep);
        seen.inventory.version = version;
        seen
    }

    /// Files that people usually collect by hand, in addition to an inventory: texts by their paths in a bundle, without secrets.
    pub fn collected(&mut self, inventory: &Inventory) -> BTreeMap<String, String> {
        memory::collected(inventory, self.server.as_mut().map(|server| &mut server.connection))
    }
}

/// Puts the server's rows of a later reading into an inventory. Its times are those after the inventory's beginning.
fn join(inventory: &mut Inventory, rows: Inventory) {
    let later_us = rows.at_unix_us.saturating_sub(inventory.at_unix_us);
    inventory.took_us = inventory.took_us.max(later_us + rows.took_us);
    inventory.server = rows.server.map(|server| ServerSeen { at_us: server.at_us + later_us, ..server });
    inventory.probes.extend(rows.probes);
    inventory.missing.extend(rows.missing.into_iter().filter(|it| OF_PEAK.contains(&it.what.as_str())));
}

#[cfg(test)]
mod tests {
    use super::join;
    use crate::{Attached, Surroundings, Wanted};
    use ledger::{Inventory, Missing, Probe, ServerSeen};
    use observe::memory::Options;

    #[test]
    fn rows_that_are_read_later_have_their_own_time_and_only_gaps_of_the_peak() {
        let missing = |what: &str| Missing { what: what.into(), ..Missing::default() };
        let mut inventory = Inventory {
            at_unix_us: 1000,
            took_us: 50,
            missing: vec![missing("memory cgroup")],
            ..Inventory::default()
        };
        let rows = Inventory {
            at_unix_us: 1100,
            took_us: 30,
            server: Some(ServerSeen { at_us: 7, ..ServerSeen::default() }),
            probes: vec![Probe { tier: Probe::SQL.into(), ..Probe::default() }],
            missing: vec![missing("sessions"), missing("memory by the server's instruments")],
            ..Inventory::default()
        };
        join(&mut inventory, rows);
        assert_eq!(
            (inventory.server.map(|it| it.at_us), inventory.took_us, inventory.probes.len()),
            (Some(107), 130, 1)
        );
        assert_eq!(inventory.missing, [missing("memory cgroup"), missing("sessions")]);
    }

    #[test]
    fn of_a_process_without_a_server() {
        let places = host::places::Places::below(std::path::Path::new("/nowhere"));
        let wanted = Wanted { pid: Some(std::process::id()), ..Wanted::default() };
        let around = Surroundings { places: &places, variable: &|_| None, say: &|_| {} };
        let seen = Attached::find(&wanted, around).unwrap().inventory(Options::default());
        assert_eq!((seen.processes.len(), seen.version, seen.server), (1, None, None));
        assert!(seen.processes[0].mappings.as_ref().is_some_and(|mappings| !mappings.is_empty()));
    }
}
