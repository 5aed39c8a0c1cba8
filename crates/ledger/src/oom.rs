// SPDX-License-Identifier: Apache-2.0
//! Which processes the kernel's OOM killer would kill, in which order, and why: `oom_badness` of mm/oom_kill.c and `proc_oom_score` of fs/proc/base.c, as
//! they are from Linux 5.9 on; the scores also as they were before. All resident memory counts, with shared pages in full (Rss, not Pss). Huge pages do not count.

use crate::danger::{Arena, Oom, Victim};
use crate::share::{sane, signed};
use crate::{Candidate, CgroupSeen, HostSeen, Inventory, advice, last_kill, worst};
use std::collections::BTreeSet;

/// The number of processes with the same badness that are named on either side.
const MOST_TIES: usize = 50;
/// Never killed: `OOM_SCORE_ADJ_MIN`.
const NEVER: i64 = -1000;

/// `oom_badness`, in pages. `None`: never killed.
pub fn badness(candidate: &Candidate, total_pages: u64, page_bytes: u64) -> Option<i64> {
    let is_killable = candidate.oom_score_adj > NEVER && has_memory(candidate) && !is_init(candidate);
    is_killable.then(|| points(candidate, page_bytes) + adjustment(candidate.oom_score_adj, total_pages))
}

/// The value of /proc/PID/oom_score; 0 for a process that is never killed.
pub fn oom_score(badness: Option<i64>, total_pages: u64) -> i64 {
    let total = signed(sane(total_pages)).max(1);
    // the kernel's division truncates towards zero, as this one does
    badness.map_or(0, |badness| ((1000 + badness.saturating_mul(1000) / total) * 2 / 3).max(0))
}

/// The same before Linux 5.9: a thousandth of the memory is 1, and nobody who can be killed has less badness than a page.
fn oom_score_before_5_9(badness: Option<i64>, total_pages: u64) -> i64 {
    let total = signed(sane(total_pages)).max(1);
    badness.map_or(0, |badness| badness.max(1).saturating_mul(1000) / total)
}

/// Which of the two a kernel has is not told by its version, because distributions change old ones: from 5.9 on a process without an adjustment has 666 or more.
fn is_before_5_9(candidates: &[Candidate]) -> bool {
    let plain = candidates.iter().filter(|it| it.oom_score_adj == 0 && it.pid != 1 && has_memory(it));
    let scores: Vec<i64> = plain.filter_map(|it| it.oom_score).collect();
    scores.iter().filter(|score| **score < 600).count() * 2 > scores.len()
}

/// Predicts for all candidates of the inventory.
pub fn oom(inventory: &Inventory) -> Oom {
    let page = page_bytes(inventory);
    let host_total = total(&inventory.host);
    let all: Vec<&Candidate> = inventory.host.candidates.iter().collect();
    let (headroom_bytes, headroom_source) = host_headroom(&inventory.host);
    let host = Arena {
        total_bytes: host_total,
        headroom_bytes,
        headroom_source,
        headroom_at_peak_bytes: None,
        victims: victims(&all, host_total / page, host_total / page, (inventory, None)),
    };
    let cgroup = inventory.cgroup.as_ref().and_then(|cgroup| in_cgroup(cgroup, inventory, host_total / page));
    let (growth, unknown) = worst::growth(inventory);
    let at_peak = |arena: Arena| Arena {
        headroom_at_peak_bytes: growth.and_then(|growth| arena.headroom_after(growth)),
        ..arena
    };
    let (host, cgroup) = (at_peak(host), cgroup.map(at_peak));
    let last_kill = last_kill(&inventory.host.kernel_log);
    let missing = inventory.missing.iter().cloned().chain(unknown).collect();
    Oom { schema: 1, advice: advice::of(inventory, &host), host, cgroup, last_kill, missing }
}

fn page_bytes(inventory: &Inventory) -> u64 {
    if inventory.page_bytes == 0 { 4096 } else { inventory.page_bytes }
}

fn field(host: &HostSeen, name: &str) -> u64 {
    host.meminfo.get(name).map_or(0, |bytes| sane(*bytes))
}

fn total(host: &HostSeen) -> u64 {
    field(host, "MemTotal") + field(host, "SwapTotal")
}

/// Threads of the kernel have no memory of their own.
fn has_memory(candidate: &Candidate) -> bool {
    candidate.rss > 0 || candidate.swap > 0 || candidate.page_tables > 0
}

