// SPDX-License-Identifier: Apache-2.0
//! The reasons why RAM cannot be hidden: all at once, each with its remedy.

use crate::Error;
use crate::ram::host_state::HostState;
use crate::ram::plan::{Options, Plan};
use crate::ram::traits::Traits;
use evidence::{OomVictim, RamAmount, RamMechanism};
use units::Bytes;

pub(super) struct Objection {
    what: String,
    hint: String,
}

pub(super) fn refusal(objections: Vec<Objection>) -> Error {
    let (what, hint): (Vec<String>, Vec<String>) = objections.into_iter().map(|it| (it.what, it.hint)).unzip();
    Error::Refused { what: format!("RAM cannot be hidden: {}", what.join("; ")), hint: hint.join("; ") }
}

pub(super) fn warnings(options: &Options, mechanism: RamMechanism, host: &HostState) -> Vec<String> {
    let mut warnings = Vec::new();
    if host.before.swap_total_bytes > 0 && options.with_swap {
        warnings.push("swap is on: memory that is short may be paged out instead of missed".into());
    }
    if mechanism == RamMechanism::Pool {
        warnings.push(
            "pages of the pool are free for anyone: a server with huge pages on (PostgreSQL's huge_pages = try) takes them, and less is hidden"
                .into(),
        );
    }
    if mechanism == RamMechanism::Balloon && host.room.limited {
        warnings.push("this is a container: only what runs in the same one gets less memory".into());
    }
    warnings
}

pub(super) fn all(plan: &Plan, host: &HostState) -> Vec<Objection> {
    let mut checks: Vec<(bool, String, &str)> = Vec::new();
    if let RamAmount::Leave(bytes) = plan.options.amount {
        checks.push((
            bytes.0 < plan.floor_bytes,
            format!("leaving {bytes} is below the floor of {}", Bytes(plan.floor_bytes)),
            "leave more; for a smaller server, limit that server alone with a memory cgroup: squeeze --ram, sandbox start --ram",
        ));
    }
    let asked = if let RamAmount::Hide(bytes) = plan.options.amount { bytes.0 } else { 0 };
    checks.push((
        plan.units == 0 && asked > 0 && plan.unit_bytes > 0,
        format!("{} is less than one piece of {}", Bytes(asked), Bytes(plan.unit_bytes)),
        "hide that much at least; a size without a unit is in bytes: write 64M or 2G",
    ));
    if plan.mechanism == RamMechanism::Offline {
        checks.push(no_blocks(host));
    }
    if plan.units > 0 {
        checks.extend(of_any(plan, host));
        checks.extend(match plan.mechanism {
            RamMechanism::Holder => of_holder(host),
            RamMechanism::Pool => vec![no_huge_pages(host)],
            RamMechanism::Offline => of_offline(plan, host),
            RamMechanism::Balloon => of_balloon(plan),
        });
    }
    let objections = checks.into_iter().filter(|(applies, ..)| *applies);
    objections.map(|(_, what, hint)| Objection { what, hint: hint.to_owned() }).collect()
}

fn of_any(plan: &Plan, host: &HostState) -> Vec<(bool, String, &'static str)> {
    let before = &plan.before;
    vec![
        (
            Traits::of(plan.mechanism).needs_root && !host.root,
            format!("that needs root (mechanism: {})", plan.mechanism.in_results()),
            "run it with sudo, or limit one server alone with a memory cgroup, or take --mechanism balloon",
        ),
        (
            matches!(plan.options.amount, RamAmount::Hide(_))
                && plan.room.available_bytes.saturating_sub(plan.hide_bytes) < plan.floor_bytes,
            below_floor(plan),
            "hide less",
        ),
        (
            before.swap_total_bytes > 0 && !plan.options.with_swap,
            "swap is on, and would take what no longer fits".into(),
            "swapoff -a, or accept it with --with-swap",
        ),
        // Every huge page lowers the limit by the share that overcommit_ratio grants (kernel, mm/util.c, vm_commit_limit).
        (
            host.strict_commit && before.commit_limit_bytes.saturating_sub(plan.hide_bytes) <= before.committed_bytes,
            "vm.overcommit_memory is 2, and the commit limit would fall below what is committed".into(),
            "hide less",
        ),
    ]
}

/// Adds a warning when whole pieces do not add up to the asked amount.
pub(super) fn with_rounding(mut plan: Plan, asked_bytes: u64) -> Plan {
    if plan.units > 0 && asked_bytes - plan.hide_bytes > asked_bytes / 50 {
        let (hidden, piece) = (Bytes(plan.hide_bytes), Bytes(plan.unit_bytes));
        plan.warnings.push(format!("RAM goes in pieces of {piece}: {hidden} of {} is hidden", Bytes(asked_bytes)));
    }
    plan
}

fn no_blocks(host: &HostState) -> (bool, String, &'static str) {
    (
        host.block_bytes == 0,
        "memory cannot be taken offline here (CONFIG_MEMORY_HOTREMOVE, and root outside of containers)".into(),
        "take another --mechanism; only `mem=` at boot makes MemTotal smaller, too: --persist",
    )
}

/// A fifth more blocks than needed, because some refuse.
fn of_offline(plan: &Plan, host: &HostState) -> Vec<(bool, String, &'static str)> {
    vec![(
        host.blocks < plan.units + plan.units.div_ceil(5),
        format!("only {} memory blocks can be tried for {}, and some always refuse", host.blocks, plan.units),
        "hide less, or take another --mechanism",
    )]
}

fn no_huge_pages(host: &HostState) -> (bool, String, &'static str) {
    (
        host.overcommit.is_none() || host.before.huge_page_bytes == 0,
        "this kernel has no huge pages (CONFIG_HUGETLBFS)".into(),
        "take --mechanism balloon, or limit one server alone with a memory cgroup",
    )
}

fn of_holder(host: &HostState) -> Vec<(bool, String, &'static str)> {
    let unclaimed = host.before.huge_unclaimed_pages();
    vec![
        no_huge_pages(host),
        (
            unclaimed > 0,
            format!("{unclaimed} huge pages of a pool are free, and somebody may count on them"),
            "start their user, or set vm.nr_hugepages lower",
        ),
    ]
}

fn of_balloon(plan: &Plan) -> Vec<(bool, String, &'static str)> {
    vec![(
        plan.options.oom_victim == OomVictim::Server,
        "a balloon is the largest process, so the kernel would kill it before any server".into(),
        "leave oom_victim out, or take another mechanism: the holder, the pool and offline, which need root",
    )]
}

fn below_floor(plan: &Plan) -> String {
    let available = plan.room.available_bytes;
    let floor = if plan.room.limited { "64 MiB or 5 % of the container" } else { "1 GiB or 5 % of RAM" };
    format!(
        "{} are available, and hiding {} goes below the floor of {} ({floor}); at most {} can be hidden",
        Bytes(available),
        Bytes(plan.hide_bytes),
        Bytes(plan.floor_bytes),
        Bytes(available.saturating_sub(plan.floor_bytes) >> 20 << 20)
    )
}
