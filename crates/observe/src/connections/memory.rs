// SPDX-License-Identifier: Apache-2.0
//! The memory that each backend of PostgreSQL has for itself, by the kernel: its share of anonymous memory (Pss_Anon).

use crate::memory::{self, Options};
use capability::Flavour;
use connections::ServerReading;
use ledger::{Missing, ProcessSeen};
use std::collections::BTreeMap;

/// Sets [`connections::Sessions::bytes_max`] in the last look, for the backends that were read. A budget limits their number, so that the server is
/// not held up.
pub fn backends(first_pid: u32, seen: &mut ServerReading) {
    let inventory = memory::inventory(Some(first_pid), Some(Flavour::Postgresql), None, &Options::default());
    let bytes: BTreeMap<u32, u64> =
        inventory.processes.iter().filter_map(|process| Some((process.pid_of_server(), anonymous(process)?))).collect();
    let Some(look) = seen.looks.last_mut() else { return };
    for sessions in &mut look.sessions {
        sessions.bytes_max = sessions.pid.and_then(|pid| bytes.get(&pid).copied());
    }
    let unread = look.sessions.iter().filter(|sessions| sessions.bytes_max.is_none()).count();
    if unread > 0 {
        let why = format!("{unread} of {} backends were not read: see `wringer memory account`", look.sessions.len());
        seen.missing.push(Missing {
            what: "memory of backends".into(),
            why,
            remedy: Some(crate::ptrace_rights::for_mappings().into()),
        });
    }
}

/// The anonymous memory of a process. `None`: not read.
fn anonymous(process: &ProcessSeen) -> Option<u64> {
    if let Some(bytes) = process.rollup.as_ref().and_then(|rollup| rollup.get("Pss_Anon")) {
        return Some(*bytes);
    }
    // in a private mapping of a file, the pages that were written are anonymous, and the others are not
    process.mappings.as_ref().map(|mappings| mappings.iter().map(|it| it.pss.min(it.anonymous)).sum())
}
