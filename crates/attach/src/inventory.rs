// SPDX-License-Identifier: Apache-2.0
use crate::Attached;
use ledger::{Inventory, Missing};
use observe::memory::{self, Options};

impl Attached {
    /// What the server's memory is made of, as far as its process, its own rows and the host tell: what they do not tell is in
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
