// SPDX-License-Identifier: Apache-2.0
//! The pool of huge pages, as in article 1. No process holds it, so it stays when all of Wringer is killed, until it is undone or
//! the machine boots. Any program may take its pages (PostgreSQL does, with `huge_pages = try`): then less is hidden.

use crate::ram::plan::Plan;
use crate::ram::refused::Refused;
use crate::ram::taken_ram::{Node, Taken};
use crate::{Error, Meminfo};
use host::change::{compact_memory, drop_page_cache, grow_pool, pool_of_nodes, pool_pages};
use journal::failpoint;
use run::{Run, Step, StepId};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use units::Bytes;

/// The pause between two requests: freed memory becomes contiguous only after a moment.
const PAUSE: Duration = Duration::from_millis(300);

/// About this much is asked for at a time: between two requests the available memory is looked at.
const REQUEST_BYTES: u64 = Bytes::GIB;

/// The growth of the pool.
pub(crate) struct Grown {
    pub(crate) step: StepId,
    pub(crate) pages: u64,
    /// Why no more was asked for. `None`: the kernel granted all pages.
    pub(crate) stopped: Option<String>,
}

/// Grows the pool by `pages`, repeatedly until `why_stop` says why not. Between two tries it compacts memory, and drops the page cache if the
/// user allowed that.
pub(crate) fn grow_by(
    run: &mut Run,
    pages: u64,
    drop_caches: bool,
    why_stop: &dyn Fn() -> Option<String>,
) -> Result<Grown, Error> {
    let next = |refused| if refused == 0 { Ok(pages) } else { why_stop().map_or(Ok(pages), Err) };
    grow_in_requests(run, pages, drop_caches, &next)
}

/// Grows the pool by `pages`. `next` returns the size of the next request, or why there is none, and gets the number of pages that the kernel refused
/// of the request before.
fn grow_in_requests(
    run: &mut Run,
    pages: u64,
    drop_caches: bool,
    next: &dyn Fn(u64) -> Result<u64, String>,
) -> Result<Grown, Error> {
    let (before, seen) = (pool_pages()?, Meminfo::now()?);
    // The kernel first makes the surplus pages of others pages of the pool, which takes no memory (mm/hugetlb.c, set_max_huge_pages). When the pool
    // has its former size again, they are surplus pages again.
    let after = before + seen.huge_surplus_pages + pages;
    let mut stopped = None;
    let (step, _) = run.step(Step::HugePool { before, after, nodes: pool_of_nodes() }, |permit| {
        grow_pool(permit, before, after, &mut |refused| {
            failpoint("before a request for huge pages");
            let pages = next(refused).unwrap_or_else(|why| {
                stopped = Some(why);
                0
            });
            if pages > 0 && refused > 0 {
                // Neither is a change to undo, and a failure only costs one try.
                if drop_caches {
                    let _ = drop_page_cache(permit);
                }
                let _ = compact_memory(permit);
                std::thread::sleep(PAUSE);
            }
            pages
        })
    })?;
    let grown = Meminfo::now()?.huge_total_pages.saturating_sub(seen.huge_total_pages).min(pages);
    Ok(Grown { step, pages: grown, stopped })
}

/// Grows the pool by the planned pages, until the host's floor, or until the deadline when the kernel does not grant all that is asked for.
pub(super) fn grow(run: &mut Run, plan: &Plan) -> Result<Taken, Error> {
    let (started, nodes_before) = (Instant::now(), nodes(plan.unit_bytes));
    let next = |refused| {
        let available = Meminfo::now().map_or(u64::MAX, |now| now.available_bytes);
        let is_over = refused > 0 && started.elapsed() >= plan.options.deadline;
        next_request(plan, available, is_over.then(|| Refused::of_the_pool(plan.unit_bytes)))
    };
    let grown = grow_in_requests(run, plan.units, plan.options.drop_caches, &next)?;
    let by_node = shares(&nodes_before, &nodes(plan.unit_bytes));
    let stopped = grown.stopped.map(|why| format!("{why}{}", shortfall(&by_node, plan.units)));
    let taken = Taken::without_process(grown.step, grown.pages * plan.unit_bytes, started.elapsed());
    Ok(Taken { stopped, nodes: by_node, ..taken })
}

/// The pages to ask for next: they leave the floor available.
fn next_request(plan: &Plan, available_bytes: u64, refused: Option<Refused>) -> Result<u64, String> {
    let (floor, page_bytes) = (plan.stop_bytes(), plan.unit_bytes.max(1));
    let room = available_bytes.saturating_sub(floor) / page_bytes;
    if room == 0 {
        return Err(format!("floor: with another page, less than {} would be available", Bytes(floor)));
    }
    if let Some(refused) = refused {
        let advice = if plan.options.drop_caches {
            ""
        } else {
            " (--drop-caches lets it drop the page cache, which is mostly in the way)"
        };
        return Err(refused.why(&format!("the kernel found no more memory in one piece{advice}")));
    }
    Ok(room.min((REQUEST_BYTES / page_bytes).max(1)))
}

