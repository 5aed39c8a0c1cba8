// SPDX-License-Identifier: Apache-2.0
//! The limit that held an arm back: the one that was used up, by the counters of the measured phase.
//!
//! The use of a limit is: for the disk, the share of the time in which a request waited for it, as the slow layer counts it; for CPU, the share that
//! was used; for reads and syncs, the share of the time that was spent in them. Nothing is taken from the experiment file.

use crate::findings::{is_in_time, kept_up};
use crate::reads::Reference;
use crate::series::{Series, server_cpu_us_between};
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
    /// Syncs, for which commits wait.
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
    /// From 0 to 1, of the measured time, or of the available CPU.
    pub share: f64,
}

/// An arm's limits, and the figures beside them. A field is `None` when nothing counted it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// `None`: too little was counted for an answer.
    pub limited_by: Option<LimitedBy>,
    /// Each limit that was checked.
    pub uses: Vec<Use>,
    /// Reads and writes of the slow layer.
    pub operations_per_second: Option<f64>,
    pub bytes_per_second: Option<f64>,
    /// The number of CPUs that the server used, and the number that it was allowed to use.
    pub server_cpus: Option<f64>,
    pub server_cpus_allowed: Option<f64>,
    /// The share of the periods of its quota in which the server was stopped.
    pub stopped_share: Option<f64>,
    /// The share of the transactions' time in which threads of the server and of the load waited for a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_waited_share: Option<f64>,
    /// The number of CPUs that the load itself used.
    pub client_cpus: Option<f64>,
    /// All CPUs of the host together.
    pub host_cpus: Option<f64>,
    pub reads_per_query: Option<f64>,
}

/// A limit holds an arm back when requests wait for it in this share of the time or more.
const BINDS: f64 = 0.7;
/// The CPU quota holds a server back when it is stopped in this share of its periods or more, because it has used up its CPU time; on a busy host it
/// cannot be stopped in all of them.
const STOPPED: f64 = 0.5;
/// The same share when other programs keep the host's CPUs busy: the server is then stopped in fewer periods, because it cannot use up its time in
/// the others.
const STOPPED_BESIDE_OTHERS: f64 = 0.2;
/// This share of the CPU, or more, counts as all of it.
const USED_UP: f64 = 0.9;
/// CPUs that others keep busy hold an arm back when its own threads wait for a CPU in this share of the time, or more.
const WAITED_FOR_CPU: f64 = 0.1;
/// When this share of the time is spent on one thing, making that thing faster makes the load faster.
const MOST: f64 = 0.5;
/// With fewer reads a query, the pool is not the limit.
const FEW_READS: f64 = 0.02;

impl Use {
    /// Whether this limit alone holds the load back.
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

    /// The number of CPUs that were busy with other programs than server and load.
    pub fn others_cpus(&self) -> Option<f64> {
        let busy = self.share(LimitedBy::HostCpu)? * self.host_cpus?;
        Some((busy - self.server_cpus.unwrap_or_default() - self.client_cpus.unwrap_or_default()).max(0.0))
    }

    /// Whether other programs used more than half of the busy CPUs.
    pub fn cpus_are_others(&self) -> bool {
        let busy = self.share(LimitedBy::HostCpu).zip(self.host_cpus).map(|(share, cpus)| share * cpus);
        self.others_cpus().zip(busy).is_some_and(|(others, busy)| others > busy / 2.0)
    }

    /// Whether this limit alone holds the load back: CPUs that others keep busy hold back only those who wait for one.
    pub fn holds(&self, one: &Use) -> bool {
        let is_beside = one.of == LimitedBy::HostCpu && self.cpus_are_others();
        one.binds() && !(is_beside && self.cpu_waited_share.is_some_and(|share| share < WAITED_FOR_CPU))
    }
}

