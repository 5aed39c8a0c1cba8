// SPDX-License-Identifier: Apache-2.0
//! Compares the limits of a server with what it used, from two independent sources: the counters of its cgroups, and those of its processes.

use super::Limits;
use super::plan::PERIOD_US;
use evidence::{Measured, Quantity};
use host::process::{Identity, descendants};
use run::CgroupVersion::V1;
use std::collections::BTreeMap;
use std::fs;
use units::CpuList;

/// The counter of the CPU time of all processes of the server, also of ended ones.
pub const CPU_US: &str = "cpu_us";
const PERIODS: &str = "cpu.periods";
const THROTTLED_PERIODS: &str = "cpu.throttled_periods";
const THROTTLED_US: &str = "cpu.throttled_us";

/// Some allocations must not fail, and are charged beyond the limit (kernel, mm/memcontrol.c, `try_charge_memcg`, "force").
const FORCED_CHARGES_BYTES: u64 = 1 << 20;
/// The kernel counts a process's time in `/proc` in ticks of 10 ms, and enforces a quota when a CPU asks for its next slice.
const OVERRUN: f64 = 1.05;

/// The counts of a server's processes and cgroups between two moments: the growth of [`Limits::counters`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    pub elapsed_us: u64,
    pub grown: BTreeMap<String, u64>,
}

impl Limits {
    /// Counters that only grow, to be read at both ends of a measurement: CPU time of the server and its children, and the counts of its CPU cgroup.
    pub fn counters(&self, server: u32) -> BTreeMap<String, u64> {
        let mut counters = BTreeMap::from([(CPU_US.to_owned(), cpu_us(server))]);
        if let Some(cpu) = self.account().cpu {
            let counted =
                [(PERIODS, cpu.periods), (THROTTLED_PERIODS, cpu.throttled_periods), (THROTTLED_US, cpu.throttled_us)];
            counters.extend(counted.map(|(name, value)| (name.to_owned(), value)));
        }
        counters
    }

    /// A row for each limit: asked, set by the kernel, and used by the server. The caller sets `at_us` and `arm`.
    pub fn measure(&self, server: u32, usage: Option<&Usage>) -> Vec<Measured> {
        let mut all = self.memory(server);
        all.extend(self.cpus(usage));
        all.extend(self.cpuset(server));
        all
    }

    fn memory(&self, server: u32) -> Vec<Measured> {
        let (asked, got) = (self.asked(), self.got());
        let page = rustix::param::page_size() as u64;
        let is_v1 = self.group("memory").is_some_and(|(group, _)| group.controller.version == V1);
        let mut all = Vec::new();
        if let Some(ram) = asked.ram {
            let (limit, peak) = if is_v1 {
                ("memory.limit_in_bytes", "memory.max_usage_in_bytes")
            } else {
                ("memory.max", "memory.peak")
            };
            all.push(Measured {
                within_tolerance: got.ram_bytes.map(|got| got / page == ram.0 / page),
                tolerance: Some("one page".into()),
                ..self.row("server.ram.limit", "memory", bytes(Some(ram.0)), bytes(got.ram_bytes), &read_back(limit))
            });
            let charged = self.account().memory.and_then(|memory| memory.peak_bytes);
            let witness = format!("{peak} of the server's cgroup");
            all.push(Measured {
                within_tolerance: charged.map(|peak| peak <= ram.0 + FORCED_CHARGES_BYTES),
                tolerance: Some("the limit, and 1 MiB of charges that the kernel cannot refuse".into()),
                ..self.row("server.ram.peak", "memory", bytes(Some(ram.0)), bytes(charged), &witness)
            });
        }
        if let Some(swap) = asked.swap {
            let swapped = of_processes(server, |pid| status(pid, "VmSwap:")).into_iter().flatten();
            let swapped = swapped.filter_map(|text| text.strip_suffix("kB")?.trim().parse::<u64>().ok());
            let used = swapped.sum::<u64>() * 1024;
            let witness = "VmSwap of the server's processes in /proc";
            all.push(Measured {
                within_tolerance: Some(used <= swap.bytes()),
                tolerance: Some("no more than asked".into()),
                ..self.row("server.swap", "memory", bytes(Some(swap.bytes())), bytes(Some(used)), witness)
            });
        }
        all
    }