/// The pages of this size on each node, surplus pages included.
fn nodes(page_bytes: u64) -> Vec<Node> {
    nodes_below(Path::new("/sys/devices/system/node"), page_bytes)
}

fn nodes_below(root: &Path, page_bytes: u64) -> Vec<Node> {
    let file = format!("hugepages/hugepages-{}kB/nr_hugepages", page_bytes >> 10);
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let mut found: Vec<Node> = entries
        .filter_map(|entry| {
            let node = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
            let pages = fs::read_to_string(entry.path().join(&file)).ok()?.trim().parse().ok()?;
            Some(Node { node, pages })
        })
        .collect();
    found.sort_by_key(|node| node.node);
    found
}

fn shares(before: &[Node], after: &[Node]) -> Vec<Node> {
    let was = |node: u32| before.iter().find(|it| it.node == node).map_or(0, |it| it.pages);
    after.iter().map(|it| Node { node: it.node, pages: it.pages.saturating_sub(was(it.node)) }).collect()
}

/// The kernel asks the nodes in turn, so each should give the same share (mm/hugetlb.c, alloc_pool_huge_folio).
fn shortfall(by_node: &[Node], asked: u64) -> String {
    let due = asked.div_ceil(by_node.len().max(1) as u64);
    let parts: Vec<String> =
        by_node.iter().map(|it| format!("node {} gave {} of {due} pages", it.node, it.pages)).collect();
    if parts.is_empty() { String::new() } else { format!("; {}", parts.join(", ")) }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use crate::ram::plan::Options;
    use crate::ram::room::Room;
    use evidence::{RamAmount, RamMechanism};

    /// 24 GiB: the floor is 1.2 GiB, and hiding stops at 1.125 GiB.
    fn plan(page_bytes: u64) -> Plan {
        let before = Meminfo { total_bytes: 24 * Bytes::GIB, available_bytes: 20 * Bytes::GIB, ..Meminfo::default() };
        let room = Room::of_host(&before);
        Plan {
            options: Options::new(RamAmount::Hide(Bytes::gib(8))),
            mechanism: RamMechanism::Pool,
            before,
            room,
            unit_bytes: page_bytes,
            units: 8 * Bytes::GIB / page_bytes,
            hide_bytes: 8 * Bytes::GIB,
            floor_bytes: room.floor_bytes(),
            overcommit_before: 0,
            pool_before: 0,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn a_request_leaves_the_floor() {
        let (small, huge, floor) = (plan(2 * Bytes::MIB), plan(Bytes::GIB), plan(1).stop_bytes());
        let next = |plan, above_floor| next_request(plan, floor + above_floor, None).ok();
        assert_eq!((next(&small, 8 * Bytes::GIB), next(&huge, 8 * Bytes::GIB)), (Some(512), Some(1)));
        assert_eq!((next(&small, 5 * Bytes::MIB), next(&huge, Bytes::GIB)), (Some(2), Some(1)));
        assert_eq!((next(&small, 2 * Bytes::MIB - 1), next(&huge, Bytes::GIB - 1)), (None, None));
        assert_eq!(next_request(&small, 0, None).expect_err("nothing is left").split(':').next(), Some("floor"));
        let refused = Refused { surplus: 0, cap: None, free_blocks: 0 };
        let over = next_request(&small, 8 * Bytes::GIB, Some(refused)).expect_err("the deadline has passed");
        assert!(over.contains("in one piece"), "{over}");
        assert_eq!(next(&plan(16 * Bytes::GIB), 32 * Bytes::GIB), Some(1), "at least one page");
    }

    #[test]
    fn the_shortfall_is_told_node_by_node() {
        let root = tempfile::tempdir().expect("a folder");
        for (node, pages) in [(0, "700\n"), (1, "120\n")] {
            let folder = root.path().join(format!("node{node}/hugepages/hugepages-2048kB"));
            fs::create_dir_all(&folder).expect("makes");
            fs::write(folder.join("nr_hugepages"), pages).expect("writes");
        }
        fs::write(root.path().join("online"), "0-1\n").expect("writes");
        let now = nodes_below(root.path(), 2 << 20);
        assert_eq!(now, [Node { node: 0, pages: 700 }, Node { node: 1, pages: 120 }]);
        let got = shares(&[Node { node: 0, pages: 188 }, Node { node: 1, pages: 100 }], &now);
        assert_eq!(shortfall(&got, 1024), "; node 0 gave 512 of 512 pages, node 1 gave 20 of 512 pages");
    }
}
