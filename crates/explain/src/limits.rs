// SPDX-License-Identifier: Apache-2.0
//! What held an arm back: the one of its limits that was used up, from what was counted while it was measured.
//!
//! A limit of the disk counts by the share of the time in which a request waited for it, as the slow layer counts it; CPU by the share that
//! was used; reads and syncs by the share of the time that was spent in them. Nothing is taken from what the experiment asked for.

use crate::reads::Reference;
use crate::series::Series;
use crate::summary::ArmSummary;
use evidence::{Arm, Arrivals, Evidence, Phase};
use serde::{Deserialize, Serialize};

/// What an arm can be limited by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// The operations a second of the disk.
    Iops,
    /// The bytes a second of the disk.
    Bandwidth,
    /// The requests that the disk works on at once.
    Queue,
    /// The CPU time that the server may use.
    CpuQuota,
    /// The CPUs that the server may run on.
    CpuList,
    /// All CPUs of the host.
    HostCpu,
    /// Reads of pages that are not in the buffer pool.
    PoolMisses,
    /// Syncs, which commits wait for.
    Syncs,
    /// Nothing was used up: each connection waits for its own answers.
    Connections,
    /// Nothing was used up: the load sends no more than its rate.
    Rate,
}

/// How far one limit was used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Use {
    pub of: LimitedBy,
    /// 0 to 1, of the measured time, or of the CPU that there is.
    pub share: f64,
}

/// An arm's limits, and the figures beside them. `None` is what nobody counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// `None`: too little was counted to say.
    pub limited_by: Option<LimitedBy>,
    /// Each limit that was looked at.
    pub uses: Vec<Use>,
    /// Reads and writes of the slow layer.
    pub operations_per_second: Option<f64>,
    pub bytes_per_second: Option<f64>,
    /// CPUs that the server used, and those that it was given.
    pub server_cpus: Option<f64>,
    pub server_cpus_allowed: Option<f64>,
    /// Of the periods of its quota, those in which it was stopped.
    pub stopped_share: Option<f64>,
    /// CPUs that the load itself used.
    pub client_cpus: Option<f64>,
    /// All CPUs of the host together.
    pub host_cpus: Option<f64>,
    pub reads_per_query: Option<f64>,
}

/// A request waits for a limit of the disk in so much of the time, or a server's periods are cut short so often: the limit binds.
const BINDS: f64 = 0.7;
/// A server is stopped in so many of its periods, because it has used up its CPU time; on a busy host it cannot be in all of them.
const STOPPED: f64 = 0.5;
/// And where others keep the host's CPUs busy, it is stopped in fewer: it does not come to use its time up in the others.
const STOPPED_BESIDE_OTHERS: f64 = 0.2;
/// So much of the CPU is as good as all of it.
const USED_UP: f64 = 0.9;
/// So much of the time goes into it: what makes it shorter makes the load faster.
const MOST: f64 = 0.5;
/// Fewer reads a query are no matter of the pool.
const FEW_READS: f64 = 0.02;
/// More late starts than this: the load is behind its rate.
const BEHIND: f64 = 0.01;

impl Use {
    /// Whether it holds the load back by itself.
    pub fn binds(&self) -> bool {
        self.share
            >= match self.of {
                LimitedBy::HostCpu | LimitedBy::CpuList => USED_UP,
                LimitedBy::CpuQuota => STOPPED,
                LimitedBy::PoolMisses | LimitedBy::Syncs => MOST,
                _ => BINDS,
            }
    }
}

impl Limits {
    pub fn share(&self, of: LimitedBy) -> Option<f64> {
        self.uses.iter().find(|one| one.of == of).map(|one| one.share)
    }

    /// CPUs that were busy with something other than server and load.
    pub fn others_cpus(&self) -> Option<f64> {
        let busy = self.share(LimitedBy::HostCpu)? * self.host_cpus?;
        Some((busy - self.server_cpus.unwrap_or_default() - self.client_cpus.unwrap_or_default()).max(0.0))
    }

    /// More than half of the busy CPUs.
    pub fn cpus_are_others(&self) -> bool {
        let busy = self.share(LimitedBy::HostCpu).zip(self.host_cpus).map(|(share, cpus)| share * cpus);
        self.others_cpus().zip(busy).is_some_and(|(others, busy)| others > busy / 2.0)
    }
}