/// `None`: the arm has no measured load.
pub(crate) fn of(evidence: &Evidence, arm: &Arm, summary: &ArmSummary) -> Option<Limits> {
    let load = arm.load.as_ref().filter(|load| load.measured.elapsed_us > 0 && load.measured.transactions > 0)?;
    let seen = Seen { evidence, arm, phase: &load.measured, summary };
    let mut limits = Limits { limited_by: None, uses: seen.uses(), ..seen.figures() };
    let is_known = limits.share(LimitedBy::HostCpu).is_some();
    limits.limited_by = match load.arrivals {
        Arrivals::Closed => binding(&limits).or(is_known.then_some(LimitedBy::Connections)),
        // what it used to the full did not keep it from the rate
        _ if is_known && kept_up(arm, summary) == Some(true) => Some(LimitedBy::Rate),
        _ => binding(&limits).or((is_known && is_in_time(summary)).then_some(LimitedBy::Rate)),
    };
    Some(limits)
}

/// A limit that caps the throughput comes before one that only takes time: a server whose disk has no operations left waits for reads, too. CPUs that
/// other programs keep busy come last: they only slow down the work for which the arm waits, and hold nothing back where the arm's own threads hardly wait
/// for a CPU.
fn binding(limits: &Limits) -> Option<LimitedBy> {
    use LimitedBy::{Bandwidth, CpuList, CpuQuota, HostCpu, Iops, PoolMisses, Queue, Syncs};
    let (caps, host, waits) =
        (&[Iops, Bandwidth, Queue, CpuQuota, CpuList][..], &[HostCpu][..], &[PoolMisses, Syncs][..]);
    let groups = if limits.cpus_are_others() { [caps, waits, host] } else { [caps, host, waits] };
    let found = groups.iter().find_map(|group| {
        let binding = limits.uses.iter().filter(|one| group.contains(&one.of) && limits.holds(one));
        binding.max_by(|a, b| a.share.total_cmp(&b.share)).map(|one| one.of)
    });
    let stopped = limits.stopped_share.is_some_and(|share| share >= STOPPED_BESIDE_OTHERS);
    let is_busy = limits.uses.iter().any(|one| one.of == HostCpu && one.binds());
    match found {
        Some(HostCpu) | None if stopped && is_busy && limits.cpus_are_others() => Some(CpuQuota),
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
            cpu_waited_share: self.waited_for_cpu(),
            client_cpus: (client > 0).then(|| client as f64 / self.phase.elapsed_us as f64),
            host_cpus: (cpus > 0).then(|| f64::from(cpus)),
            reads_per_query: self.reads_per_query(),
        }
    }

    /// The growth of a counter during the measured phase. `None`: it was not read, or began anew.
    fn grown(&self, of: &str, counter: &str) -> Option<f64> {
        let found = self.arm.witnesses.iter().find(|witness| witness.of == of && witness.counter == counter)?;
        Some(found.grown()? as f64)
    }

    fn share_of_time(&self, counter_us: &str) -> Option<f64> {
        Some(self.grown("layer", counter_us)? / self.phase.elapsed_us as f64)
    }

    /// The server's CPU time over the time that it is allowed, if that is nearly 1; otherwise the share of periods in which it was stopped.
    fn quota(&self) -> Option<f64> {
        let used = self.server_cpus().zip(self.asked("server.cpus.limit").filter(|cpus| *cpus > 0.0));
        let used = used.map(|(used, allowed)| used / allowed).filter(|share| *share >= USED_UP);
        let stopped = self.throttled()?;
        Some(used.map_or(stopped, |used| used.max(stopped)))
    }

    /// The share of the quota's periods in which the server was stopped because it had used up its CPU time.
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

    /// The measured value of the squeeze `what` of this arm.
    fn asked(&self, what: &str) -> Option<f64> {
        let mut rows = self.evidence.measured.iter().filter(|row| row.arm.as_deref() == Some(&self.arm.name));
        rows.find(|row| row.what == what)?.got.map(|got| got.value)
    }

    fn server_cpus(&self) -> Option<f64> {
        let watched = || {
            let (from_us, to_us) = self.ends();
            server_cpu_us_between(self.evidence, from_us, to_us)
        };
        self.grown("limits", "cpu_us").or_else(watched).map(|us| us / self.phase.elapsed_us as f64)
    }

    /// The busy share of all CPUs of the host together; time that a hypervisor gave to others counts as busy.
    fn host_busy(&self) -> Option<f64> {
        let of = |names: &[&str]| names.iter().filter_map(|name| self.during("stat", name)).sum::<f64>();
        let busy_us = of(&["user", "nice", "system", "irq", "softirq", "steal"]);
        let all_us = busy_us + of(&["idle", "iowait"]);
        (all_us > 0.0).then(|| busy_us / all_us)
    }

    /// The share of the transactions' time that was spent in reads; when reads were not timed, the share of the time in which the host waited for
    /// I/O.
    fn reading(&self) -> Option<f64> {
        self.reads_per_query().filter(|reads| *reads >= FEW_READS)?;
        let timed = self.grown("layer", "slow layer read us").zip(self.took_us());
        timed.map(|(read_us, took_us)| read_us / took_us).or_else(|| {
            let waited_us = self.during("psi.io", "some.total").filter(|_| self.arm.delay.is_none())?;
            Some(waited_us / self.phase.elapsed_us as f64)
        })
    }

    /// `None`: nobody counted it, or not for all connections: those of another program, and those that were lost and made again, ended before the counters
    /// were read.
    fn waited_for_cpu(&self) -> Option<f64> {
        let is_whole = self.arm.driven.is_none() && self.phase.reconnects == 0;
        let waited = |of| self.grown(of, "waited for a CPU us").filter(|_| is_whole);
        let took_us = self.took_us()?;
        Some((waited("process")? + waited("load")?) / took_us)
    }

    /// The time of all transactions together.
    fn took_us(&self) -> Option<f64> {
        let took_us = self.summary.service.map(|service| service.mean_us * self.summary.transactions as f64);
        took_us.filter(|us| *us > 0.0)
    }

    /// The share of the time spent in syncs for which transactions waited: a server syncs its log one sync after the other.
    fn syncing(&self) -> Option<f64> {
        let writes = self.phase.writes > 0 || !self.phase.counts_queries();
        self.share_of_time("slow layer sync us").filter(|_| writes && self.waits_for_syncs())
    }

    /// The layer counts syncs of data files, too, for which no transaction waits. So commits must have half of the transactions' time; or, where not nearly each
    /// transaction has a commit of its own, a transaction must take as long as a sync.
    fn waits_for_syncs(&self) -> bool {
        let is_commit = |class: &str| ["commit", "end"].iter().any(|it| class.eq_ignore_ascii_case(it));
        let commits = self.phase.statements.iter().find(|(class, _)| is_commit(class)).map(|(_, it)| &it.service);
        let commits = commits.filter(|commits| commits.count() as f64 >= 0.9 * self.summary.transactions as f64);
        if let (Some(commits), Some(took_us)) = (commits, self.took_us()) {
            return commits.mean_ns() * commits.count() as f64 / 1000.0 >= took_us / 2.0;
        }
        let sync_us = self.grown("layer", "slow layer sync us").zip(self.grown("layer", "slow layer syncs"));
        let sync_us = sync_us.filter(|(_, syncs)| *syncs > 0.0).map(|(us, syncs)| us / syncs);
        let took_us = self.summary.service.map(|service| service.mean_us);
        sync_us.zip(took_us).is_none_or(|(sync_us, took_us)| took_us >= sync_us)
    }

    fn reads_per_query(&self) -> Option<f64> {
        let reads = self.summary.reads.as_ref()?;
        if reads.reference == Some(Reference::Layer) { reads.by_layer } else { reads.by_server }
    }

    /// The growth of a counter during the measured phase; the values at its ends are interpolated between two readings.
    fn during(&self, source: &str, name: &str) -> Option<f64> {
        let (from_us, to_us) = self.ends();
        Series::find(self.evidence, source, name)?.grown_between(from_us, to_us)
    }

    fn ends(&self) -> (u64, u64) {
        (self.phase.started_us, self.phase.started_us + self.phase.elapsed_us)
    }
}
