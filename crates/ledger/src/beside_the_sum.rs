// SPDX-License-Identifier: Apache-2.0
//! Memory that a server causes outside of the sum: it is shown beside the sum, and never added.

use crate::entries::Beside;
use crate::share::sane;
use crate::{CgroupSeen, FilesSeen, HostSeen, Inventory, Missing};

/// The kernel's stack of one thread, on x86-64: THREAD_SIZE of arch/x86/include/asm/page_64_types.h.
const KERNEL_STACK: u64 = 16 << 10;

pub(crate) fn of(inventory: &Inventory) -> Vec<Beside> {
    let mut beside = of_processes(inventory);
    beside.extend(inventory.files.iter().flat_map(of_files));
    beside.extend(inventory.cgroup.iter().flat_map(of_cgroup));
    beside.extend(of_host(&inventory.host));
    beside
}

pub(crate) const UNTOLD: &str = "memory beside the sum";

/// What nobody has told of the memory beside the sum.
pub(crate) fn untold(inventory: &Inventory) -> Vec<Missing> {
    inventory.cgroup.iter().filter_map(not_of_cgroup).chain(no_files(inventory)).collect()
}

/// The memory of the server's cgroup that its kernel does not count: a cgroup of version 1 has neither slab nor sockets.
fn not_of_cgroup(cgroup: &CgroupSeen) -> Option<Missing> {
    let is_told = |name: &str| cgroup.stat.contains_key(name);
    let lacks = [("slab", "slab"), ("sock", "sockets")].iter().filter(|(name, _)| !is_told(name));
    let lacks: Vec<&str> = lacks.map(|(_, words)| *words).collect();
    (!lacks.is_empty()).then(|| Missing {
        what: UNTOLD.into(),
        why: format!("memory.stat of cgroup {} has no {}", cgroup.path, lacks.join(", no ")),
        remedy: (cgroup.version == 1).then(|| "a kernel with cgroups of version 2 (cgroup_no_v1=memory)".into()),
    })
}

/// A server that is read repeatedly has its files left alone.
fn no_files(inventory: &Inventory) -> Option<Missing> {
    (inventory.interval.is_some() && inventory.files.is_none()).then(|| Missing {
        what: Missing::FILES.into(),
        why: "not looked at when a server is read repeatedly".into(),
        remedy: Some("`wringer memory account`".into()),
    })
}

fn of_processes(inventory: &Inventory) -> Vec<Beside> {
    let sum = |name: &str| {
        let each: Vec<u64> =
            inventory.processes.iter().filter_map(|it| it.status.get(name).map(|it| sane(*it))).collect();
        (!each.is_empty()).then(|| each.into_iter().sum::<u64>())
    };
    let threads = sum("Threads").map(|count| sane(count).saturating_mul(KERNEL_STACK));
    let some = [
        ("kernel_stacks", threads, "/proc/PID/status, Threads x 16 KiB"),
        ("swap", sum("VmSwap"), "/proc/PID/status, VmSwap"),
    ];
    some.into_iter().filter_map(|(name, bytes, source)| Some(one(name, bytes?, source.into()))).collect()
}

fn of_files(files: &FilesSeen) -> Vec<Beside> {
    let count = match files.left {
        0 => files.looked_at.to_string(),
        left => format!("{} of {}", files.looked_at, files.looked_at.saturating_add(left)),
    };
    let source = |call| format!("{call}, {count} files: of the data directory, and others that are open");
    let dirty = (files.dirty > 0).then(|| one("dirty_of_files", files.dirty, source("cachestat(2)")));
    let cached = one("page_cache_of_files", files.cached, source("cachestat(2) or mincore(2)"));
    [cached].into_iter().chain(dirty).collect()
}

