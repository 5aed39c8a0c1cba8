// SPDX-License-Identifier: Apache-2.0
use crate::Attached;
use capability::Flavour;
use observe::Reopening;
use observe::stalls::{Asked, Options, Watcher};

impl Attached {
    /// Watches the server's threads, and asks it over a connection of its own. `None`: its process is not known.
    ///
    /// # Errors
    /// [`observe::Error::Gone`]; [`observe::Error::Threads`]; [`observe::Error::Server`]: it refuses its settings; [`observe::Error::Thread`].
    pub fn stalls(&mut self, options: &Options) -> Result<Option<Watcher>, observe::Error> {
        let Some(process) = self.process().map(host::process::Process::identity) else { return Ok(None) };
        let by_process = self.flavour().is_some_and(Flavour::has_process_per_connection);
        let variables = self.variables()?;
        let asked = self.server.as_mut().map(|server| Asked {
            connection: server.hand_over(),
            own: server.own.clone(),
            canary: options.canary.map(|_| Reopening::new(server.target.clone())),
            kind: server.kind.clone(),
            name: format!("{} {}", server.kind.flavour, server.version),
            variables,
        });
        Watcher::start(process, by_process, asked, options).map(Some)
    }
}