/// `None`: the arm has no load that was measured.
pub(crate) fn of(evidence: &Evidence, arm: &Arm, summary: &ArmSummary) -> Option<Limits> {
    let load = arm.load.as_ref().filter(|load| load.measured.elapsed_us > 0 && load.measured.transactions > 0)?;
    let seen = Seen { evidence, arm, phase: &load.measured, summary };
    let mut limits = Limits { limited_by: None, uses: seen.uses(), ..seen.figures() };
    limits.limited_by = binding(&limits).or_else(|| {
        let behind = (summary.late + summary.skipped) as f64 / (summary.transactions + summary.skipped).max(1) as f64;
        match load.arrivals {
            _ if limits.share(LimitedBy::HostCpu).is_none() => None,
            Arrivals::Closed => Some(LimitedBy::Connections),
            _ => (behind <= BEHIND).then_some(LimitedBy::Rate),
        }
    });
    Some(limits)
}

/// What caps the throughput comes before what only takes long: a server whose disk is out of operations waits for reads, too. CPUs that others
/// keep busy come last: they make slower what the arm waits for by itself.
fn binding(limits: &Limits) -> Option<LimitedBy> {
    use LimitedBy::{Bandwidth, CpuList, CpuQuota, HostCpu, Iops, PoolMisses, Queue, Syncs};
    let (caps, host, waits) =
        (&[Iops, Bandwidth, Queue, CpuQuota, CpuList][..], &[HostCpu][..], &[PoolMisses, Syncs][..]);
    let groups = if limits.cpus_are_others() { [caps, waits, host] } else { [caps, host, waits] };
    let found = groups.iter().find_map(|group| {
        let binding = limits.uses.iter().filter(|one| group.contains(&one.of) && one.binds());
        binding.max_by(|a, b| a.share.total_cmp(&b.share)).map(|one| one.of)
    });
    let stopped = limits.stopped_share.is_some_and(|share| share >= STOPPED_BESIDE_OTHERS);
    match found {
        Some(HostCpu) if stopped && limits.cpus_are_others() => Some(CpuQuota),
        found => found,
    }
}

struct Seen<'a> {
    evidence: &'a Evidence,
    arm: &'a Arm,
    phase: &'a Phase,
    summary: &'a ArmSummary,
}