/// Names of version 1 differ; there `cache` includes shared memory.
fn of_cgroup(cgroup: &CgroupSeen) -> Vec<Beside> {
    const STAT: [(&str, &[&str]); 7] = [
        ("cgroup_anonymous", &["anon", "total_rss", "rss"]),
        ("cgroup_page_cache", &["file", "total_cache", "cache"]),
        ("cgroup_shared_memory", &["shmem", "total_shmem"]),
        ("cgroup_kernel_stacks", &["kernel_stack"]),
        ("cgroup_slab", &["slab"]),
        ("cgroup_sockets", &["sock"]),
        ("cgroup_page_tables", &["pagetables"]),
    ];
    let found = |names: &'static [&'static str]| names.iter().find_map(|name| Some((*name, *cgroup.stat.get(*name)?)));
    let source = |name: &str| format!("cgroup {}, memory.stat, {name}", cgroup.path);
    let stat =
        STAT.iter().filter_map(|(name, names)| found(names).map(|(field, bytes)| one(name, bytes, source(field))));
    let file = if cgroup.version == 1 { "memory.usage_in_bytes" } else { "memory.current" };
    let own = cgroup.current.map(|bytes| one("cgroup", bytes, format!("cgroup {}, {file}", cgroup.path)));
    own.into_iter().chain(stat).collect()
}

fn of_host(host: &HostSeen) -> Vec<Beside> {
    let field = |name: &str| host.meminfo.get(name).copied();
    let size = field("Hugepagesize").unwrap_or(0);
    let reserved = field("HugePages_Rsvd");
    let idle = field("HugePages_Free").map(|free| free.saturating_sub(reserved.unwrap_or(0)));
    let some = [
        ("idle_huge_pages", idle, "/proc/meminfo, (HugePages_Free - HugePages_Rsvd) x Hugepagesize"),
        ("reserved_huge_pages", reserved, "/proc/meminfo, HugePages_Rsvd x Hugepagesize"),
    ];
    let pages = some.into_iter().filter_map(|(name, pages, source)| Some((name, pages.filter(|it| *it > 0)?, source)));
    pages.map(|(name, pages, source)| one(name, pages.saturating_mul(size), source.into())).collect()
}

fn one(name: &str, bytes: u64, source: String) -> Beside {
    Beside { name: name.to_owned(), bytes: sane(bytes), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interval;

    #[test]
    fn what_version_1_does_not_count_is_named() {
        let seen = |version, names: &[&str]| {
            let stat = names.iter().map(|name| ((*name).to_owned(), 4096)).collect();
            let cgroup = CgroupSeen { path: "/x".into(), version, stat, ..CgroupSeen::default() };
            Inventory { cgroup: Some(cgroup), ..Inventory::default() }
        };
        let first = seen(1, &["total_cache", "total_rss"]);
        let cache = of(&first).into_iter().find(|it| it.name == "cgroup_page_cache");
        assert!(cache.is_some_and(|it| it.bytes == 4096 && it.source.ends_with("memory.stat, total_cache")));
        let told = untold(&first);
        assert!(told.len() == 1 && told[0].why.contains("no slab, no sockets") && told[0].remedy.is_some(), "{told:?}");
        assert_eq!(untold(&seen(2, &["file", "slab", "sock"])), []);
        assert_eq!(untold(&Inventory::default()), []);
    }

    #[test]
    fn the_page_cache_of_its_files_and_what_of_it_is_not_written() {
        let of_files = |files| of(&Inventory { files: Some(files), ..Inventory::default() });
        let whole = FilesSeen { looked_at: 7, left: 0, cached: 8192, dirty: 0 };
        let found = of_files(whole);
        assert_eq!((found.len(), found[0].name.as_str(), found[0].bytes), (1, "page_cache_of_files", 8192));
        assert!(found[0].source.contains(", 7 files"), "{found:?}");
        let found = of_files(FilesSeen { left: 3, dirty: 4096, ..whole });
        assert_eq!((found.len(), found[1].name.as_str(), found[1].bytes), (2, "dirty_of_files", 4096));
        assert!(found.iter().all(|it| it.source.contains("7 of 10 files")), "{found:?}");
    }

    #[test]
    fn a_server_that_is_read_repeatedly_lacks_them() {
        let repeated = Inventory { interval: Some(Interval::default()), ..Inventory::default() };
        let told = untold(&repeated);
        assert!(told.len() == 1 && told[0].what == Missing::FILES && told[0].remedy.is_some(), "{told:?}");
        assert_eq!(untold(&Inventory { files: Some(FilesSeen::default()), ..repeated }), []);
    }

    /// Inventories of earlier versions have no such part.
    #[test]
    fn an_inventory_without_files_is_read() {
        let mut old = serde_json::to_value(Inventory::default()).expect("is JSON");
        old.as_object_mut().expect("is an object").remove("files").expect("has it");
        let read: Inventory = serde_json::from_value(old).expect("is an inventory");
        assert!(read.files.is_none() && of(&read).is_empty());
    }
}
