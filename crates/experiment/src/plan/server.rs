// SPDX-License-Identifier: Apache-2.0
//! The server of a plan: its name, and where it comes from.

use super::steps::List;
use super::{HostFacts, estimate};
use crate::model::{Experiment, Flavour, Server};
use capability::{Capability, any_words};

impl List<'_> {
    /// The step that finds or fetches the server.
    pub(super) fn server(&mut self) {
        let (server, flavour) = (self.server_name(), self.experiment.server.flavour);
        match &self.host.server_binary {
            Some(binary) => self.add("sandbox", 0.0, format!("use {server}: {binary}")),
            None if !can_be_fetched(flavour) => {
                self.add("sandbox", 0.0, format!("use {server}, which is not on this machine and cannot be fetched"))
            }
            None => self.add(
                "sandbox",
                estimate::fetch_seconds(self.host),
                format!(
                    "fetch {server} into the cache, from {}: a download of 10 to 160 MB, up to {} when unpacked; nothing is installed",
                    sources(flavour),
                    estimate::PACKAGE
                ),
            ),
        };
    }

    pub(super) fn server_name(&self) -> String {
        name(&self.experiment.server)
    }
}

/// `MariaDB 11.4`.
fn name(server: &Server) -> String {
    let name = match server.flavour {
        Flavour::Mariadb => "MariaDB",
        Flavour::Mysql => "MySQL",
        Flavour::Percona => "Percona Server",
        Flavour::Postgresql => "PostgreSQL",
    };
    match &server.version {
        Some(version) => format!("{name} {version}"),
        None => name.to_owned(),
    }
}

/// What only a source of servers can tell: a plan asks none, because that takes seconds and the network.
pub(super) fn not_asked(experiment: &Experiment, host: &HostFacts) -> Vec<String> {
    let Server { flavour, .. } = experiment.server;
    let is_fetched = host.server_binary.is_none() && can_be_fetched(flavour);
    let told = || {
        let server = name(&experiment.server);
        format!("whether {server} can be fetched: `wringer sandbox available` lists what each source has")
    };
    is_fetched.then(told).into_iter().collect()
}

fn can_be_fetched(flavour: Flavour) -> bool {
    !any_words(Capability::ServerPackage, flavour).is_empty()
}

/// In the order in which they are asked.
fn sources(flavour: Flavour) -> String {
    let has = |capability| !any_words(capability, flavour).is_empty();
    let others = [(Capability::OtherSuite, "another suite of it"), (Capability::Artifact, "Maven's repository")];
    let others = others.into_iter().filter(|(capability, _)| has(*capability)).map(|(_, name)| name);
    std::iter::once("the distribution").chain(others).collect::<Vec<_>>().join(" or ")
}