/// The host's first process is spared. In a container, process 1 is another one; its score tells them apart.
fn is_init(candidate: &Candidate) -> bool {
    candidate.pid == 1 && candidate.oom_score == Some(0)
}

fn points(candidate: &Candidate, page: u64) -> i64 {
    let page = page.max(1);
    let pages = |bytes: u64| signed(sane(bytes) / page);
    pages(candidate.rss) + pages(candidate.swap) + pages(candidate.page_tables)
}

fn adjustment(adj: i64, total_pages: u64) -> i64 {
    adj.clamp(-1000, 1000) * signed(sane(total_pages) / 1000)
}

/// Whether a cgroup is `group`, or below it.
fn is_inside(cgroup: &str, group: &str) -> bool {
    let rest = cgroup.strip_prefix(group.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The cgroup that is killed whole with a process of `cgroup` (`mem_cgroup_get_oom_group` in mm/memcontrol.c). `domain`: the cgroup that has run out of memory;
/// `None`: the host has.
fn killed_whole<'a>(groups: &'a [String], cgroup: &str, domain: Option<&str>) -> Option<&'a str> {
    let is_asked = |group: &str| is_inside(cgroup, group) && domain.is_none_or(|domain| is_inside(group, domain));
    groups.iter().map(String::as_str).rfind(|group| is_asked(group))
}

fn victims(
    candidates: &[&Candidate],
    arena_pages: u64,
    host_pages: u64,
    (inventory, domain): (&Inventory, Option<&str>),
) -> Vec<Victim> {
    let page = page_bytes(inventory);
    let groups = inventory.cgroup.as_ref().map_or(&[][..], |cgroup| &cgroup.oom_groups);
    let is_old = is_before_5_9(&inventory.host.candidates);
    let of_one = |it: &&Candidate| Victim {
        killed_with: killed_whole(groups, &it.cgroup, domain).map(str::to_owned),
        ..victim(it, [arena_pages, host_pages], page, is_old)
    };
    let mut victims: Vec<Victim> = candidates.iter().map(of_one).collect();
    // of processes with the same badness, the kernel takes the last in its list, which is in the order of their start: mostly the one with the largest pid
    victims.sort_by_key(|it| std::cmp::Reverse((it.badness_pages, it.pid)));
    let own: BTreeSet<u32> = inventory.processes.iter().map(|process| process.pid).collect();
    for index in 0..victims.len() {
        victims[index].is_server = own.contains(&victims[index].pid);
        victims[index].tied_with = ties(&victims, index);
    }
    victims
}

/// `is_old`: by the rules before Linux 5.9.
fn victim(candidate: &Candidate, [arena_pages, host_pages]: [u64; 2], page: u64, is_old: bool) -> Victim {
    let predicted = if is_old { oom_score_before_5_9 } else { oom_score };
    let pages = badness(candidate, arena_pages, page);
    Victim {
        pid: candidate.pid,
        command: candidate.command.clone(),
        is_server: false,
        oom_score_predicted: predicted(badness(candidate, host_pages, page), host_pages),
        oom_score: candidate.oom_score,
        oom_score_adj: candidate.oom_score_adj,
        badness_pages: pages.map(|pages| if is_old { pages.max(1) } else { pages }),
        rss_bytes: candidate.rss,
        swap_bytes: candidate.swap,
        page_tables_bytes: candidate.page_tables,
        adjustment_bytes: adjustment(candidate.oom_score_adj, arena_pages).saturating_mul(signed(sane(page))),
        tied_with: Vec::new(),
        killed_with: None,
    }
}

/// They lie side by side, because the victims are in order.
fn ties(victims: &[Victim], index: usize) -> Vec<u32> {
    let own = victims[index].badness_pages;
    if own.is_none() {
        return Vec::new();
    }
    let is_equal = |it: &&Victim| it.badness_pages == own;
    let before = victims[..index].iter().rev().take_while(is_equal).take(MOST_TIES);
    let after = victims[index + 1..].iter().take_while(is_equal).take(MOST_TIES);
    before.chain(after).map(|it| it.pid).collect()
}

fn host_headroom(host: &HostSeen) -> (Option<i64>, String) {
    let available = host.meminfo.get("MemAvailable").map(|it| signed(sane(*it) + field(host, "SwapFree")));
    (available, "/proc/meminfo, MemAvailable + SwapFree".into())
}