impl Seen<'_> {
    fn uses(&self) -> Vec<Use> {
        let disk = [
            (LimitedBy::Iops, "slow layer waited for operations us"),
            (LimitedBy::Bandwidth, "slow layer waited for bytes us"),
            (LimitedBy::Queue, "slow layer waited for its queue us"),
        ];
        let disk = disk.map(|(of, counter)| (of, self.share_of_time(counter)));
        let others = [
            (LimitedBy::CpuQuota, self.quota()),
            (LimitedBy::CpuList, self.cpu_list()),
            (LimitedBy::HostCpu, self.host_busy()),
            (LimitedBy::PoolMisses, self.reading()),
            (LimitedBy::Syncs, self.syncing()),
        ];
        let all = disk.into_iter().chain(others);
        all.filter_map(|(of, share)| Some(Use { of, share: share?.clamp(0.0, 1.0) })).collect()
    }

    fn figures(&self) -> Limits {
        let per_second = |count: f64| count * 1e6 / self.phase.elapsed_us as f64;
        let of_layer = |counters: [&str; 2]| {
            let [reads, writes] = counters.map(|counter| self.grown("layer", counter));
            Some(per_second(reads? + writes.unwrap_or(0.0)))
        };
        let client = self.phase.client_user_us + self.phase.client_system_us;
        let cpus = self.evidence.conditions.host.cpus;
        Limits {
            limited_by: None,
            uses: Vec::new(),
            operations_per_second: of_layer(["slow layer reads", "slow layer writes"]),
            bytes_per_second: of_layer(["slow layer read bytes", "slow layer write bytes"]),
            server_cpus: self.server_cpus(),
            server_cpus_allowed: self.asked("server.cpus.limit").or_else(|| self.asked("server.cpuset")),
            stopped_share: self.throttled(),
            client_cpus: (client > 0).then(|| client as f64 / self.phase.elapsed_us as f64),
            host_cpus: (cpus > 0).then(|| f64::from(cpus)),
            reads_per_query: self.reads_per_query(),
        }
    }

    /// A counter's growth while the arm was measured.
    fn grown(&self, of: &str, counter: &str) -> Option<f64> {
        let found = self.arm.witnesses.iter().find(|witness| witness.of == of && witness.counter == counter)?;
        Some(found.delta() as f64)
    }

    fn share_of_time(&self, counter_us: &str) -> Option<f64> {
        Some(self.grown("layer", counter_us)? / self.phase.elapsed_us as f64)
    }

    /// The server's CPU time beside what it may use, where that is nearly all of it; else the periods in which it was stopped.
    fn quota(&self) -> Option<f64> {
        let used = self.server_cpus().zip(self.asked("server.cpus.limit").filter(|cpus| *cpus > 0.0));
        let used = used.map(|(used, allowed)| used / allowed).filter(|share| *share >= USED_UP);
        let stopped = self.throttled()?;
        Some(used.map_or(stopped, |used| used.max(stopped)))
    }

    /// Of the periods in which the server may use its CPU time, those in which it was stopped because it had used it up.
    fn throttled(&self) -> Option<f64> {
        let (periods, throttled) =
            (self.grown("limits", "cpu.periods")?, self.grown("limits", "cpu.throttled_periods")?);
        self.asked("server.cpus.limit")?;
        (periods > 0.0).then(|| throttled / periods)
    }

    fn cpu_list(&self) -> Option<f64> {
        let allowed = self.asked("server.cpuset").filter(|count| *count > 0.0)?;
        let all = f64::from(self.evidence.conditions.host.cpus);
        (allowed < all).then(|| self.server_cpus().map(|used| used / allowed))?
    }

    /// What the squeeze `what` of this arm was set to.
    fn asked(&self, what: &str) -> Option<f64> {
        let mut rows = self.evidence.measured.iter().filter(|row| row.arm.as_deref() == Some(&self.arm.name));
        rows.find(|row| row.what == what)?.got.map(|got| got.value)
    }

    fn server_cpus(&self) -> Option<f64> {
        let names = ["utime", "stime", "cutime", "cstime"];
        let watched = || {
            let grown: Vec<f64> = names.iter().filter_map(|name| self.during("process.stat", name)).collect();
            (!grown.is_empty()).then(|| grown.iter().sum())
        };
        self.grown("limits", "cpu_us").or_else(watched).map(|us: f64| us / self.phase.elapsed_us as f64)
    }

    /// Of all CPUs of the host together; time that a hypervisor gave to others is not there to be used.
    fn host_busy(&self) -> Option<f64> {
        let of = |names: &[&str]| names.iter().filter_map(|name| self.during("stat", name)).sum::<f64>();
        let busy_us = of(&["user", "nice", "system", "irq", "softirq", "steal"]);
        let all_us = busy_us + of(&["idle", "iowait"]);
        (all_us > 0.0).then(|| busy_us / all_us)
    }

    /// Of the time that the transactions took, what went by in reads; where nothing timed them, of the time of the host.
    fn reading(&self) -> Option<f64> {
        self.reads_per_query().filter(|reads| *reads >= FEW_READS)?;
        let took_us = self.summary.service.map(|service| service.mean_us * self.summary.transactions as f64);
        let timed = self.grown("layer", "slow layer read us").zip(took_us.filter(|us| *us > 0.0));
        timed.map(|(read_us, took_us)| read_us / took_us).or_else(|| {
            let waited_us = self.during("psi.io", "some.total").filter(|_| self.arm.delay.is_none())?;
            Some(waited_us / self.phase.elapsed_us as f64)
        })
    }

    /// A server syncs its log one after the other.
    fn syncing(&self) -> Option<f64> {
        let writes = self.phase.writes > 0 || !self.phase.counts_queries();
        self.share_of_time("slow layer sync us").filter(|_| writes)
    }

    fn reads_per_query(&self) -> Option<f64> {
        let reads = self.summary.reads.as_ref()?;
        if reads.reference == Some(Reference::Layer) { reads.by_layer } else { reads.by_server }
    }

    /// A counter's growth while the arm was measured, on the line between two readings.
    fn during(&self, source: &str, name: &str) -> Option<f64> {
        let (from_us, to_us) = (self.phase.started_us, self.phase.started_us + self.phase.elapsed_us);
        Series::find(self.evidence, source, name)?.grown_between(from_us, to_us)
    }
}