    fn cpus(&self, usage: Option<&Usage>) -> Vec<Measured> {
        let Some((group, _)) = self.group("cpu") else { return Vec::new() };
        let file = if group.controller.version == V1 { "cpu.cfs_quota_us" } else { "cpu.max" };
        let asked = self.asked().cpus;
        let count = |value: Option<f64>| value.map(Quantity::count);
        let quota = count(asked.map(units::Cpus::value));
        let mut all = Vec::new();
        if asked.is_some() {
            let got = self.got().cpus;
            all.push(Measured {
                within_tolerance: Some(got == asked),
                tolerance: Some("none: it is what is written there".into()),
                ..self.row("server.cpus.limit", "cpu", quota, count(got.map(units::Cpus::value)), &read_back(file))
            });
        }
        let Some(usage) = usage else { return all };
        let grown = |name: &str| usage.grown.get(name).map(|value| *value as f64);
        let used = grown(CPU_US).map(|us| us / usage.elapsed_us.max(1) as f64);
        let witness = "CPU time of the server's processes in /proc, by time measured";
        all.push(Measured {
            within_tolerance: asked.zip(used).map(|(asked, used)| used <= most(asked.value(), usage.elapsed_us)),
            tolerance: asked.map(|_| "two periods of 100 ms more, and 5 %".to_owned()),
            ..self.row("server.cpus.used", "cpu", quota, count(used), witness)
        });
        let witness = "cpu.stat of the server's cgroup, while measured";
        let throttled = grown(THROTTLED_PERIODS).filter(|_| asked.is_some());
        all.extend(throttled.map(|periods| {
            self.row("server.cpus.throttled.periods", "cpu", None, Some(Quantity::count(periods)), witness)
        }));
        let waited = grown(THROTTLED_US).filter(|_| asked.is_some());
        all.extend(
            waited.map(|us| self.row("server.cpus.throttled.time", "cpu", None, Some(Quantity::micros(us)), witness)),
        );
        all
    }

    /// The number of CPUs. Other CPUs than the asked ones are out of tolerance.
    fn cpuset(&self, server: u32) -> Option<Measured> {
        let asked = self.asked().cpuset.as_ref()?;
        let got: Option<CpuList> = status(server, "Cpus_allowed_list:").and_then(|text| text.parse().ok());
        let count = |list: &CpuList| Quantity::count(list.numbers().len() as f64);
        Some(Measured {
            within_tolerance: got.as_ref().map(|got| got == asked),
            tolerance: Some(format!("exactly CPU {asked}")),
            ..self.row(
                "server.cpuset",
                "cpuset",
                Some(count(asked)),
                got.as_ref().map(count),
                "Cpus_allowed_list of the server in /proc",
            )
        })
    }

    fn row(
        &self,
        what: &str,
        controller: &str,
        asked: Option<Quantity>,
        got: Option<Quantity>,
        witness: &str,
    ) -> Measured {
        Measured {
            at_us: 0,
            arm: None,
            what: what.into(),
            mechanism: self.mechanism(controller).unwrap_or_else(|| "none".into()),
            asked,
            predicted: None,
            got,
            witness: witness.into(),
            within_tolerance: None,
            tolerance: None,
            looks: None,
            came_on: None,
        }
    }
}

/// The most CPUs that a quota allows on average: the first period may also use the rest of the period before.
fn most(asked: f64, elapsed_us: u64) -> f64 {
    let elapsed_us = elapsed_us.max(1) as f64;
    asked * OVERRUN * (elapsed_us + 2.0 * PERIOD_US as f64) / elapsed_us
}

fn bytes(value: Option<u64>) -> Option<Quantity> {
    value.map(Quantity::bytes)
}

fn read_back(file: &str) -> String {
    format!("{file} of the server's cgroup, read back")
}

/// CPU time of living processes and of the children that they have waited for: a process that ends hands its time to its parent.
fn cpu_us(server: u32) -> u64 {
    let ticks = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Fields 14 to 17, counted after the name, which may hold any character (proc_pid_stat(5)).
        let (_, behind) = text.rsplit_once(')')?;
        Some(behind.split_whitespace().skip(11).take(4).filter_map(|word| word.parse::<u64>().ok()).sum::<u64>())
    };
    of_processes(server, ticks).into_iter().flatten().sum::<u64>() * 1_000_000 / rustix::param::clock_ticks_per_second()
}

fn of_processes<T>(server: u32, read: impl Fn(u32) -> T) -> Vec<T> {
    let roots: Vec<Identity> = Identity::of(server).into_iter().collect();
    descendants(&roots).into_iter().map(|process| read(process.pid)).collect()
}

fn status(pid: u32, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_held_to_what_it_allows_in_so_long() {
        assert!((most(0.5, 10_000_000) - 0.535).abs() < 0.001);
        assert!(most(0.5, 1_000_000) < 0.64 && most(0.5, 60_000_000) < 0.53);
    }

    #[test]
    fn the_cpu_time_of_a_process_grows_as_it_works() {
        let before = cpu_us(std::process::id());
        let mut sum = 0_u64;
        while cpu_us(std::process::id()) < before + 50_000 {
            sum = (0..1_000_000_u64).fold(sum, |sum, next| sum.rotate_left(3) ^ std::hint::black_box(next));
        }
        assert_ne!(std::hint::black_box(sum), 1);
    }
}
