// SPDX-License-Identifier: Apache-2.0
//! Accounts of one server at several times, side by side: each leaf is a column.

use crate::account::account;
use crate::class::{Class, classes, length};
use crate::entries::{Basis, Leaf};
use crate::inventory::Inventory;
use crate::parts::measured;
use crate::share::{sane, signed};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Address space of at least this size that cannot be accessed counts as a reservation: MariaDB 10.11.19 and later reserve 8 TiB behind the pool.
const RESERVATION: u64 = 1 << 40;
/// A bit of [`sight`]: malloc's chunks were walked. The only leaf that comes from this walk is [`RETAINED`].
const WALKED: u8 = 1;
const RETAINED: &str = "allocator/retained";

/// The figures of several inventories of one server. All columns are as long as `at_us`, and in bytes unless said otherwise; `None`: this
/// inventory does not have the figure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OverTime {
    /// On the caller's clock, ascending.
    pub at_us: Vec<u64>,
    pub kernel_total_bytes: Vec<u64>,
    pub uncertainty_bytes: Vec<u64>,
    /// The part of it that comes from processes that were not read.
    #[serde(default)]
    pub estimate_uncertainty_bytes: Vec<u64>,
    /// The total minus the leaves. `None`: this inventory lacks a part (the server's rows, mappings, a walk) that others have.
    pub unexplained_bytes: Vec<Option<i64>>,
    /// In order of their paths.
    pub leaves: Vec<LeafOverTime>,
    pub page_tables_bytes: Vec<u64>,
    /// Address space (VmSize) of all processes, without `reserved_bytes`.
    pub vsz_bytes: Vec<Option<u64>>,
    /// The part of the address space that is only reserved: mappings of 1 TiB and more that cannot be accessed.
    pub reserved_bytes: Vec<Option<u64>>,
    /// VmRSS of all processes: what they share counts once for each of them.
    pub rss_bytes: Vec<u64>,
    /// VmSwap of all processes.
    pub swap_bytes: Vec<Option<u64>>,
    /// MemAvailable of the host.
    pub host_available_bytes: Vec<Option<u64>>,
    /// SwapTotal minus SwapFree of the host.
    pub host_swap_bytes: Vec<Option<u64>>,
    /// Free in the allocator and resident, where it was walked. Where most inventories have no walk, it is no leaf: it is unexplained in all of
    /// them alike, and stands only here.
    pub heap_retained_bytes: Vec<Option<u64>>,
    /// In chunks that malloc has handed out, of a server with one process.
    pub heap_used_bytes: Vec<Option<u64>>,
    /// A number, no bytes: sessions, as the server lists them.
    pub sessions: Vec<Option<u64>>,
    /// A number, no bytes: how often the server had been started before, since the first inventory.
    pub starts: Vec<u32>,
}

/// A leaf at each of the times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeafOverTime {
    pub path: String,
    /// As in the last account that has the leaf.
    pub basis: Basis,
    pub resident_bytes: Vec<Option<u64>>,
    pub allocated_bytes: Vec<Option<u64>>,
}

/// The figures of one inventory that are kept: some KiB of some MiB.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Where it stands among others is the caller's to say: [`Moment::at`].
    #[serde(skip)]
    at_us: u64,
    sight: u8,
    /// The first process: its pid, and when it was started.
    process: (u32, u64),
    total: u64,
    uncertainty: u64,
    of_estimates: u64,
    unexplained: i64,
    page_tables: u64,
    leaves: Vec<Leaf>,
    vsz: Option<u64>,
    reserved: Option<u64>,
    rss: u64,
    swap: Option<u64>,
    available: Option<u64>,
    host_swap: Option<u64>,
    heap_used: Option<u64>,
    sessions: Option<u64>,
}

/// Makes the account of each inventory; takes them one at a time, because they are large. With each comes its time on the caller's clock.
pub fn over_time(readings: impl IntoIterator<Item = (u64, Inventory)>) -> OverTime {
    side_by_side(readings.into_iter().map(|(at_us, inventory)| Moment::of(&inventory).at(at_us)))
}

