// SPDX-License-Identifier: Apache-2.0
use serde::Serialize;
use std::fs;
use std::path::Path;

/// The kernel's counts for a command's cgroups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    pub memory: Option<MemoryAccount>,
    pub cpu: Option<CpuAccount>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MemoryAccount {
    /// Page cache included.
    pub peak_bytes: Option<u64>,
    /// Processes that the kernel killed because the limit left no room.
    pub oom_kills: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CpuAccount {
    /// Periods in which a process of the command wanted to run.
    pub periods: u64,
    /// Of these, the periods in which the quota was used up.
    pub throttled_periods: u64,
    /// The waits, summed over the CPUs.
    pub throttled_us: u64,
}

impl Account {
    pub(super) fn read(memory: Option<&Path>, cpu: Option<&Path>) -> Self {
        Self { memory: memory.map(of_memory), cpu: cpu.and_then(|folder| of_cpu(&read(folder, "cpu.stat")?)) }
    }
}

/// `memory.peak` exists since Linux 5.19.
fn of_memory(folder: &Path) -> MemoryAccount {
    let oom = read(folder, "memory.events").or_else(|| read(folder, "memory.oom_control"));
    MemoryAccount {
        peak_bytes: number(folder, "memory.peak").or_else(|| number(folder, "memory.max_usage_in_bytes")),
        oom_kills: oom.and_then(|text| line(&text, "oom_kill")),
    }
}

/// v2 counts in microseconds (`throttled_usec`), v1 in nanoseconds (`throttled_time`).
fn of_cpu(text: &str) -> Option<CpuAccount> {
    let throttled_us = line(text, "throttled_usec").or_else(|| Some(line(text, "throttled_time")? / 1000))?;
    Some(CpuAccount {
        periods: line(text, "nr_periods")?,
        throttled_periods: line(text, "nr_throttled")?,
        throttled_us,
    })
}

fn line(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

fn read(folder: &Path, file: &str) -> Option<String> {
    fs::read_to_string(folder.join(file)).ok()
}

/// `None`: there is no such file, or it holds no number (`max`).
pub(super) fn number(folder: &Path, file: &str) -> Option<u64> {
    read(folder, file)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_cpu_stat() {
        let v1 = "nr_periods 40\nnr_throttled 39\nthrottled_time 1950000000\nnr_bursts 0\nburst_time 0\n";
        let v2 = "usage_usec 2000000\nuser_usec 1990000\nsystem_usec 10000\nnr_periods 40\nnr_throttled 39\nthrottled_usec 1950000\n";
        let expected = CpuAccount { periods: 40, throttled_periods: 39, throttled_us: 1_950_000 };
        assert_eq!(of_cpu(v1), Some(expected.clone()));
        assert_eq!(of_cpu(v2), Some(expected));
        assert_eq!(of_cpu("usage_usec 1\n"), None);
    }

    #[test]
    fn a_name_is_no_beginning_of_another() {
        assert_eq!(line("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", "oom_kill"), Some(2));
        assert_eq!(line("low 0\nhigh 0\nmax 9\noom 3\noom_kill 1\noom_group_kill 0\n", "oom_kill"), Some(1));
    }
}
