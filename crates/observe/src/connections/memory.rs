// SPDX-License-Identifier: Apache-2.0
//! What the backends of PostgreSQL have for themselves, by the kernel: their share of anonymous memory (Pss_Anon).

use crate::memory::{self, Options};
use capability::Flavour;
use connections::Seen;
use ledger::{Missing, ProcessSeen};
use std::collections::BTreeMap;

/// Fills in [`connections::Sessions::bytes_max`] of the last look, for those backends that were read: as many as a budget allows that keeps the server from
/// being held up.
pub fn backends(first_pid: u32, seen: &mut Seen) {
    let inventory = memory::inventory(Some(first_pid), Some(Flavour::Postgresql), None, &Options::default());
    let bytes: BTreeMap<u32, u64> =
        inventory.processes.iter().filter_map(|process| Some((process.pid, anonymous(process)?))).collect();
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
            remedy: Some("run as root or as the server's user".into()),
        });
    }
}

/// `None`: not read.
fn anonymous(process: &ProcessSeen) -> Option<u64> {
    if let Some(bytes) = process.rollup.as_ref().and_then(|rollup| rollup.get("Pss_Anon")) {
        return Some(*bytes);
    }
    // a page that was written in a private mapping of a file is anonymous, the rest of the mapping is not
    process.mappings.as_ref().map(|mappings| mappings.iter().map(|it| it.pss.min(it.anonymous)).sum())
}
