// SPDX-License-Identifier: Apache-2.0
use crate::ram::OVERCOMMIT;
use crate::{Error, Meminfo};
use serde::{Deserialize, Serialize};
use std::fs;
use std::time::Duration;
use units::Bytes;

/// How much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// Take this much away.
    Hide(Bytes),
    /// Take so much away that `MemAvailable` is this.
    Leave(Bytes),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Options {
    pub amount: Amount,
    /// Drop the clean page cache of the whole host first: faster, and felt by everybody.
    pub drop_caches: bool,
    /// How long the reservation may take; on a full cache the kernel has to make room.
    pub deadline: Duration,
    /// Go on although the host has swap, and hidden RAM may page the server out instead of being missed.
    pub with_swap: bool,
}

impl Options {
    pub fn new(amount: Amount) -> Self {
        Self { amount, drop_caches: false, deadline: Duration::from_secs(60), with_swap: false }
    }
}

/// What will be done. Nothing is changed yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    pub options: Options,
    pub before: Meminfo,
    /// 0: the host is as small as asked already, and there is nothing to hide.
    pub pages: u64,
    pub hide_bytes: u64,
    /// `MemAvailable` that the reservation stops at.
    pub floor_bytes: u64,
    pub overcommit_before: u64,
    /// To be known, and no reason to refuse.
    pub warnings: Vec<String>,
}

/// One change with its undo, for `--dry-run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    pub change: String,
    pub undo: String,
}

impl Plan {
    pub fn is_nothing(&self) -> bool {
        self.pages == 0
    }

    /// In the order of doing.
    pub fn changes(&self) -> Vec<Change> {
        if self.is_nothing() {
            return Vec::new();
        }
        let change = |change: String, undo: &str| Change { change, undo: undo.to_owned() };
        let (before, after) = (self.overcommit_before, self.overcommit_before + self.pages);
        let mut changes = Vec::new();
        if self.options.drop_caches {
            changes.push(change("drop the page cache of the host".into(), "none: it fills again by itself"));
        }
        changes.push(change(
            format!("{OVERCOMMIT}: {before} -> {after}, while the holder reserves"),
            &format!("back to {before} as soon as it has"),
        ));
        changes.push(change(
            format!(
                "a holder process reserves {} ({} huge pages), oom_score_adj 1000",
                Bytes(self.hide_bytes),
                self.pages
            ),
            "it ends, and the pages are free",
        ));
        changes
    }
}

/// The least `MemAvailable` that is ever left: max(1 GiB, 5 % of RAM). Below it the kernel kills whom it likes.
pub fn floor_bytes(total_bytes: u64) -> u64 {
    Bytes::GIB.max(total_bytes / 20)
}

/// Looks whether it can be done.
///
/// # Errors
/// [`Error::Refused`] with every reason at once, and what would help against each.
pub fn plan(options: &Options) -> Result<Plan, Error> {
    let before = Meminfo::now()?;
    let overcommit = fs::read_to_string(OVERCOMMIT).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let overcommit_mode = fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    let host = HostState {
        before,
        overcommit,
        strict_commit: overcommit_mode.trim() == "2",
        root: rustix::process::geteuid().is_root(),
    };
    plan_on(options, &host)
}

/// What a plan depends on.
pub(crate) struct HostState {
    before: Meminfo,
    /// `None`: no such sysctl, the kernel has no huge pages.
    overcommit: Option<u64>,
    strict_commit: bool,
    root: bool,
}

fn plan_on(options: &Options, host: &HostState) -> Result<Plan, Error> {
    let before = host.before;
    let hide = match options.amount {
        Amount::Hide(bytes) => bytes.0,
        Amount::Leave(bytes) => before.available_bytes.saturating_sub(bytes.0),
    };
    let pages = hide.checked_div(before.huge_page_bytes).unwrap_or(0);
    let least = floor_bytes(before.total_bytes);
    let asked_to_leave = if let Amount::Leave(bytes) = options.amount { bytes.0 } else { 0 };
    let plan = Plan {
        options: options.clone(),
        before,
        pages,
        hide_bytes: pages * before.huge_page_bytes,
        floor_bytes: least,
        overcommit_before: host.overcommit.unwrap_or(0),
        warnings: warnings(options, &before),
    };
    let mut objections = Vec::new();
    if asked_to_leave > 0 && asked_to_leave < least {
        let what = format!("leaving {} is below the floor of {}", Bytes(asked_to_leave), Bytes(least));
        objections.push(Objection {
            what,
            hint: "for a smaller server, limit that server alone with a memory cgroup".into(),
        });
    }
    if pages > 0 {
        objections.extend(all_objections(&plan, host));
    }
    if objections.is_empty() { Ok(plan) } else { Err(refusal(objections)) }
}

struct Objection {
    what: String,
    hint: String,
}

/// Every reason at once, with what would help against each.
fn refusal(objections: Vec<Objection>) -> Error {
    let (what, hint): (Vec<String>, Vec<String>) = objections.into_iter().map(|it| (it.what, it.hint)).unzip();
    Error::Refused { what: format!("RAM cannot be hidden: {}", what.join("; ")), hint: hint.join("; ") }
}