/// Like [`over_time`], from the figures that were kept of the inventories.
pub fn side_by_side(moments: impl IntoIterator<Item = Moment>) -> OverTime {
    let mut moments: Vec<Moment> = moments.into_iter().collect();
    moments.sort_by_key(|moment| moment.at_us);
    let whole = whole(&moments);
    let retained = column(&moments, Moment::retained);
    moments.iter_mut().for_each(|moment| moment.blend(whole));
    OverTime {
        at_us: column(&moments, |it| it.at_us),
        kernel_total_bytes: column(&moments, |it| it.total),
        uncertainty_bytes: column(&moments, |it| it.uncertainty),
        estimate_uncertainty_bytes: column(&moments, |it| it.of_estimates),
        unexplained_bytes: column(&moments, |it| (it.sight == whole).then_some(it.unexplained)),
        leaves: leaves(&moments, whole),
        page_tables_bytes: column(&moments, |it| it.page_tables),
        vsz_bytes: column(&moments, |it| it.vsz),
        reserved_bytes: column(&moments, |it| it.reserved),
        rss_bytes: column(&moments, |it| it.rss),
        swap_bytes: column(&moments, |it| it.swap),
        host_available_bytes: column(&moments, |it| it.available),
        host_swap_bytes: column(&moments, |it| it.host_swap),
        heap_retained_bytes: retained,
        heap_used_bytes: column(&moments, |it| it.heap_used),
        sessions: column(&moments, |it| it.sessions),
        starts: starts(&moments),
    }
}

fn column<T>(moments: &[Moment], of: impl Fn(&Moment) -> T) -> Vec<T> {
    moments.iter().map(of).collect()
}

/// The parts of inventories that are compared: those that at least half of the inventories have. A walk takes time, so few inventories may have one.
fn whole(moments: &[Moment]) -> u8 {
    let mut seen: BTreeMap<u8, usize> = BTreeMap::new();
    for moment in moments {
        *seen.entry(moment.sight).or_default() += 1;
        *seen.entry(moment.sight & !WALKED).or_default() += usize::from(moment.sight & WALKED > 0);
    }
    let enough = |(_, count): &(u8, usize)| *count * 2 >= moments.len();
    let half =
        seen.iter().map(|(sight, count)| (*sight, *count)).filter(enough).max_by_key(|(sight, _)| sight.count_ones());
    let most = || seen.iter().max_by_key(|(sight, count)| (**count, sight.count_ones())).map(|(sight, _)| *sight);
    half.map(|(sight, _)| sight).or_else(most).unwrap_or(0)
}

fn starts(moments: &[Moment]) -> Vec<u32> {
    let mut starts = 0;
    let mut before = None;
    let mut counted = |moment: &Moment| {
        if before.is_some_and(|before| before != moment.process) {
            starts += 1;
        }
        before = Some(moment.process);
        starts
    };
    moments.iter().map(&mut counted).collect()
}

fn leaves(moments: &[Moment], whole: u8) -> Vec<LeafOverTime> {
    let paths = moments.iter().flat_map(|moment| &moment.leaves).map(|leaf| leaf.path.as_str());
    let paths: BTreeSet<&str> = paths.collect();
    paths.into_iter().map(|path| leaf(moments, path, whole)).collect()
}

/// A leaf that is missing in a complete account has no resident memory; in an incomplete account it is not known.
fn leaf(moments: &[Moment], path: &str, whole: u8) -> LeafOverTime {
    let find = |moment: &'_ Moment| moment.leaves.binary_search_by(|leaf| leaf.path.as_str().cmp(path)).ok();
    let resident = |moment: &Moment| match find(moment) {
        Some(at) => Some(moment.leaves[at].resident_bytes),
        None => (moment.sight == whole).then_some(0),
    };
    let allocated = |moment: &Moment| moment.leaves[find(moment)?].allocated_bytes;
    let last = moments.iter().rev().find_map(|moment| Some(moment.leaves[find(moment)?].basis));
    LeafOverTime {
        path: path.to_owned(),
        basis: last.unwrap_or_default(),
        resident_bytes: column(moments, resident),
        allocated_bytes: column(moments, allocated),
    }
}

