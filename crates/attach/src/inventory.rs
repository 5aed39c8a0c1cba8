// SPDX-License-Identifier: Apache-2.0
use crate::Attached;
use ledger::huge_pages::HugeSeen;
use ledger::{Inventory, Missing};
use observe::Reopening;
use observe::memory::{self, InventoryReader, Options};
use std::collections::BTreeMap;
use std::time::Duration;

impl Attached {
    /// An inventory of the server's memory, from its process, its own rows and the host. Things that they do not tell are in
    /// [`Inventory::missing`].
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
        inventory
    }

    /// Reads inventories, one every `interval`, over a connection of its own. `None`: the server's process is not known.
    pub fn inventories(&self, interval: Duration) -> Option<InventoryReader> {
        let reader = InventoryReader::new(self.process()?.identity(), self.flavour(), interval);
        Some(match &self.server {
            Some(server) => reader.asking(Reopening::new(server.target.clone()), server.version.clone()),
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

#[cfg(test)]
mod tests {
    use crate::{Attached, Surroundings, Wanted};
    use observe::memory::Options;

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