/// The group may use its limit, and as much of the host's swap as it is allowed (mem_cgroup_get_max in mm/memcontrol.c, Linux 6.1). Only its own
/// processes, and those of groups below it, are killed.
fn in_cgroup(cgroup: &CgroupSeen, inventory: &Inventory, host_pages: u64) -> Option<Arena> {
    let limit = sane(cgroup.limit?);
    let swap = if may_swap(cgroup, &inventory.host) { field(&inventory.host, "SwapTotal") } else { 0 };
    let total_bytes = limit + cgroup.swap_limit.map_or(swap, |most| swap.min(sane(most)));
    let candidates: Vec<&Candidate> =
        inventory.host.candidates.iter().filter(|it| is_inside(&it.cgroup, &cgroup.path)).collect();
    let (headroom_bytes, headroom_source) = cgroup_headroom(cgroup, limit, &inventory.host);
    let victims =
        victims(&candidates, total_bytes / page_bytes(inventory), host_pages, (inventory, Some(&cgroup.path)));
    Some(Arena { total_bytes, headroom_bytes, headroom_source, headroom_at_peak_bytes: None, victims })
}

/// The kernel frees page cache of files before it kills a process; shared memory counts as anonymous memory and stays.
fn cgroup_headroom(cgroup: &CgroupSeen, limit: u64, host: &HostSeen) -> (Option<i64>, String) {
    let field = |names: &[&str]| names.iter().find_map(|name| cgroup.stat.get(*name)).map_or(0, |it| sane(*it));
    let active = field(&["total_active_file", "active_file"]);
    let files = active + field(&["total_inactive_file", "inactive_file"]) + field(&["slab_reclaimable"]);
    let (swap, swap_source) = cgroup_swap(cgroup, host);
    let headroom = cgroup.current.map(|current| signed(limit) - signed(sane(current)) + signed(files) + swap);
    let source =
        format!("limit - usage + active_file + inactive_file + slab_reclaimable of memory.stat; swap: {swap_source}");
    (headroom, source)
}

/// With `vm.swappiness` = 0 the kernel never swaps for the sake of a cgroup's limit, only when the whole host runs out (get_scan_count in mm/vmscan.c,
/// mem_cgroup_get_max in mm/memcontrol.c). Version 1 has a value of its own for each group, which is not read.
fn may_swap(cgroup: &CgroupSeen, host: &HostSeen) -> bool {
    cgroup.version == 1 || host.settings.get("vm/swappiness").is_none_or(|value| value.trim() != "0")
}

