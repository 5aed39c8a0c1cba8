// SPDX-License-Identifier: Apache-2.0
//! The data for questions about huge pages: few data of the server, and the kernel's pools and limits. Nothing is changed.

mod limits;
mod pools;

use super::processes::Known;
use super::reading::Reading;
use super::target::Target;
use super::{Options, host_seen, mappings, page_bytes, processes, server_rows};
use crate::Reopening;
use capability::Flavour;
use ledger::huge_pages::HugeSeen;
use ledger::{Inventory, ServerSeen};
use std::collections::BTreeMap;

/// Reads the status of all processes, the mappings of the first one, and few rows of the server. `deep`: without a limit of the time for which this
/// holds the process.
pub fn huge_pages(
    first_pid: Option<u32>,
    flavour: Option<Flavour>,
    mut connection: Option<&mut Reopening>,
    deep: bool,
) -> HugeSeen {
    super::end_session(first_pid, connection.as_deref_mut());
    let mut reading = Reading::begin(Options { deep, lightly: true, ..Options::default() });
    let mut processes = first_pid
        .map(|pid| processes::read(pid, flavour, &mut Known::default(), &mut reading).processes)
        .unwrap_or_default();
    let count = processes.len();
    if let Some(first) = processes.first_mut() {
        let target = Target::open(first, &mut reading);
        first.mappings = target.and_then(|mut it| mappings::read(&mut it, &first.status, count, &mut reading));
    }
    let server = connection.zip(flavour).map(|(it, flavour)| server_rows::for_huge_pages(it, flavour, &mut reading));
    of_host(Inventory { flavour, processes, server, ..Inventory::default() }, first_pid, reading)
}

/// The same for a server that does not run: its program has printed the settings that the server would have.
pub fn huge_pages_before_start(flavour: Flavour, version: String, variables: BTreeMap<String, String>) -> HugeSeen {
    let server = Some(ServerSeen { variables, ..ServerSeen::default() });
    let inventory = Inventory { flavour: Some(flavour), version: Some(version), server, ..Inventory::default() };
    of_host(inventory, None, Reading::begin(Options::default()))
}

fn of_host(inventory: Inventory, pid: Option<u32>, mut reading: Reading) -> HugeSeen {
    let host = host_seen::read(&mut reading);
    let at_unix_us = reading.began_unix_us();
    let (took_us, probes, missing) = reading.end();
    HugeSeen {
        inventory: Inventory { at_unix_us, took_us, page_bytes: page_bytes(), host, probes, missing, ..inventory },
        pools: pools::read(),
        limits: pid.map(limits::of_cgroups).unwrap_or_default(),
        lock_limit: pid.and_then(limits::locked_memory),
        group: pid.and_then(limits::group),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_this_process() {
        let seen = huge_pages(Some(std::process::id()), None, None, false);
        let first = &seen.inventory.processes[0];
        assert!(first.mappings.as_ref().is_some_and(|mappings| !mappings.is_empty()) && first.status["VmPeak"] > 0);
        assert_eq!(seen.group, Some(rustix::process::getegid().as_raw()));
        let default = seen.inventory.host.meminfo.get("Hugepagesize");
        assert!(default.is_none_or(|size| seen.pools.iter().any(|pool| pool.page_bytes == *size)), "{:?}", seen.pools);
    }
}
