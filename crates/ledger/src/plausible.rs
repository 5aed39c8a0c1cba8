// SPDX-License-Identifier: Apache-2.0
//! Whether the figures of an inventory are possible. A file may contain any figures, also so large ones that their sums overflow.

use crate::share::sane;
use crate::{Inventory, Mapping, ProcessSeen, ServerSeen};

/// All figures together, in bytes: more than 30,000 times what one process can map, and twice of it is still a signed number.
const MOST: u128 = 1 << 62;

/// `None`: they are possible. Otherwise the reason why not, in words.
///
/// Each figure alone is taken as at most 2^47 bytes (what a process can map on x86-64); what is refused here is the sum of them.
pub fn implausible(inventory: &Inventory) -> Option<String> {
    let processes: u128 = inventory.processes.iter().map(of_process).sum();
    let server: u128 = inventory.server.iter().map(of_server).sum();
    let sum = processes.saturating_add(server);
    (sum > MOST).then(|| format!("its figures sum to {} PiB, which no machine has", sum >> 50))
}

fn all<'a>(figures: impl IntoIterator<Item = &'a u64>) -> u128 {
    figures.into_iter().map(|figure| u128::from(sane(*figure))).sum()
}

fn of_mapping(mapping: &Mapping) -> u128 {
    let length = mapping.end.saturating_sub(mapping.start);
    all([&length, &mapping.rss, &mapping.pss, &mapping.private_hugetlb, &mapping.shared_hugetlb])
}

fn of_process(process: &ProcessSeen) -> u128 {
    let mappings: u128 = process.mappings.iter().flatten().map(of_mapping).sum();
    let contexts = all(process.contexts.iter().flatten().map(|context| &context.allocated));
    let rollup = all(process.rollup.iter().flat_map(|rollup| rollup.values()));
    let collations = all(process.collations.iter().flat_map(|it| [&it.allocated, &it.resident]));
    mappings + contexts + collations + rollup + all(process.status.values())
}

fn of_server(server: &ServerSeen) -> u128 {
    let events = server.memory_events.values().map(|bytes| u64::try_from(*bytes).unwrap_or(0));
    let events: u128 = events.map(|bytes| u128::from(sane(bytes))).sum();
    let sessions = all(server.sessions.iter().filter_map(|session| session.bytes.as_ref()));
    let shared = server.shared_allocations.iter().flat_map(|it| [&it.size, &it.allocated_size]);
    let key_caches = all(server.key_caches.iter().map(|it| &it.size));
    events + sessions + all(shared) + key_caches
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 131,072 of them pass 2^64.
    #[test]
    fn so_many_mappings_that_their_sum_overflows_are_refused_and_have_an_account() {
        let mapping = Mapping { start: 4096, end: 8192, pss: u64::MAX, rss: u64::MAX, ..Mapping::default() };
        let of = |count: usize| {
            let process = ProcessSeen { mappings: Some(vec![mapping.clone(); count]), ..ProcessSeen::default() };
            Inventory { processes: vec![process], ..Inventory::default() }
        };
        let hostile = of(131_073);
        assert!(implausible(&hostile).is_some_and(|why| why.contains("PiB")));
        let account = crate::account(&hostile);
        assert_eq!((account.kernel_total_bytes, account.missing.len()), (0, 1));
        assert_eq!(implausible(&of(1000)), None);
        assert!(crate::account(&of(1000)).kernel_total_bytes > 0);
    }
}
