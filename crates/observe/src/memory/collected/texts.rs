// SPDX-License-Identifier: Apache-2.0
//! Texts from the inventory, in the format of common tools.

use ledger::{Inventory, Mapping, ProcessSeen};
use std::collections::BTreeMap;
use std::fmt::Write as _;

pub(super) fn of(inventory: &Inventory) -> Vec<(String, String)> {
    let mut texts = vec![("ps.tsv".to_owned(), ps(inventory))];
    for process in &inventory.processes {
        let path = |name: &str| format!("proc/{}/{name}", process.pid);
        texts.push((path("smaps"), process.mappings.iter().flatten().map(mapping).collect()));
        texts.push((path("smaps_rollup"), process.rollup.iter().map(fields).collect()));
    }
    if let Some(server) = &inventory.server {
        texts.push(("sql/variables.tsv".into(), pairs(&server.variables)));
        texts.push(("sql/status.tsv".into(), pairs(&server.status)));
        texts.push(("sql/innodb_buffer_pool_and_memory.txt".into(), server.innodb_memory.clone().unwrap_or_default()));
    }
    texts
}

fn pairs(rows: &BTreeMap<String, String>) -> String {
    rows.iter().map(|(name, value)| format!("{name}\t{value}\n")).collect()
}

fn ps(inventory: &Inventory) -> String {
    let mut text =
        "pid\trole\tcommand\tvsz_kb\trss_kb\trss_peak_kb\tswap_kb\tpage_tables_kb\toom_score\toom_score_adj\n"
            .to_owned();
    inventory.processes.iter().for_each(|process| line(&mut text, process));
    let own: Vec<u32> = inventory.processes.iter().map(|process| process.pid).collect();
    for other in inventory.host.candidates.iter().filter(|it| !own.contains(&it.pid)) {
        let score = other.oom_score.unwrap_or_default();
        let kb = |bytes: u64| bytes / 1024;
        let _ = writeln!(
            text,
            "{}\t\t{}\t\t{}\t\t{}\t{}\t{score}\t{}",
            other.pid,
            other.command,
            kb(other.rss),
            kb(other.swap),
            kb(other.page_tables),
            other.oom_score_adj
        );
    }
    text
}

fn line(text: &mut String, process: &ProcessSeen) {
    let kb = |name: &str| process.status.get(name).map_or(0, |bytes| bytes / 1024);
    let figures = ["VmSize", "VmRSS", "VmHWM", "VmSwap", "VmPTE"].map(|name| kb(name).to_string()).join("\t");
    let (score, adjustment) = (process.oom_score.unwrap_or_default(), process.oom_score_adj.unwrap_or_default());
    let _ = writeln!(text, "{}\t{}\t{}\t{figures}\t{score}\t{adjustment}", process.pid, process.role, process.command);
}

/// A mapping in the format of /proc/PID/smaps, with the fields that were read.
fn mapping(it: &Mapping) -> String {
    let mut text =
        format!("{:x}-{:x} {} {:08x} {} {} ", it.start, it.end, it.permissions, it.offset, it.device, it.inode);
    let _ = writeln!(text, "{}", it.path);
    let sizes = [
        ("Size", it.end.saturating_sub(it.start)),
        ("Rss", it.rss),
        ("Pss", it.pss),
        ("Anonymous", it.anonymous),
        ("AnonHugePages", it.anon_huge_pages),
        ("Shared_Hugetlb", it.shared_hugetlb),
        ("Private_Hugetlb", it.private_hugetlb),
        ("Swap", it.swap),
        ("KernelPageSize", it.kernel_page_bytes),
    ];
    for (name, bytes) in sizes {
        let _ = writeln!(text, "{:<16}{:>8} kB", format!("{name}:"), bytes / 1024);
    }
    let _ = writeln!(text, "VmFlags: {}", it.flags);
    text
}

fn fields(rollup: &BTreeMap<String, u64>) -> String {
    rollup.iter().map(|(name, bytes)| format!("{:<16}{:>8} kB\n", format!("{name}:"), bytes / 1024)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaps_are_read_back_as_they_were() {
        let text = "1000-3000 rw-p 00000000 00:00 0 [heap]\nRss: 8 kB\nPss: 4 kB\nAnonymous: 8 kB\nKernelPageSize: 4 kB\nVmFlags: rd wr\n\
                    5000-7000 r-xp 00001000 fe:00 4711 /usr/sbin/x y\nRss: 4 kB\nVmFlags: rd ex\n";
        let mappings = ledger::mapping::mappings(text);
        let written: String = mappings.iter().map(mapping).collect();
        assert_eq!(ledger::mapping::mappings(&written), mappings);
    }
}
