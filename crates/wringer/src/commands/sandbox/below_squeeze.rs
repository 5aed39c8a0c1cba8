// SPDX-License-Identifier: Apache-2.0
//! A standing server that is started by a command of `wringer squeeze`. It has its own run, and the squeeze does not hold it.

use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use host::process::RUN_VARIABLE;
use run::RunId;

/// Tells the user that the server is squeezed only as long as the command runs.
///
/// # Errors
/// The command sees slow directories in its own mount namespace. They end with it, and the server would lose its files.
pub(super) fn look() -> Outcome {
    let Some(run) = std::env::var(RUN_VARIABLE).ok().and_then(|run| run.parse::<RunId>().ok()) else { return Ok(()) };
    let layer = format!("wringer-{run}");
    let mounts = host::change::mounts()?;
    if let Some(mount) = mounts.iter().find(|mount| mount.source == layer && mount.fstype.starts_with("fuse")) {
        let message = format!(
            "a server that stands outlives the `wringer squeeze` that this command runs in ({run}), and the slow directory {} \
             ends with that",
            mount.target.display()
        );
        return Err(Failure::message(Exit::Missing, message)
            .hint("start it outside, and slow its disk down by an experiment (`wringer run`); or run the server's program itself"));
    }
    terminal::say(format_args!(
        "note: `wringer squeeze` ({run}) squeezes nothing of a server that stands: it is a run of its own, and leaves the squeeze when \
         the command ends. `sandbox start --ram SIZE --cpus N` limits a server for as long as it stands"
    ));
    Ok(())
}