impl Moment {
    /// The same figures at this time on the caller's clock.
    #[must_use]
    pub fn at(self, at_us: u64) -> Self {
        Self { at_us, ..self }
    }

    fn retained(&self) -> Option<u64> {
        let leaf = self.leaves.iter().find(|leaf| leaf.path == RETAINED);
        (self.sight & WALKED > 0).then(|| leaf.map_or(0, |leaf| leaf.resident_bytes))
    }

    /// Changes it to the account that it would be without a walk, where most inventories have no walk.
    fn blend(&mut self, whole: u8) {
        if self.sight != whole | WALKED || whole & WALKED > 0 {
            return;
        }
        self.unexplained += signed(self.retained().unwrap_or(0));
        self.leaves.retain(|leaf| leaf.path != RETAINED);
        self.sight = whole;
    }

    /// At the time 0.
    pub fn of(inventory: &Inventory) -> Self {
        let account = account(inventory);
        let sum = |name: &str| sum(inventory, name);
        let reserved = reserved(inventory);
        let first = inventory.processes.first();
        let host = |name: &str| inventory.host.meminfo.get(name).map(|bytes| sane(*bytes));
        let alone = first.filter(|_| inventory.processes.len() == 1);
        Self {
            at_us: 0,
            sight: sight(inventory),
            process: first.map_or((0, 0), |it| (it.pid, it.started_ticks)),
            total: account.kernel_total_bytes,
            uncertainty: account.uncertainty_bytes,
            of_estimates: account.estimates.uncertainty_bytes,
            unexplained: account.unexplained_bytes,
            page_tables: account.processes.iter().map(|process| process.page_tables_bytes).sum(),
            leaves: account.leaves,
            vsz: reserved.and_then(|reserved| Some(sum("VmSize")?.saturating_sub(reserved))),
            reserved,
            rss: sum("VmRSS").unwrap_or(0),
            swap: sum("VmSwap"),
            available: host("MemAvailable"),
            host_swap: host("SwapTotal").and_then(|total| Some(total.saturating_sub(host("SwapFree")?))),
            heap_used: alone
                .and_then(|it| it.heap.as_ref())
                .filter(|heap| heap.tells_use())
                .map(|heap| sane(heap.used)),
            sessions: inventory.server.as_ref().map(|server| server.sessions.len() as u64),
        }
    }
}

/// Which of the parts that leaves come from were read, one bit each; the last is [`WALKED`].
fn sight(inventory: &Inventory) -> u8 {
    let first = inventory.processes.first();
    let parts = [
        inventory.server.is_some(),
        // their ranges alone say nothing of what is resident
        first.is_some_and(|it| measured(it).is_some()),
        first.is_some_and(|it| it.contexts.is_some()),
        first.is_some_and(|it| it.heap.is_some()),
    ];
    parts.into_iter().fold(0, |bits, part| bits << 1 | u8::from(part))
}

fn sum(inventory: &Inventory, name: &str) -> Option<u64> {
    let each: Vec<u64> = inventory.processes.iter().filter_map(|it| it.status.get(name).map(|it| sane(*it))).collect();
    (!each.is_empty()).then(|| each.into_iter().fold(0, u64::saturating_add))
}

