// SPDX-License-Identifier: Apache-2.0
//! Which limit of a cgroup would stop a server. The kernel reserves huge pages when memory is mapped, and charges them when it is touched. Where a limit
//! of touched pages is too small for a server, the server starts, and dies by SIGBUS later (kernel, admin-guide/cgroup-v1/hugetlb.rst).

use super::readings::{HugeLimit, HugeSeen};
use serde::Serialize;

/// The effect of a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitVerdict {
    #[serde(flatten)]
    pub limit: HugeLimit,
    /// What the server has mapped, or will map, in pages of this size.
    pub wanted_bytes: u64,
    /// The server, or another in the cgroup, gets SIGBUS when it touches what it has mapped.
    pub ends_in_sigbus: bool,
    /// mmap(2) fails: PostgreSQL with huge_pages=on does not start, and other servers run without huge pages.
    pub refuses: bool,
}

impl LimitVerdict {
    /// The limit that stops the server, or the one that comes first: its bytes, and the file that it stands in. `None`: there is none.
    pub fn decisive(&self) -> Option<(u64, &str)> {
        let touched = self.limit.limit_bytes.map(|bytes| (bytes, self.limit.file.as_str()));
        let reserved = self.limit.reservation_limit_bytes.map(|bytes| (bytes, self.limit.reservation_file.as_str()));
        if self.refuses { reserved } else { touched.or(reserved) }
    }
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
    // memory that is mapped is reserved already
    let of_others = limit.reservation_usage_bytes.unwrap_or(0);
    let refuses = !mapped && wanted > 0 && limit.reservation_limit_bytes.is_some_and(|most| of_others + wanted > most);
    // other processes have mapped pages that they have not touched yet; pages that several processes share were counted for each of them
    let claimed = (others + wanted).max(of_others + if mapped { 0 } else { wanted });
    let ends_in_sigbus = !refuses && wanted > 0 && limit.limit_bytes.is_some_and(|most| claimed > most);
    LimitVerdict { limit: limit.clone(), wanted_bytes: wanted, ends_in_sigbus, refuses }
}

/// The upper bound, because each process only tells the pages that it has touched itself.
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
    fn what_others_have_mapped_and_not_touched_counts_too() {
        let of = |most, reserved, mapped| {
            let limit = HugeLimit { reservation_usage_bytes: Some(reserved * MIB), ..limit(most, 40) };
            verdicts(&seen(limit, 60 * MIB), &[(2 * MIB, 500 * MIB)], mapped)[0].ends_in_sigbus
        };
        assert!(of(600, 700, true), "another server in the cgroup has mapped 200 MiB");
        assert!(!of(700, 700, true) && !of(600, 500, true));
        assert!(of(600, 200, false) && !of(700, 200, false), "before it starts, it is not among them");
    }

    #[test]
    fn the_limit_that_stops_is_named() {
        let (file, reservation_file) = ("max".to_owned(), "rsvd.max".to_owned());
        let reservation_limit_bytes = Some(300 * MIB);
        let limit = HugeLimit { file, reservation_file, reservation_limit_bytes, ..limit(400, 0) };
        let of = |mapped| verdicts(&seen(limit.clone(), 0), &[(2 * MIB, 500 * MIB)], mapped).remove(0);
        assert_eq!(of(true).decisive(), Some((400 * MIB, "max")), "it is mapped: {:?}", of(true));
        assert_eq!(of(false).decisive(), Some((300 * MIB, "rsvd.max")), "mmap fails: {:?}", of(false));
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
