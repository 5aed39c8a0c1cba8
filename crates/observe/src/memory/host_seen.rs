// SPDX-License-Identifier: Apache-2.0
//! The host, and the processes that its OOM killer compares.

use super::cgroup_seen::memory_cgroup;
use super::kernel_log;
use super::process_files::{comm, lossy, number};
use super::reading::Reading;
use host::process::Unlisted;
use ledger::{Candidate, HostSeen, Missing, ProcessSeen};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The paths below /proc/sys.
const SETTINGS: [&str; 14] = [
    "kernel/shmall",
    "kernel/shmmax",
    "kernel/shmmni",
    "vm/hugetlb_shm_group",
    "vm/min_free_kbytes",
    "vm/nr_hugepages",
    "vm/nr_overcommit_hugepages",
    "vm/oom_kill_allocating_task",
    "vm/overcommit_kbytes",
    "vm/overcommit_memory",
    "vm/overcommit_ratio",
    "vm/panic_on_oom",
    "vm/swappiness",
    "vm/watermark_scale_factor",
];
/// The settings of transparent huge pages, below /sys/kernel/mm.
const OF_KERNEL: [&str; 3] =
    ["transparent_hugepage/enabled", "transparent_hugepage/defrag", "transparent_hugepage/shmem_enabled"];

pub(super) fn read(reading: &mut Reading) -> HostSeen {
    let with_candidates = reading.options.candidates;
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    if let Some(unlisted) = Unlisted::now().filter(|_| with_candidates) {
        reading.missing(Missing::OTHER_PROCESSES, unlisted.to_string(), Some("ask on the host itself, as root"));
    }
    HostSeen {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        meminfo: ledger::mapping::sizes(&meminfo),
        settings: settings(),
        candidates: if with_candidates { candidates() } else { Vec::new() },
        kernel_log: if with_candidates { kernel_log::read(reading) } else { Vec::new() },
        huge_pages_of_others: None,
    }
}

/// Whether one of several processes has huge pages: one alone has all of its own.
pub(super) fn has_huge_pages(processes: &[ProcessSeen]) -> bool {
    processes.len() > 1 && processes.iter().any(|it| it.status.get("HugetlbPages").is_some_and(|bytes| *bytes > 0))
}

/// The huge pages of all other processes, in bytes; those that several of them share count for each. `None`: not all processes can be seen.
pub(super) fn huge_pages_of_others(server: &[u32]) -> Option<u64> {
    Unlisted::now().is_none().then_some(())?;
    let others = host::process::pids().filter(|pid| !server.contains(pid));
    let statuses = others.filter_map(|pid| lossy(&format!("/proc/{pid}/status")));
    Some(statuses.filter_map(|text| ledger::mapping::sizes(&text).get("HugetlbPages").copied()).sum())
}

fn settings() -> BTreeMap<String, String> {
    let value = |root: &str, name: &str| {
        let text = fs::read_to_string(Path::new(root).join(name)).ok()?;
        Some((name.to_owned(), text.trim().to_owned()))
    };
    let of_sysctl = SETTINGS.iter().filter_map(|name| value("/proc/sys", name));
    of_sysctl.chain(OF_KERNEL.iter().filter_map(|name| value("/sys/kernel/mm", name))).collect()
}

fn candidates() -> Vec<Candidate> {
    let mut pids: Vec<u32> = host::process::pids().collect();
    pids.sort_unstable();
    pids.into_iter().filter_map(candidate).collect()
}

/// `None`: the process has ended, or has no memory of its own, as a thread of the kernel.
fn candidate(pid: u32) -> Option<Candidate> {
    let status = ledger::mapping::sizes(&lossy(&format!("/proc/{pid}/status"))?);
    let of = |name: &str| status.get(name).copied().unwrap_or(0);
    let all = *status.get("VmRSS")?;
    // Linux before 4.5 does not tell them apart
    let rss = if status.contains_key("RssAnon") { of("RssAnon") + of("RssFile") + of("RssShmem") } else { all };
    Some(Candidate {
        pid,
        command: comm(pid),
        rss,
        swap: of("VmSwap"),
        page_tables: of("VmPTE") + of("VmPMD"),
        oom_score: number(pid, "oom_score"),
        oom_score_adj: number(pid, "oom_score_adj")?,
        cgroup: memory_cgroup(pid).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_and_who_may_be_killed() {
        let mut reading = Reading::begin(super::super::Options { candidates: true, ..Default::default() });
        let host = read(&mut reading);
        assert!(host.meminfo["MemTotal"] > 1 << 20 && !host.kernel.is_empty());
        assert!(host.settings.contains_key("vm/overcommit_memory") && host.settings.contains_key("vm/swappiness"));
        let own = host.candidates.iter().find(|it| it.pid == std::process::id()).unwrap();
        assert!(own.rss > 0 && own.page_tables > 0 && own.cgroup.starts_with('/'));
        assert!(candidate(4_000_000_000).is_none());
    }
}
