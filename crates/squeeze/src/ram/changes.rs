// SPDX-License-Identifier: Apache-2.0
//! Lists the changes of a plan, each with its undo.

use crate::ram::OVERCOMMIT;
use crate::ram::plan::Plan;
use evidence::RamMechanism;
use host::change::POOL;
use serde::Serialize;
use units::{Bytes, counted};

/// One change with its undo, for `--dry-run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    pub change: String,
    pub undo: String,
}

impl Plan {
    /// In the order in which they are made.
    pub fn changes(&self) -> Vec<Change> {
        if self.is_nothing() { Vec::new() } else { of(self) }
    }
}

fn of(plan: &Plan) -> Vec<Change> {
    let mut changes = Vec::new();
    if plan.options.drop_caches {
        changes.push(change("drop the page cache of the host", "none: it fills again by itself"));
    }
    changes.extend(match plan.mechanism {
        RamMechanism::Holder => holder(plan),
        RamMechanism::Pool => pool(plan),
        RamMechanism::Offline => offline(plan),
        RamMechanism::Balloon => balloon(plan),
    });
    changes
}

fn change(change: impl Into<String>, undo: impl Into<String>) -> Change {
    Change { change: change.into(), undo: undo.into() }
}

fn holder(plan: &Plan) -> Vec<Change> {
    let before = plan.overcommit_before;
    let surplus = plan.before.huge_surplus_pages;
    let after = plan.raised_cap(before, surplus);
    let others = match surplus {
        0 => String::new(),
        pages => format!(" (others hold {})", counted(pages, "surplus huge page")),
    };
    let (hidden, score) = (Bytes(plan.hide_bytes), plan.options.oom_score_adj());
    vec![
        change(
            format!("{OVERCOMMIT}: {before} -> {after}{others}, while the holder reserves"),
            format!("back to {before} as soon as it has"),
        ),
        change(
            format!("a holder process reserves {hidden} ({} huge pages), oom_score_adj {score}", plan.units),
            "it ends, and the pages are free",
        ),
    ]
}

fn pool(plan: &Plan) -> Vec<Change> {
    let (before, surplus) = (plan.pool_before, plan.before.huge_surplus_pages);
    let (others, theirs) = match surplus {
        0 => (String::new(), ""),
        pages => (
            format!(" beside the {} of others, which become pages of the pool", counted(pages, "surplus huge page")),
            "; the pages of others are surplus again",
        ),
    };
    vec![
        change(
            format!(
                "{POOL}: {before} -> {} ({}{others}), asked for until it is there or the deadline has passed",
                before + surplus + plan.units,
                Bytes(plan.hide_bytes)
            ),
            format!("back to {before}; pages that somebody uses by then are free when they let go{theirs}"),
        ),
        change("compact memory, when less than that was granted", "none: it only moves pages"),
    ]
}

fn offline(plan: &Plan) -> Vec<Change> {
    let (blocks, hidden) = (plan.units, Bytes(plan.hide_bytes));
    vec![change(
        format!("{blocks} memory blocks of {} are taken offline ({hidden}): MemTotal shrinks", Bytes(plan.unit_bytes)),
        "each is online again, as online_kernel or online_movable, in the zone that it was in; then the reserves that the kernel computes anew \
         by that are what they were (vm.user_reserve_kbytes, vm.admin_reserve_kbytes, vm.min_free_kbytes)",
    )]
}

fn balloon(plan: &Plan) -> Vec<Change> {
    let (hidden, score) = (Bytes(plan.hide_bytes), plan.options.oom_score_adj());
    vec![change(
        format!("a balloon process touches {hidden} of its own memory, oom_score_adj {score}"),
        "it ends, and the memory is free",
    )]
}
