// SPDX-License-Identifier: Apache-2.0
//! Which limit of a cgroup would stop a server. The kernel reserves huge pages when memory is mapped, and charges them when it is touched: a server
//! that a limit of touched pages is too small for starts, and dies by SIGBUS later (kernel, admin-guide/cgroup-v1/hugetlb.rst).

use super::seen::{HugeLimit, HugeSeen};
use serde::Serialize;

/// What a limit comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitVerdict {
    #[serde(flatten)]
    pub limit: HugeLimit,
    /// What the server has mapped, or will map, in pages of this size.
    pub wanted_bytes: u64,
    /// The server, or another in the cgroup, gets SIGBUS when it touches what it has mapped.
    pub ends_in_sigbus: bool,
    /// mmap(2) fails: PostgreSQL with huge_pages=on does not start, the others do without.
    pub refuses: bool,
}

/// `wanted`: by page size. `mapped`: whether it is mapped already.
pub(super) fn verdicts(seen: &HugeSeen, wanted: &[(u64, u64)], mapped: bool) -> Vec<LimitVerdict> {
    let of = |page: u64| wanted.iter().filter(|(size, _)| *size == page).map(|(_, bytes)| *bytes).sum();
    seen.limits.iter().map(|limit| verdict(limit, of(limit.page_bytes), seen, mapped)).collect()
}

fn verdict(limit: &HugeLimit, wanted: u64, seen: &HugeSeen, mapped: bool) -> LimitVerdict {
    // of what is in use, so much may be the server's own
    let own = if mapped { touched(seen).min(wanted) } else { 0 };
    let others = limit.usage_bytes.unwrap_or(0).saturating_sub(own);
    let exceeds = |most: Option<u64>, others: u64| wanted > 0 && most.is_some_and(|most| others + wanted > most);
    // what is mapped is reserved already
    let of_others = limit.reservation_usage_bytes.unwrap_or(0);
    let refuses = !mapped && exceeds(limit.reservation_limit_bytes, of_others);
    let ends_in_sigbus = !refuses && exceeds(limit.limit_bytes, others);
    LimitVerdict { limit: limit.clone(), wanted_bytes: wanted, ends_in_sigbus, refuses }
}

/// At most: each process says only what it touched itself.
fn touched(seen: &HugeSeen) -> u64 {
    let each = seen.inventory.processes.iter().filter_map(|process| process.status.get("HugetlbPages"));
    each.fold(0, |sum: u64, it| sum.saturating_add(*it))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Inventory, ProcessSeen};

    const MIB: u64 = 1 << 20;

    fn seen(limit: HugeLimit, touched: u64) -> HugeSeen {
        let status = [("HugetlbPages".to_owned(), touched)].into();
        let processes = vec![ProcessSeen { status, ..ProcessSeen::default() }];
        HugeSeen {
            inventory: Inventory { processes, ..Inventory::default() },
            limits: vec![limit],
            ..HugeSeen::default()
        }
    }

    fn limit(most: u64, usage: u64) -> HugeLimit {
        let (limit_bytes, usage_bytes) = (Some(most * MIB), Some(usage * MIB));
        HugeLimit { page_bytes: 2 * MIB, limit_bytes, usage_bytes, ..HugeLimit::default() }
    }

    #[test]
    fn what_is_mapped_and_not_touched_yet_counts() {
        let of = |most, usage, touched| {
            let seen = seen(limit(most, usage), touched * MIB);
            verdicts(&seen, &[(2 * MIB, 500 * MIB)], true)[0].ends_in_sigbus
        };
        assert!(of(400, 20, 20), "it starts, and cannot touch all that it has mapped");
        assert!(!of(500, 20, 20) && !of(500, 500, 500), "exactly as much as it has mapped");
        assert!(of(500, 40, 20), "another process in the cgroup has 20 MiB");
        assert!(!of(500, 40, 60), "backends share what they touched");
    }

    #[test]
    fn a_limit_of_reservations_stops_a_server_at_its_start() {
        let limit = HugeLimit { reservation_limit_bytes: Some(400 * MIB), ..limit(400, 0) };
        let seen = seen(limit, 0);
        let before = &verdicts(&seen, &[(2 * MIB, 500 * MIB)], false)[0];
        assert!(before.refuses && !before.ends_in_sigbus);
        let of_another_size = &verdicts(&seen, &[(1 << 30, 1 << 30)], false)[0];
        assert!(!of_another_size.refuses && !of_another_size.ends_in_sigbus);
    }
}
