// SPDX-License-Identifier: Apache-2.0
//! Memory that a server causes outside of the sum: it is shown beside the sum, and never added.

use crate::entries::Beside;
use crate::share::sane;
use crate::{CgroupSeen, HostSeen, Inventory, Missing};

/// The kernel's stack of one thread, on x86-64: THREAD_SIZE of arch/x86/include/asm/page_64_types.h.
const KERNEL_STACK: u64 = 16 << 10;

pub(crate) fn of(inventory: &Inventory) -> Vec<Beside> {
    let mut beside = of_processes(inventory);
    beside.extend(inventory.cgroup.iter().flat_map(of_cgroup));
    beside.extend(of_host(&inventory.host));
    beside
}

pub(crate) const UNTOLD: &str = "memory beside the sum";

/// The memory of the server's cgroup that its kernel does not count: a cgroup of version 1 has neither slab nor sockets, and only one page cache for all of
/// its processes.
pub(crate) fn untold(inventory: &Inventory) -> Option<Missing> {
    let cgroup = inventory.cgroup.as_ref()?;
    let is_told = |name: &str| cgroup.stat.contains_key(name);
    let lacks = [("slab", "slab"), ("sock", "sockets")].iter().filter(|(name, _)| !is_told(name));
    let lacks: Vec<&str> = lacks.map(|(_, words)| *words).collect();
    let all_files = "the page cache of all files in it stands for that of the server's files";
    (!lacks.is_empty()).then(|| Missing {
        what: UNTOLD.into(),
        why: format!("memory.stat of cgroup {} has no {}; {all_files}", cgroup.path, lacks.join(", no ")),
        remedy: (cgroup.version == 1).then(|| "a kernel with cgroups of version 2 (cgroup_no_v1=memory)".into()),
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
        let told = untold(&first).expect("it lacks both");
        assert!(told.why.contains("no slab, no sockets") && told.remedy.is_some(), "{told:?}");
        assert_eq!(untold(&seen(2, &["file", "slab", "sock"])), None);
        assert_eq!(untold(&Inventory::default()), None);
    }
}
