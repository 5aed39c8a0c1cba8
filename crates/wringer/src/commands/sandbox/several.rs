// SPDX-License-Identifier: Apache-2.0
//! The sandboxes that a command means: the named ones, each primary with its replicas, or all.

use crate::exit::{Exit, Failure};
use crate::terminal;
use host::places::Places;
use sandbox::{Member, Sandbox};

#[derive(Debug, Clone, clap::Args)]
pub struct Which {
    /// Names of sandboxes (`wringer sandbox list` has them); the name of a primary also means its replicas
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "NAME")]
    pub names: Vec<String>,
    /// All sandboxes, except those that a `wringer run` has made for itself
    #[arg(long)]
    pub all: bool,
}

pub struct Meant {
    pub sandbox: Sandbox,
    /// The user has named it; others are included by `--all`, or with their primary.
    pub is_named: bool,
}

impl Which {
    /// The sandboxes in the order in which they start: replicas after their primaries. Stopping and deleting use the opposite order.
    ///
    /// # Errors
    /// A named sandbox does not exist, or was never deployed completely.
    pub fn find(&self, places: &Places) -> Result<Vec<Meant>, Failure> {
        let mut meant: Vec<Meant> = Vec::new();
        for sandbox in self.chosen(places)? {
            for member in sandbox.members() {
                let is_named = !self.all && self.names.iter().any(|name| name == member.name());
                if !meant.iter().any(|known| known.sandbox.name() == member.name()) {
                    meant.push(Meant { sandbox: member, is_named });
                }
            }
        }
        meant.sort_by_key(|meant| matches!(meant.sandbox.manifest.member, Some(Member::Replica { .. })));
        Ok(meant)
    }

    fn chosen(&self, places: &Places) -> Result<Vec<Sandbox>, Failure> {
        if !self.all {
            return self.names.iter().map(|name| Ok(Sandbox::open(name, places)?)).collect();
        }
        let mut chosen = Vec::new();
        for (name, _) in Sandbox::list(places) {
            match Sandbox::open(&name, places) {
                Ok(sandbox) if sandbox.manifest.run.is_none() => chosen.push(sandbox),
                Ok(_) => {}
                Err(error) => terminal::say(format_args!("note: {name} is left out: {error}")),
            }
        }
        if chosen.is_empty() {
            let failure = Failure::message(Exit::Missing, "there are no sandboxes".to_owned());
            return Err(failure.hint("`wringer sandbox deploy mariadb` makes one"));
        }
        Ok(chosen)
    }
}
