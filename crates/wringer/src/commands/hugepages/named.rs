// SPDX-License-Identifier: Apache-2.0
//! The server that is asked about: it runs, or it is a sandbox that is stopped.

use crate::commands::connection::{Connection, whose};
use crate::exit::{Exit, Failure};
use host::places::Places;
use ledger::Missing;
use ledger::huge_pages::HugeSeen;
use observe::memory::{huge_page_settings, huge_pages_before_start};
use sandbox::Sandbox;

#[derive(Debug, clap::Args)]
pub(super) struct Named {
    /// The server's process; for PostgreSQL the first line of postmaster.pid [default: the one that listens at the socket, or the sandbox's]
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    #[command(flatten)]
    connection: Connection,
}

/// The data that were read, and a name for the server.
pub(super) struct Read {
    pub(super) of: String,
    pub(super) seen: HugeSeen,
}

impl Named {
    /// # Errors
    /// Usage: no server is named. Missing: no such process, no connection. Failed: the process ended while it was read.
    pub(super) fn read(&self) -> Result<Read, Failure> {
        let places = Places::from_environment();
        if let (None, Some(sandbox)) = (self.pid, self.connection.stopped_sandbox(&places)) {
            return before_start(&sandbox);
        }
        let (mut attached, unasked) = self.connection.attach_or_process(self.pid, &places)?;
        if attached.pid().is_none() {
            return Err(whose("huge pages"));
        }
        let mut seen = attached.huge_pages(false);
        seen.inventory.missing.extend(unasked);
        if attached.process().is_some_and(|process| !process.is_alive()) {
            return Err(Failure::message(Exit::Failed, format!("{} ended while it was read", attached.describe())));
        }
        Ok(Read { of: attached.describe(), seen })
    }
}

/// Asks the sandbox's program for the settings that it would start with.
fn before_start(sandbox: &Sandbox) -> Result<Read, Failure> {
    let (flavour, installation) = (sandbox.flavour(), &sandbox.manifest.installation);
    let variables = sandbox.settings_before_start(huge_page_settings(flavour))?;
    let mut seen = huge_pages_before_start(flavour, installation.version.to_string(), variables);
    seen.group = Some(sandbox.manifest.user.gid);
    if seen.inventory.server.as_ref().is_none_or(|server| server.variables.is_empty()) {
        let what = "the settings that it would have".to_owned();
        let why = format!("{} does not tell them", installation.program.display());
        let remedy = Some(format!("`wringer sandbox start {}`, and ask again", sandbox.name()));
        seen.inventory.missing.push(Missing { what, why, remedy });
    }
    Ok(Read { of: format!("{flavour} {}, sandbox {}, which does not run", installation.version, sandbox.name()), seen })
}
