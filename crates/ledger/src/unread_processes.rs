// SPDX-License-Identifier: Apache-2.0
//! Leaves of PostgreSQL's processes that were not read. Their total is estimated from the processes of the same role that were read, and it is divided among
//! the leaves in the same way. The account's uncertainty, which is that of the estimate, holds for both.

use crate::claim::Claim;
use crate::parts::measured;
use crate::pieces::Partition;
use crate::share::{self, sane};
use crate::{Inventory, ProcessSeen};
use capability::Flavour;
use std::collections::BTreeMap;

/// The private memory of the processes of one role that were read, and its leaves.
#[derive(Default)]
struct Role {
    private: u128,
    leaves: BTreeMap<String, Claim>,
}

/// `of_each`: the leaves of each process, as far as it was read. Nothing for roles of which no process was read with its contexts.
pub(crate) fn leaves(inventory: &Inventory, partition: &Partition, of_each: &[Vec<Claim>]) -> Vec<Claim> {
    if inventory.flavour != Some(Flavour::Postgresql) {
        return Vec::new();
    }
    let mut roles: BTreeMap<&str, Role> = BTreeMap::new();
    let processes = || inventory.processes.iter().enumerate();
    for ((at, process), claims) in processes().zip(of_each).filter(|((_, process), _)| was_read(process)) {
        let role = roles.entry(&process.role).or_default();
        role.private += u128::from(partition.private_of(at));
        claims.iter().for_each(|claim| role.add(claim));
    }
    let unread = processes().filter(|(_, process)| measured(process).is_none() && process.contexts.is_none());
    let estimated =
        unread.filter_map(|(at, process)| Some((partition.private_of(at), roles.get(process.role.as_str())?)));
    estimated.flat_map(|(private, role)| role.of(private)).collect()
}

fn was_read(process: &ProcessSeen) -> bool {
    measured(process).is_some() && process.contexts.is_some()
}

impl Role {
    fn add(&mut self, claim: &Claim) {
        let leaf = self.leaves.entry(claim.path.clone()).or_insert_with(|| Claim { resident: 0, ..claim.clone() });
        leaf.resident = sane(leaf.resident + claim.resident);
    }

    /// The leaves sum to at most `private`, as those of the processes that were read do to theirs.
    fn of(&self, private: u64) -> impl Iterator<Item = Claim> {
        self.leaves.values().map(move |leaf| Claim {
            resident: share::of(leaf.resident, private, self.private),
            allocated: None,
            source: format!("{}, of processes of the same role that were read", leaf.source),
            ..leaf.clone()
        })
    }
}