fn warnings(options: &Options, before: &Meminfo) -> Vec<String> {
    let mut warnings = Vec::new();
    if before.swap_total_bytes > 0 && options.with_swap {
        warnings.push("swap is on: memory that is short may be paged out instead of missed".into());
    }
    warnings
}

fn all_objections(plan: &Plan, host: &HostState) -> Vec<Objection> {
    let before = &plan.before;
    let checks: [(bool, String, &str); 6] = [
        (!host.root, "that needs root".into(), "run it with sudo, or limit one server alone with a memory cgroup"),
        (
            host.overcommit.is_none() || before.huge_page_bytes == 0,
            "this kernel has no huge pages (CONFIG_HUGETLBFS)".into(),
            "limit one server alone with a memory cgroup",
        ),
        (before.available_bytes.saturating_sub(plan.hide_bytes) < plan.floor_bytes, below_floor(plan), "hide less"),
        (
            before.swap_total_bytes > 0 && !plan.options.with_swap,
            "swap is on, and would take what no longer fits".into(),
            "swapoff -a, or accept it with --with-swap",
        ),
        (
            before.huge_unclaimed_pages() > 0,
            format!("{} huge pages of a pool are free, and somebody may count on them", before.huge_unclaimed_pages()),
            "start their user, or set vm.nr_hugepages lower",
        ),
        // every huge page lowers the limit by its part that overcommit_ratio grants (kernel, mm/util.c, vm_commit_limit)
        (
            host.strict_commit && before.commit_limit_bytes.saturating_sub(plan.hide_bytes) <= before.committed_bytes,
            "vm.overcommit_memory is 2, and the commit limit would fall below what is committed".into(),
            "hide less",
        ),
    ];
    let objections = checks.into_iter().filter(|(applies, ..)| *applies);
    objections.map(|(_, what, hint)| Objection { what, hint: hint.to_owned() }).collect()
}

fn below_floor(plan: &Plan) -> String {
    let before = &plan.before;
    format!(
        "{} are available, and hiding {} goes below the floor of {} (1 GiB or 5 % of RAM); at most {} can be hidden",
        Bytes(before.available_bytes),
        Bytes(plan.hide_bytes),
        Bytes(plan.floor_bytes),
        Bytes(before.available_bytes.saturating_sub(plan.floor_bytes) >> 20 << 20)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> HostState {
        let before = Meminfo {
            total_bytes: 24 * Bytes::GIB,
            available_bytes: 20 * Bytes::GIB,
            commit_limit_bytes: 12 * Bytes::GIB,
            committed_bytes: 8 * Bytes::GIB,
            huge_page_bytes: 2 * Bytes::MIB,
            ..Meminfo::default()
        };
        HostState { before, overcommit: Some(3), strict_commit: false, root: true }
    }

    fn refused(amount: Amount, host: &HostState) -> String {
        plan_on(&Options::new(amount), host).expect_err("is refused").to_string()
    }

    #[test]
    fn hide_and_leave() {
        let hide = plan_on(&Options::new(Amount::Hide(Bytes::gib(4))), &state()).expect("plans");
        assert_eq!((hide.pages, hide.hide_bytes, hide.floor_bytes), (2048, 4 * Bytes::GIB, 24 * Bytes::GIB / 20));
        assert!(hide.changes()[0].change.contains("3 -> 2051"));
        let leave = plan_on(&Options::new(Amount::Leave(Bytes::gib(8))), &state()).expect("plans");
        assert_eq!(leave.hide_bytes, 12 * Bytes::GIB);
    }

    #[test]
    fn a_host_that_is_smaller_already_has_nothing_to_hide() {
        let leave = plan_on(&Options::new(Amount::Leave(Bytes::gib(30))), &state()).expect("plans");
        assert!(leave.is_nothing() && leave.changes().is_empty());
        let ordinary = HostState { root: false, ..state() };
        assert!(plan_on(&Options::new(Amount::Leave(Bytes::gib(30))), &ordinary).expect("needs no root").is_nothing());
    }

    #[test]
    fn refusals_name_every_reason() {
        let mut host = HostState { root: false, ..state() };
        host.before.swap_total_bytes = 1;
        host.before.huge_free_pages = 7;
        host.before.huge_reserved_pages = 2;
        let text = refused(Amount::Hide(Bytes::gib(19)), &host);
        for word in ["needs root", "swap is on", "5 huge pages", "below the floor", "at most 18.80 GiB"] {
            assert!(text.contains(word), "'{word}' is not in: {text}");
        }
        assert!(refused(Amount::Leave(Bytes::mib(512)), &state()).contains("below the floor"));
        let strict = HostState { strict_commit: true, ..state() };
        assert!(refused(Amount::Hide(Bytes::gib(6)), &strict).contains("commit limit"));
        let without = HostState { overcommit: None, ..state() };
        assert!(refused(Amount::Hide(Bytes::gib(1)), &without).contains("no huge pages"));
    }
}