/// The swap that the group may still fill, and how it is known. Version 1 limits memory and swap together: where the swap in use is more than the limit
/// grants beside the memory, the rest cannot be used as memory either, and the figure is below zero.
fn cgroup_swap(cgroup: &CgroupSeen, host: &HostSeen) -> (i64, String) {
    let free = signed(field(host, "SwapFree"));
    let is_first = cgroup.version == 1;
    if !may_swap(cgroup, host) {
        return (0, "none, because vm.swappiness is 0".into());
    }
    match (cgroup.swap_limit, cgroup.swap_current) {
        (None, _) => (free, "SwapFree, because the group has no limit of swap".into()),
        (Some(limit), Some(current)) => {
            let left = signed(sane(limit)) - signed(sane(current));
            let names = match is_first {
                true => "memory.memsw.limit_in_bytes - limit - (memory.memsw.usage_in_bytes - usage)",
                false => "memory.swap.max - memory.swap.current",
            };
            let left = if is_first { left } else { left.max(0) };
            (left.min(free), format!("the less of {names} and SwapFree"))
        }
        (Some(0), None) if !is_first => (0, "none, because memory.swap.max is 0".into()),
        (Some(_), None) => {
            let name = if is_first { "memory.memsw.usage_in_bytes" } else { "memory.swap.current" };
            (0, format!("none is added, because {name} was not read"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mapping, ProcessSeen, ServerSeen, Session};

    const KIB: u64 = 1 << 10;

    fn candidate(pid: u32, rss: u64, page_tables: u64, adj: i64) -> Candidate {
        Candidate { pid, rss, page_tables, oom_score_adj: adj, cgroup: "/db/pg".into(), ..Candidate::default() }
    }

    fn inventory(candidates: Vec<Candidate>) -> Inventory {
        let meminfo = [("MemTotal".to_owned(), 24_684_092 * KIB)].into();
        Inventory { host: HostSeen { meminfo, candidates, ..HostSeen::default() }, ..Inventory::default() }
    }

    #[test]
    fn a_cgroup_has_no_more_swap_than_it_is_allowed() {
        let mut inventory = inventory(vec![candidate(30, 100 * 1024 * KIB, 0, 0), candidate(31, 8 * KIB, 0, 20)]);
        inventory.host.meminfo.insert("SwapTotal".into(), 8 << 30);
        let mut first = |swap_limit| {
            inventory.cgroup =
                Some(CgroupSeen { path: "/db/pg".into(), limit: Some(256 << 20), swap_limit, ..CgroupSeen::default() });
            let arena = oom(&inventory).cgroup.expect("a limit");
            (arena.total_bytes >> 20, arena.victims[0].pid)
        };
        // an adjustment of 20 weighs 2 % of all that the group may use
        assert_eq!([first(None), first(Some(0)), first(Some(1 << 20))], [(8448, 31), (256, 30), (257, 30)]);
        // of version 2
        inventory.host.settings.insert("vm/swappiness".into(), "0\n".into());
        inventory.host.meminfo.insert("SwapFree".into(), 8 << 30);
        let (path, limit, current) = ("/db/pg".into(), Some(256 << 20), Some(200 << 20));
        inventory.cgroup = Some(CgroupSeen { path, version: 2, limit, current, ..CgroupSeen::default() });
        let arena = oom(&inventory).cgroup.expect("a limit");
        assert_eq!((arena.total_bytes >> 20, arena.headroom_bytes), (256, Some(56 << 20)), "{}", arena.headroom_source);
    }

    /// The topmost group below the one that has run out of memory is killed whole; a group above that is not.
    #[test]
    fn a_group_that_is_killed_whole_is_told_for_each_of_its_processes() {
        let elsewhere = Candidate { cgroup: "/web".into(), ..candidate(40, 900 * KIB, 0, 0) };
        let below = Candidate { cgroup: "/db/pg/worker".into(), ..candidate(31, 8 * KIB, 0, 0) };
        let mut inventory = inventory(vec![candidate(30, 100 * KIB, 0, 0), below, elsewhere]);
        let mut killed_with = |path: &str, groups: &[&str]| {
            let oom_groups = groups.iter().map(ToString::to_string).collect();
            inventory.cgroup =
                Some(CgroupSeen { path: path.into(), limit: Some(256 << 20), oom_groups, ..CgroupSeen::default() });
            let told = oom(&inventory);
            [told.host, told.cgroup.expect("a limit")].map(|arena| {
                let mut told: Vec<_> = arena.victims.into_iter().map(|it| (it.pid, it.killed_with)).collect();
                told.sort();
                told.into_iter().map(|(_, group)| group.unwrap_or_default()).collect::<Vec<_>>()
            })
        };
        assert_eq!(killed_with("/db/pg", &["/db/pg"]), [vec!["/db/pg", "/db/pg", ""], vec!["/db/pg", "/db/pg"]]);
        assert_eq!(killed_with("/db/pg", &["/db/pg", "/db"]), [vec!["/db", "/db", ""], vec!["/db/pg", "/db/pg"]]);
        assert_eq!(killed_with("/db", &["/db/pg/worker"]), [vec!["", "/db/pg/worker", ""], vec!["", "/db/pg/worker"]]);
        assert_eq!(killed_with("/db/pg", &["/db"]), [vec!["/db", "/db", ""], vec!["", ""]]);
    }

    /// The host and the figures of the facts: 24,684,092 kB without swap.
    #[test]
    fn scores_as_the_kernel_gave_them() {
        let total = 24_684_092 / 4;
        let score = |it: &Candidate| oom_score(badness(it, total, 4096), total);
        assert_eq!(score(&candidate(9, 448_320 * KIB, 996 * KIB, 0)), 678);
        assert_eq!(score(&candidate(9, 54_836 * KIB, 200 * KIB, 0)), 668);
        assert_eq!(score(&candidate(9, 4 * KIB, 4 * KIB, 0)), 666);
        assert_eq!(score(&candidate(9, 4 * KIB, 4 * KIB, 1000)), 1332);
        assert_eq!(score(&candidate(9, 448_320 * KIB, 996 * KIB, -1000)), 0);
        assert_eq!(score(&candidate(2, 0, 0, 0)), 0, "a thread of the kernel");
    }

    /// A kernel that scores 448 MB of 24.7 GB with 18; processes that are spared are all alike there.
    #[test]
    fn scores_of_an_older_kernel() {
        let of = |pid, rss, adj, score| Candidate { oom_score: Some(score), ..candidate(pid, rss, 0, adj) };
        let some = vec![of(9, 449_316 * KIB, 0, 18), of(10, 4 * KIB, 0, 0), of(11, 900_000 * KIB, -900, 0)];
        let victims = oom(&inventory(some)).host.victims;
        let told: Vec<_> = victims.iter().map(|it| (it.pid, it.oom_score_predicted, it.badness_pages)).collect();
        assert_eq!(told, [(9, 18, Some(112_329)), (11, 0, Some(1)), (10, 0, Some(1))]);
        assert_eq!(victims[1].tied_with, [10]);
    }

    #[test]
    fn the_order_and_its_ties() {
        let some = vec![
            candidate(10, 100 * KIB, 4 * KIB, 0),
            candidate(11, 200 * KIB, 4 * KIB, 0),
            candidate(12, 200 * KIB, 4 * KIB, 0),
            candidate(13, 900 * KIB, 4 * KIB, -1000),
            candidate(14, 4 * KIB, 4 * KIB, 500),
        ];
        let victims = oom(&inventory(some)).host.victims;
        assert_eq!(victims.iter().map(|it| it.pid).collect::<Vec<_>>(), [14, 12, 11, 10, 13]);
        assert_eq!((&victims[1].tied_with[..], &victims[2].tied_with[..]), (&[11][..], &[12][..]));
        assert_eq!((victims[4].badness_pages, victims[4].oom_score_predicted), (None, 0));
    }

    #[test]
    fn in_a_cgroup_only_its_own_are_killed_and_the_adjustment_weighs_by_its_limit() {
        let outside = Candidate { cgroup: "/db/pg2".into(), ..candidate(20, 900 * KIB, 0, 0) };
        let below = Candidate { cgroup: "/db/pg/worker".into(), ..candidate(21, 8 * KIB, 0, 100) };
        let mut inventory = inventory(vec![outside, below, candidate(22, 400 * KIB, 0, 0)]);
        let limit = Some(4_096_000);
        let stat = [("inactive_file".to_owned(), 96_000)].into();
        inventory.cgroup =
            Some(CgroupSeen { path: "/db/pg".into(), limit, current: Some(4_000_000), stat, ..CgroupSeen::default() });
        let arena = oom(&inventory).cgroup.expect("a limit");
        assert_eq!(
            arena.victims.iter().map(|it| (it.pid, it.badness_pages)).collect::<Vec<_>>(),
            [(21, Some(102)), (22, Some(100))]
        );
        assert_eq!(arena.headroom_bytes, Some(192_000));
        assert_eq!(arena.headroom_after(200_000), Some(-8_000));
    }

    /// 3 of 5 MB are used, and the host has 2 MB of swap left.
    #[test]
    fn the_headroom_of_a_cgroup_has_the_swap_that_it_may_still_fill() {
        let headroom = |version, swap_limit, swap_current| {
            let mut inventory = inventory(vec![]);
            inventory.host.meminfo.insert("SwapFree".into(), 2_000_000);
            let (limit, current) = (Some(5_000_000), Some(3_000_000));
            let seen = CgroupSeen { version, limit, current, swap_limit, swap_current, ..CgroupSeen::default() };
            inventory.cgroup = Some(seen);
            let arena = oom(&inventory).cgroup.expect("a limit");
            (arena.headroom_bytes.expect("its usage is known"), arena.headroom_source)
        };
        assert_eq!(headroom(2, Some(900_000), Some(300_000)).0, 2_600_000, "what its limit leaves");
        assert_eq!(headroom(2, Some(9_000_000), Some(300_000)).0, 4_000_000, "what the host has");
        assert_eq!(headroom(2, Some(100_000), Some(300_000)).0, 2_000_000, "its limit was lowered");
        assert_eq!(headroom(2, None, None).0, 4_000_000, "no limit of swap");
        assert_eq!(headroom(1, Some(900_000), Some(300_000)).0, 2_600_000);
        assert_eq!(headroom(1, Some(0), Some(300_000)).0, 1_700_000, "memory and swap have one limit together");
        let (bytes, source) = headroom(2, Some(900_000), None);
        assert!(bytes == 2_000_000 && source.contains("memory.swap.current was not read"), "{source}");
        let (bytes, source) = headroom(1, Some(0), None);
        assert!(bytes == 2_000_000 && source.contains("memory.memsw.usage_in_bytes was not read"), "{source}");
        let (bytes, source) = headroom(2, Some(0), None);
        assert!(bytes == 2_000_000 && source.ends_with("memory.swap.max is 0"), "{source}");
    }

    /// A server of 100 MiB that had 130 MiB once, in a group that has 192,000 bytes left.
    fn with_a_server() -> Inventory {
        let mut inventory = inventory(vec![]);
        inventory.host.meminfo.insert("MemAvailable".into(), 1 << 30);
        let status = [("RssAnon", 100 << 20), ("VmRSS", 100 << 20), ("VmHWM", 130 << 20)];
        let status = status.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
        inventory.processes = vec![ProcessSeen { pid: 7, role: "mysqld".into(), status, ..ProcessSeen::default() }];
        let (limit, current) = (Some(4_192_000), Some(4_000_000));
        inventory.cgroup = Some(CgroupSeen { version: 2, limit, current, ..CgroupSeen::default() });
        inventory
    }

    #[test]
    fn the_headroom_at_the_realistic_peak() {
        let mut inventory = with_a_server();
        let of = |inventory: &Inventory| {
            let oom = oom(inventory);
            let cgroup = oom.cgroup.expect("a limit").headroom_at_peak_bytes;
            let what: Vec<String> = oom.missing.into_iter().map(|missing| missing.what).collect();
            (oom.host.headroom_at_peak_bytes, cgroup, what)
        };
        let at_peak = (Some((1 << 30) - (30 << 20)), Some(192_000 - (30 << 20)));
        assert_eq!(of(&inventory), (at_peak.0, at_peak.1, vec!["high-water marks of sessions".to_owned()]));
        let status = |connections: [&str; 2]| {
            let names = ["Threads_connected", "Max_used_connections"];
            names.map(str::to_owned).into_iter().zip(connections.map(str::to_owned)).collect()
        };
        inventory.server = Some(ServerSeen { status: status(["2", "2"]), ..ServerSeen::default() });
        assert_eq!(of(&inventory), (at_peak.0, at_peak.1, vec![]));
        inventory.server = Some(ServerSeen { status: status(["2", "5"]), ..ServerSeen::default() });
        assert_eq!(of(&inventory).2, ["the memory of 3 more connections"], "a part of the peak is not counted");
        let session = Session { bytes: Some(1 << 20), bytes_max: Some(51 << 20), ..Session::default() };
        inventory.server.iter_mut().for_each(|server| server.sessions = vec![session.clone()]);
        let more = (50 << 20) + 3 * (51 << 20);
        assert_eq!(of(&inventory), (Some((1 << 30) - more), Some(192_000 - more), vec![]), "the sessions grow more");
        inventory.processes.clear();
        assert_eq!(of(&inventory), (None, None, vec!["the server's realistic peak".to_owned()]));
    }

    /// They are reserved before, and neither MemAvailable nor memory.max counts them.
    #[test]
    fn huge_pages_are_no_part_of_the_growth() {
        let mut inventory = with_a_server();
        let before = oom(&inventory).host.headroom_at_peak_bytes;
        let mapping = |start: u64, rss, private_hugetlb| Mapping {
            start: start << 30,
            end: (start + 1) << 30,
            permissions: "rw-p".into(),
            rss,
            pss: rss,
            anonymous: rss,
            private_hugetlb,
            ..Mapping::default()
        };
        inventory.processes[0].mappings = Some(vec![mapping(1, 100 << 20, 0), mapping(2, 0, 512 << 20)]);
        assert_eq!((oom(&inventory).host.headroom_at_peak_bytes, before), (before, Some((1 << 30) - (30 << 20))));
    }

    #[test]
    fn what_an_older_build_kept_is_read() {
        let arena: Arena = serde_json::from_str(
            r#"{"total_bytes": 7, "headroom_bytes": 5, "headroom_source": "MemAvailable", "victims": []}"#,
        )
        .expect("an arena");
        assert_eq!((arena.headroom_bytes, arena.headroom_at_peak_bytes), (Some(5), None));
        let cgroup: CgroupSeen = serde_json::from_str(
            r#"{"path": "/db", "version": 2, "current": 4, "limit": 7, "stat": {}, "oom_group": null, "strangers": 0}"#,
        )
        .expect("a cgroup");
        assert_eq!((cgroup.swap_limit, cgroup.swap_current), (None, None));
    }
}
