// SPDX-License-Identifier: Apache-2.0
//! Unchanged files of the kernel: of the host, of the server's processes, of its memory cgroup. Reading them holds no process.

use super::mask;
use crate::memory::process_files::lossy;
use ledger::Inventory;
use std::fs;
use std::path::{Path, PathBuf};

const OF_HOST: [&str; 9] = [
    "/proc/meminfo",
    "/proc/vmstat",
    "/proc/zoneinfo",
    "/proc/buddyinfo",
    "/proc/swaps",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/version",
    "/proc/pressure/memory",
];
const OF_PROCESS: [&str; 5] = ["status", "limits", "cgroup", "oom_score", "oom_score_adj"];

pub(super) fn of(inventory: &Inventory) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = OF_HOST.iter().filter_map(|path| as_it_is(Path::new(path))).collect();
    found.extend(below("/sys/kernel/mm/hugepages", 2).iter().filter_map(|path| as_it_is(path)));
    found.extend(nodes().iter().filter_map(|path| as_it_is(path)));
    found.push(("host/settings.tsv".into(), settings(inventory)));
    for process in &inventory.processes {
        let folder = format!("/proc/{}", process.pid);
        found.extend(OF_PROCESS.iter().filter_map(|name| as_it_is(&Path::new(&folder).join(name))));
        let line = fs::read(format!("{folder}/cmdline")).unwrap_or_default();
        found.push((format!("proc/{}/cmdline", process.pid), mask::arguments(&line)));
    }
    found.extend(cgroup(inventory));
    found
}

fn settings(inventory: &Inventory) -> String {
    inventory.host.settings.iter().map(|(name, value)| format!("{name}\t{value}\n")).collect()
}

/// A file and its path in the bundle: a file of /proc/PID is below `proc/PID`, every other file below `host`. `None`: the file does not exist, or
/// this user may not read it.
fn as_it_is(path: &Path) -> Option<(String, String)> {
    let text = lossy(path.to_str()?)?;
    let name = path.to_str()?.trim_start_matches('/');
    let is_of_process = name.strip_prefix("proc/").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    Some((if is_of_process { name.to_owned() } else { format!("host/{name}") }, text))
}

/// Files in this folder and in the folders below it, down to this number of levels.
fn below(folder: &str, levels: u32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            Ok(kind) if kind.is_dir() && levels > 1 => {
                found.extend(entry.path().to_str().map(|path| below(path, levels - 1)).unwrap_or_default());
            }
            _ => {}
        }
    }
    found
}

fn nodes() -> Vec<PathBuf> {
    let entries = fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten();
    let is_node = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("node"));
    entries.map(|entry| entry.path()).filter(is_node).map(|path| path.join("meminfo")).collect()
}

/// All readable files `memory.*` and `hugetlb.*`; some files can only be written.
fn cgroup(inventory: &Inventory) -> Vec<(String, String)> {
    let folder = inventory.processes.first().and_then(|process| crate::memory::cgroup_seen::folder_of(process.pid));
    let files = folder.iter().filter_map(|folder| folder.to_str()).flat_map(|folder| below(folder, 1));
    let named = files.filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path)));
    named
        .filter(|(name, _)| name.starts_with("memory.") || name.starts_with("hugetlb."))
        .filter_map(|(name, path)| Some((format!("cgroup/{name}"), lossy(path.to_str()?)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::ProcessSeen;

    #[test]
    fn of_this_host_and_process() {
        let own = std::process::id();
        let inventory =
            Inventory { processes: vec![ProcessSeen { pid: own, ..ProcessSeen::default() }], ..Inventory::default() };
        let found: std::collections::BTreeMap<String, String> = of(&inventory).into_iter().collect();
        assert!(found["host/proc/meminfo"].contains("MemTotal"));
        assert!(found[&format!("proc/{own}/status")].contains("VmRSS"));
        assert!(!found[&format!("proc/{own}/cmdline")].is_empty());
    }
}
