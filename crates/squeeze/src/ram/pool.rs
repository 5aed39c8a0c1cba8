// SPDX-License-Identifier: Apache-2.0
//! The pool of huge pages, as in article 1. No process holds it, so it stays when all of Wringer is killed, until it is undone or
//! the machine boots. Any program may take its pages (PostgreSQL does, with `huge_pages = try`): then less is hidden.

use crate::ram::plan::{Options, Plan};
use crate::ram::taken::{Node, Taken};
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

/// The growth of the pool.
pub(crate) struct Grown {
    pub(crate) step: StepId,
    pub(crate) pages: u64,
    /// The reason that `why_stop` gave. `None`: the kernel granted all pages.
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
    let before = pool_pages()?;
    let after = before + pages;
    let mut stopped = None;
    let (step, now) = run.step(Step::HugePool { before, after, nodes: pool_of_nodes() }, |permit| {
        grow_pool(permit, before, after, &mut |_| {
            failpoint("between two requests for huge pages");
            stopped = why_stop();
            if stopped.is_some() {
                return false;
            }
            // Neither is a change to undo, and a failure only costs one try.
            if drop_caches {
                let _ = drop_page_cache(permit);
            }
            let _ = compact_memory(permit);
            std::thread::sleep(PAUSE);
            true
        })
    })?;
    Ok(Grown { step, pages: now.saturating_sub(before), stopped })
}

/// Grows the pool by the planned pages, until the deadline or the host's floor.
pub(super) fn grow(run: &mut Run, plan: &Plan) -> Result<Taken, Error> {
    let (started, nodes_before) = (Instant::now(), nodes(plan.unit_bytes));
    let grown = grow_by(run, plan.units, plan.options.drop_caches, &|| why_stop(plan, started))?;
    let by_node = shares(&nodes_before, &nodes(plan.unit_bytes));
    let stopped = grown.stopped.map(|why| format!("{why}{}", shortfall(&by_node, plan.units)));
    let taken = Taken::without_process(grown.step, grown.pages * plan.unit_bytes, started.elapsed());
    Ok(Taken { stopped, nodes: by_node, ..taken })
}

fn why_stop(plan: &Plan, started: Instant) -> Option<String> {
    let Options { deadline, drop_caches, .. } = plan.options;
    if Meminfo::now().is_ok_and(|now| now.available_bytes < plan.stop_bytes()) {
        return Some(format!("floor: less than {} are available", Bytes(plan.stop_bytes())));
    }
    let advice =
        if drop_caches { "" } else { " (--drop-caches lets it drop the page cache, which is mostly in the way)" };
    (started.elapsed() >= deadline).then(|| format!("the kernel found no more memory in one piece{advice}"))
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
