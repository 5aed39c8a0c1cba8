// SPDX-License-Identifier: Apache-2.0
//! Memory that a server causes outside of the sum: it is shown beside the sum, and never added.

use crate::entries::Beside;
use crate::share::sane;
use crate::{CgroupSeen, HostSeen, Inventory};

/// The kernel's stack of one thread, on x86-64: THREAD_SIZE of arch/x86/include/asm/page_64_types.h.
const KERNEL_STACK: u64 = 16 << 10;

pub(crate) fn of(inventory: &Inventory) -> Vec<Beside> {
    let mut beside = of_processes(inventory);
    beside.extend(inventory.cgroup.iter().flat_map(of_cgroup));
    beside.extend(of_host(&inventory.host));
    beside
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
