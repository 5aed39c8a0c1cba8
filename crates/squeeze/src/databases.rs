// SPDX-License-Identifier: Apache-2.0
//! Finds database servers on this host that are not Wringer's: a squeeze of the host would affect them.

use host::places::Places;
use host::process::{Server, servers};
use std::collections::BTreeSet;

/// Servers of any run in `places` are left out.
///
/// # Errors
/// The journals cannot be listed.
pub fn unknown(places: &Places) -> Result<Vec<Server>, run::Error> {
    let ours: BTreeSet<u32> = run::find_runs(places)?.iter().flat_map(|run| &run.processes).map(|it| it.pid).collect();
    Ok(servers().into_iter().filter(|server| !ours.contains(&server.pid)).collect())
}
