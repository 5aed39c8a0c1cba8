// SPDX-License-Identifier: Apache-2.0
//! The kernel's pools of huge pages: one for each size, with the share of each NUMA node (kernel, admin-guide/mm/hugetlbpage.rst).

use ledger::huge_pages::{NodePool, Pool};
use std::fs;
use std::path::Path;

pub(super) fn read() -> Vec<Pool> {
    below(Path::new("/sys/kernel/mm/hugepages"), Path::new("/sys/devices/system/node"))
}

/// The pools, the smallest pages first.
fn below(hugepages: &Path, nodes: &Path) -> Vec<Pool> {
    let entries = fs::read_dir(hugepages).into_iter().flatten().flatten();
    let mut pools: Vec<Pool> = entries.filter_map(|entry| pool(&entry.path(), nodes)).collect();
    pools.sort_by_key(|pool| pool.page_bytes);
    pools
}

/// The pool of a folder such as `hugepages-2048kB`.
fn pool(folder: &Path, nodes: &Path) -> Option<Pool> {
    let name = folder.file_name()?.to_str()?;
    let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    Some(Pool {
        page_bytes: kib.checked_mul(1024)?,
        total: number(&folder.join("nr_hugepages"))?,
        free: number(&folder.join("free_hugepages"))?,
        reserved: number(&folder.join("resv_hugepages"))?,
        surplus: number(&folder.join("surplus_hugepages"))?,
        overcommit: number(&folder.join("nr_overcommit_hugepages"))?,
        nodes: of_nodes(nodes, name),
    })
}

fn of_nodes(nodes: &Path, name: &str) -> Vec<NodePool> {
    let node = |path: &Path| {
        let node = path.file_name()?.to_str()?.strip_prefix("node")?.parse().ok()?;
        let folder = path.join("hugepages").join(name);
        let (total, free) = (number(&folder.join("nr_hugepages"))?, number(&folder.join("free_hugepages"))?);
        Some(NodePool { node, total, free })
    };
    let mut found: Vec<NodePool> =
        fs::read_dir(nodes).into_iter().flatten().flatten().filter_map(|entry| node(&entry.path())).collect();
    found.sort_by_key(|node| node.node);
    found
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn every_size_and_every_node() {
        let root = tempfile::tempdir().unwrap();
        let write = |folder: &str, values: &[(&str, &str)]| {
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            values.iter().for_each(|(name, value)| fs::write(folder.join(name), value).unwrap());
        };
        for (size, total) in [("1048576kB", "1\n"), ("2048kB", "300\n")] {
            let values = [("nr_hugepages", total), ("free_hugepages", "1"), ("resv_hugepages", "1")];
            write(&format!("pools/hugepages-{size}"), &values);
            write(&format!("pools/hugepages-{size}"), &[("surplus_hugepages", "0"), ("nr_overcommit_hugepages", "7")]);
        }
        for (node, total) in [(1, "100\n"), (0, "200\n")] {
            let values = [("nr_hugepages", total), ("free_hugepages", "0\n")];
            write(&format!("nodes/node{node}/hugepages/hugepages-2048kB"), &values);
        }
        let pools = below(&root.path().join("pools"), &root.path().join("nodes"));
        assert_eq!(
            pools.iter().map(|pool| (pool.page_bytes, pool.total)).collect::<Vec<_>>(),
            [(2 << 20, 300), (1 << 30, 1)]
        );
        assert_eq!((pools[0].free, pools[0].reserved, pools[0].overcommit), (1, 1, 7));
        assert_eq!(pools[0].nodes.iter().map(|node| (node.node, node.total)).collect::<Vec<_>>(), [(0, 200), (1, 100)]);
        assert!(pools[1].nodes.is_empty());
    }
}
