// SPDX-License-Identifier: Apache-2.0
//! `limit.by`: the limit that held an arm back.

use super::{Doubt, Finding, FindingEvidence, doubt, percent};
use crate::limits::{self, LimitedBy, Limits, Use};
use crate::summary::ArmSummary;
use evidence::Evidence;
use units::{Bytes, counted};

pub(super) fn findings(evidence: &Evidence, arms: &[ArmSummary]) -> Vec<Finding> {
    let limited = evidence.arms.iter().zip(arms).filter_map(|(arm, summary)| {
        let limits = limits::of(evidence, arm, summary)?;
        let connections = arm.load.as_ref().map_or(0, |load| load.connections);
        Some(Finding {
            arm: Some(arm.name.clone()),
            statement: statement(&arm.name, limits.limited_by?, &limits, summary, connections),
            doubts: doubts(&arm.name, &limits, arm.delay.is_some()),
            evidence: FindingEvidence::LimitBy(limits),
        })
    });
    limited.collect()
}

fn statement(arm: &str, by: LimitedBy, limits: &Limits, summary: &ArmSummary, connections: u32) -> String {
    let share = percent(limits.share(by).unwrap_or_default());
    let so_many =
        |value: Option<f64>| value.map_or_else(|| "an unknown number of".to_owned(), |value| format!("{value:.0}"));
    let cpus =
        |value: Option<f64>| value.map_or_else(|| "an unknown part of".to_owned(), |value| format!("{value:.2}"));
    match by {
        LimitedBy::Iops => format!(
            "\"{arm}\" is limited by the disk's IOPS: it does {} reads and writes a second, and in {share} of the time somebody waited \
             for the next one to be allowed.",
            so_many(limits.operations_per_second)
        ),
        LimitedBy::Bandwidth => format!(
            "\"{arm}\" is limited by the disk's bandwidth: it moves {} a second, and in {share} of the time somebody waited because that \
             was used up.",
            limits.bytes_per_second.map_or_else(|| "an unknown amount".to_owned(), bytes)
        ),
        LimitedBy::Queue => format!(
            "\"{arm}\" is limited by how many requests its disk works on at once: in {share} of the time somebody waited until the disk was \
             done with others ({} reads and writes a second).",
            so_many(limits.operations_per_second)
        ),
        LimitedBy::CpuQuota => format!(
            "\"{arm}\" is limited by the CPU time that its server may use: it used {} CPUs of {}, and was stopped for that in {} of the \
             periods.",
            cpus(limits.server_cpus),
            cpus(limits.server_cpus_allowed),
            percent(limits.stopped_share.unwrap_or_default())
        ),
        LimitedBy::CpuList => format!(
            "\"{arm}\" is limited by the CPUs that its server may run on: it used {} of {}.",
            cpus(limits.server_cpus),
            cpus(limits.server_cpus_allowed)
        ),
        LimitedBy::HostCpu => format!(
            "\"{arm}\" is limited by CPU: all {} CPUs of this host were busy {share} of the time ({} by the server, {} by the load).",
            so_many(limits.host_cpus),
            cpus(limits.server_cpus),
            cpus(limits.client_cpus)
        ),
        LimitedBy::PoolMisses => format!(
            "\"{arm}\" is limited by reads that miss the buffer pool: {:.2} a query, and waiting for them is {share} of the time.",
            limits.reads_per_query.unwrap_or_default()
        ),
        LimitedBy::Syncs => format!(
            "\"{arm}\" is limited by commits: in {share} of the time the disk was writing what was committed to its medium (sync)."
        ),
        LimitedBy::Connections => format!(
            "Nothing that was looked at was used up in \"{arm}\": {} for one answer after another. Whether more of them (load.threads) would do more was not tried.",
            waits(connections)
        ),
        LimitedBy::Rate => format!(
            "\"{arm}\" did all that was asked of it, {:.0} transactions a second: its rate was its limit.",
            summary.transactions_per_second.unwrap_or_default()
        ),
    }
}

fn waits(connections: u32) -> String {
    match connections {
        1 => "its one connection waits".to_owned(),
        count => format!("each of its {} waits", counted(count.into(), "connection")),
    }
}

fn doubts(arm: &str, limits: &Limits, has_layer: bool) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let binding: Vec<_> =
        limits.uses.iter().filter(|one| limits.holds(one) && Some(one.of) != limits.limited_by).collect();
    // a disk with no operations left makes each miss wait: that is one limit, not two; CPUs of others have a doubt of their own
    let is_next = |of: LimitedBy| match of {
        LimitedBy::PoolMisses | LimitedBy::Syncs => false,
        LimitedBy::HostCpu => !limits.cpus_are_others(),
        _ => true,
    };
    let caps = binding.iter().filter(|one| is_next(one.of));
    for other in caps {
        let text = format!("arm \"{arm}\": {} next ({})", name(other.of), percent(other.share));
        doubts.push(doubt("limit.next", text, Some("once the first limit is raised, this one holds")));
    }
    let host = limits.uses.iter().find(|one| one.of == LimitedBy::HostCpu);
    let others = limits.others_cpus().filter(|_| host.is_some_and(Use::binds) && limits.cpus_are_others());
    if let Some(others) = others {
        let text =
            format!("arm \"{arm}\": {others:.2} of the CPUs were busy with something other than server and load");
        doubts.push(doubt("limit.others", text, Some("run again when the host is idle")));
    }
    if limits.limited_by == Some(LimitedBy::PoolMisses) && !has_layer {
        let text = format!(
            "arm \"{arm}\": nobody timed its reads; the time is that in which anything on this host waited for a disk"
        );
        doubts.push(doubt(
            "limit.untimed",
            text,
            Some("squeeze.disk with a delay of 0 puts a layer under the server that times them"),
        ));
    }
    doubts
}

fn name(of: LimitedBy) -> &'static str {
    match of {
        LimitedBy::Iops => "the disk's IOPS would hold it",
        LimitedBy::Bandwidth => "the disk's bandwidth would hold it",
        LimitedBy::Queue => "the requests that the disk works on at once would hold it",
        LimitedBy::CpuQuota => "the CPU time that the server may use would hold it",
        LimitedBy::CpuList => "the CPUs that the server may run on would hold it",
        LimitedBy::HostCpu => "the host's CPUs would hold it",
        LimitedBy::PoolMisses => "reads that miss the pool would hold it",
        LimitedBy::Syncs => "syncs would hold it",
        LimitedBy::Connections | LimitedBy::Rate => "the load would hold it",
    }
}

#[allow(clippy::cast_possible_truncation)] // sizes are whole and positive
fn bytes(value: f64) -> String {
    Bytes((value / 1024.0).round() as u64 * 1024).to_string()
}