/// The reserved addresses of the first process, in which a server of threads reserves its pool. `None`: its mappings were not read.
fn reserved(inventory: &Inventory) -> Option<u64> {
    let mappings = inventory.processes.first()?.mappings.as_deref()?;
    let classes = classes(inventory.processes.first()?, inventory);
    let large = mappings.iter().zip(&classes).filter(|(_, class)| **class == Class::Reserved);
    Some(large.map(|(mapping, _)| length(mapping)).filter(|bytes| *bytes >= RESERVATION).fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HeapWalk, HostSeen, Mapping, ProcessSeen, ServerSeen, Session};
    use capability::Flavour;

    const MIB: u64 = 1 << 20;
    const TIB: u64 = 1 << 40;

    fn named(sizes: &[(&str, u64)]) -> BTreeMap<String, u64> {
        sizes.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect()
    }

    /// A server with so much in its heap, of which so much is free; `sees` takes parts away.
    fn inventory(heap: u64, free: u64, sees: impl FnOnce(&mut Inventory)) -> Inventory {
        let at = 0x5000_0000_0000;
        let heap_mapping = Mapping {
            start: at,
            end: at + heap,
            permissions: "rw-p".into(),
            path: "[heap]".into(),
            rss: heap,
            pss: heap,
            anonymous: heap,
            ..Mapping::default()
        };
        let reservation = Mapping {
            start: 0x10_0000_0000,
            end: 0x10_0000_0000 + 8 * TIB,
            permissions: "---p".into(),
            ..Mapping::default()
        };
        let walk = HeapWalk {
            used: heap - free,
            free,
            free_resident: free,
            resident: heap,
            walked: vec![at],
            ..HeapWalk::default()
        };
        let process = ProcessSeen {
            pid: 7,
            started_ticks: 1,
            status: named(&[("VmSize", 8 * TIB + 900 * MIB), ("VmRSS", heap), ("VmPTE", MIB), ("VmSwap", 0)]),
            mappings: Some(vec![reservation, heap_mapping]),
            heap: Some(walk),
            ..ProcessSeen::default()
        };
        let sessions = vec![Session { bytes: Some(3 * MIB), command: "Sleep".into(), ..Session::default() }];
        let server = ServerSeen { sessions, ..ServerSeen::default() };
        let meminfo = named(&[("MemAvailable", 500 * MIB), ("SwapTotal", 10 * MIB), ("SwapFree", 4 * MIB)]);
        let mut inventory = Inventory {
            flavour: Some(Flavour::Mariadb),
            version: Some("10.11.19-MariaDB".into()),
            processes: vec![process],
            server: Some(server),
            host: HostSeen { meminfo, ..HostSeen::default() },
            ..Inventory::default()
        };
        sees(&mut inventory);
        inventory
    }

    fn resident<'a>(over_time: &'a OverTime, path: &str) -> &'a [Option<u64>] {
        &over_time.leaves.iter().find(|leaf| leaf.path == path).expect("the leaf").resident_bytes
    }

    #[test]
    fn columns_are_as_long_as_the_times_and_sum_to_the_total() {
        let mib = |heap, free| inventory(heap * MIB, free * MIB, |_| {});
        // given out of order
        let over = over_time([(20, mib(60, 20)), (10, mib(50, 5)), (30, mib(70, 0))]);
        assert_eq!(over.at_us, [10, 20, 30]);
        assert_eq!(over.kernel_total_bytes, [51, 61, 71].map(|mib| mib * MIB));
        assert_eq!(resident(&over, "allocator/retained"), [5, 20, 0].map(|mib| Some(mib * MIB)));
        assert_eq!(resident(&over, "sessions/idle"), [Some(3 * MIB); 3]);
        assert_eq!(over.heap_used_bytes, [45, 40, 70].map(|mib| Some(mib * MIB)));
        assert_eq!(over.unexplained_bytes, [42, 37, 67].map(|mib| Some(mib * (1 << 20))));
        for at in 0..3 {
            let leaves: u64 = over.leaves.iter().filter_map(|leaf| leaf.resident_bytes[at]).sum();
            let unexplained = over.unexplained_bytes[at].expect("whole");
            assert_eq!(leaves.checked_add_signed(unexplained), Some(over.kernel_total_bytes[at]));
        }
        assert_eq!(over.page_tables_bytes, [MIB; 3]);
        assert_eq!((over.host_available_bytes[0], over.host_swap_bytes[0]), (Some(500 * MIB), Some(6 * MIB)));
    }

    #[test]
    fn spans_in_use_are_no_blocks_in_use() {
        let over = over_time([(
            10,
            inventory(50 * MIB, 5 * MIB, |inventory| {
                let heap = inventory.processes[0].heap.as_mut().expect("a walk");
                heap.layout = HeapWalk::PAGE_HEAP.to_owned();
            }),
        )]);
        assert_eq!(resident(&over, "allocator/retained"), [Some(5 * MIB)]);
        assert_eq!(over.heap_used_bytes, [None]);
    }

    #[test]
    fn a_reservation_of_8_tib_stands_apart_from_the_address_space() {
        let over = over_time([(0, inventory(50 * MIB, 0, |_| {}))]);
        assert_eq!((over.vsz_bytes[0], over.reserved_bytes[0]), (Some(900 * MIB), Some(8 * TIB)));
        let unseen = over_time([(0, inventory(50 * MIB, 0, |it| it.processes[0].mappings = None))]);
        assert_eq!((unseen.vsz_bytes[0], unseen.reserved_bytes[0]), (None, None), "what is reserved is not known");
    }

    #[test]
    fn what_one_inventory_did_not_read_is_unknown_and_not_nothing() {
        let whole = || inventory(50 * MIB, 5 * MIB, |_| {});
        let blind = inventory(50 * MIB, 5 * MIB, |it| {
            it.server = None;
            it.processes[0].heap = None;
        });
        let over = over_time([(0, whole()), (1, blind), (2, whole())]);
        assert_eq!(resident(&over, "sessions/idle"), [Some(3 * MIB), None, Some(3 * MIB)]);
        assert_eq!(resident(&over, "allocator/retained"), [Some(5 * MIB), None, Some(5 * MIB)]);
        assert_eq!(over.unexplained_bytes, [Some(42 << 20), None, Some(42 << 20)]);
        assert_eq!(over.sessions, [Some(1), None, Some(1)]);
    }

    /// A reading that has run out of its budget has the ranges of mappings, and not what is resident in them.
    #[test]
    fn mappings_without_figures_make_no_leaf_zero() {
        let whole = || inventory(50 * MIB, 5 * MIB, |_| {});
        let ranges = inventory(50 * MIB, 5 * MIB, |it| {
            it.processes[0].heap = None;
            for mapping in it.processes[0].mappings.iter_mut().flatten() {
                (mapping.rss, mapping.pss, mapping.anonymous) = (0, 0, 0);
            }
        });
        let over = over_time([(0, ranges), (1, whole()), (2, whole())]);
        assert_eq!(resident(&over, "allocator/retained"), [None, Some(5 * MIB), Some(5 * MIB)]);
        assert_eq!(over.unexplained_bytes, [None, Some(42 << 20), Some(42 << 20)]);
    }

    /// A recording's budget may leave time for a walk now and then only.
    #[test]
    fn a_rare_walk_does_not_make_the_others_unknown() {
        let rest = || inventory(50 * MIB, 5 * MIB, |it| it.processes[0].heap = None);
        let walked = inventory(50 * MIB, 5 * MIB, |_| {});
        let over = over_time([(0, walked), (1, rest()), (2, rest()), (3, rest())]);
        assert_eq!(
            over.unexplained_bytes,
            [Some(47 << 20); 4],
            "free chunks are among what is unexplained, in all alike"
        );
        assert!(over.leaves.iter().all(|leaf| leaf.path != "allocator/retained"));
        assert_eq!(over.heap_retained_bytes, [Some(5 * MIB), None, None, None]);
        assert_eq!(over.heap_used_bytes, [Some(45 * MIB), None, None, None]);
    }

    #[test]
    fn another_process_is_another_start() {
        let of = |pid: u32, ticks: u64| {
            inventory(50 * MIB, 0, |it| (it.processes[0].pid, it.processes[0].started_ticks) = (pid, ticks))
        };
        // the second start has the pid of the first one again
        let over = over_time([(0, of(7, 1)), (1, of(7, 1)), (2, of(9, 5)), (3, of(9, 8))]);
        assert_eq!(over.starts, [0, 0, 1, 2]);
        assert!(over_time([]).at_us.is_empty());
    }
}
