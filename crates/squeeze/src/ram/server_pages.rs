// SPDX-License-Identifier: Apache-2.0
//! Huge pages for a server: the pool is made larger, so that the asked number of pages is free for the program that starts next. The pages come from
//! available memory, and stay in the pool until the step is undone. Pages that are in use at that moment stay with their users until the users free
//! them.

use crate::ram::host_state::HostState;
use crate::ram::plan::{Options, Plan};
use crate::ram::pool;
use crate::ram::room::Room;
use crate::ram::taken_ram::Node;
use crate::{Error, Meminfo};
use evidence::{RamAmount, RamMechanism};
use run::Run;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use units::{Bytes, Span, counted};

/// The user's wish.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// Pages of the default size that nobody uses and nobody has reserved.
    pub pages: u64,
    /// Drop the clean page cache of the whole host between two tries.
    pub drop_caches: bool,
    /// How long the kernel may take to make room.
    pub deadline: Duration,
    /// Give all pages back when the kernel granted fewer.
    pub strict: bool,
}

/// The planned change. Nothing is changed yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerPages {
    pub pages: u64,
    /// The pages of this kind that are in the pool already: nobody uses them and nobody has reserved them.
    pub unclaimed: u64,
    #[serde(flatten)]
    pub plan: Plan,
}

/// The pages that the kernel has granted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GrantedPages {
    pub page_bytes: u64,
    /// The number of pages that should be free.
    pub asked_pages: u64,
    /// The number of pages by which the pool has grown.
    pub granted_pages: u64,
    /// Pages that are free now and that nobody has reserved.
    pub unclaimed_pages: u64,
    pub pool_pages: u64,
    pub available_before_bytes: u64,
    pub available_after_bytes: u64,
    pub elapsed_us: u64,
    /// The pages that each NUMA node gave.
    pub nodes: Vec<Node>,
    /// Why the kernel granted fewer pages than asked, in words.
    pub shortage: Option<String>,
}

impl ServerPages {
    /// Makes a plan.
    ///
    /// # Errors
    /// [`Error::Refused`]: no root, no huge pages, or the host would have less than its reserve.
    pub fn plan(wish: &Wish) -> Result<Self, Error> {
        Self::plan_on(wish, &HostState::now()?)
    }

    fn plan_on(wish: &Wish, host: &HostState) -> Result<Self, Error> {
        let (before, page_bytes) = (host.before, host.before.huge_page_bytes);
        let unclaimed = before.huge_unclaimed_pages();
        let units = wish.pages.saturating_sub(unclaimed);
        let (room, hide_bytes) = (Room::of_host(&before), units.saturating_mul(page_bytes));
        let options = Options {
            drop_caches: wish.drop_caches,
            deadline: wish.deadline,
            // the pages are for a server, not hidden from it
            with_swap: true,
            mechanism: Some(RamMechanism::Pool),
            strict: wish.strict,
            ..Options::new(RamAmount::Hide(Bytes(hide_bytes)))
        };
        let plan = Plan {
            options,
            mechanism: RamMechanism::Pool,
            before,
            room,
            unit_bytes: page_bytes,
            units,
            hide_bytes,
            floor_bytes: room.floor_bytes(),
            overcommit_before: host.overcommit.unwrap_or(0),
            pool_before: host.pool,
            warnings: Vec::new(),
        };
        let pages = Self { pages: wish.pages, unclaimed, plan };
        match pages.objection(host) {
            Some((what, hint)) => Err(Error::Refused { what, hint }),
            None => Ok(pages),
        }
    }

    fn objection(&self, host: &HostState) -> Option<(String, String)> {
        let plan = &self.plan;
        let told = |what: String, hint: &str| Some((what, hint.to_owned()));
        if host.overcommit.is_none() || plan.unit_bytes == 0 {
            return told("this kernel has no huge pages (CONFIG_HUGETLBFS)".into(), "a kernel that has them");
        }
        if plan.is_nothing() {
            return None;
        }
        if !host.root || !host.sysctl_writable {
            return told(
                "the pool of huge pages is the host's, and only root may change it".into(),
                "run it with sudo, outside of containers",
            );
        }
        let available = plan.room.available_bytes;
        if available.saturating_sub(plan.hide_bytes) < plan.floor_bytes {
            let most = available.saturating_sub(plan.floor_bytes) / plan.unit_bytes;
            let what = format!(
                "{} of {} are {}; {} are available, and the host keeps {} (1 GiB or 5 % of RAM)",
                counted(plan.units, "huge page"),
                Bytes(plan.unit_bytes),
                Bytes(plan.hide_bytes),
                Bytes(available),
                Bytes(plan.floor_bytes)
            );
            return Some((
                what,
                format!("at most {most} can be added; make the server's memory smaller, or free some"),
            ));
        }
        let limit = plan.before.commit_limit_bytes.saturating_sub(plan.hide_bytes);
        if host.strict_commit && limit <= plan.before.committed_bytes {
            let what = "vm.overcommit_memory is 2, and huge pages lower the commit limit below what is committed";
            return told(what.into(), "take fewer pages, or raise vm.overcommit_ratio");
        }
        None
    }

    /// Makes the pool larger.
    ///
    /// # Errors
    /// [`Error::FewPages`]: the kernel granted less than half of the missing pages, or, with `strict`, not all of them; all are given back then.
    pub(crate) fn apply(&self, run: &mut Run) -> Result<GrantedPages, Error> {
        let before = Meminfo::now()?;
        let taken = pool::grow(run, &self.plan)?;
        let (page_bytes, after) = (self.plan.unit_bytes, Meminfo::now()?);
        let granted = taken.bytes / page_bytes.max(1);
        let is_short = granted < self.plan.units;
        let why = taken.stopped.unwrap_or_else(|| "the kernel granted no more".into());
        if is_short && (self.plan.options.strict || granted.saturating_mul(2) < self.plan.units) {
            run.undo_step(taken.step)?;
            let seconds = taken.elapsed.as_secs();
            return Err(Error::FewPages { asked: self.plan.units, got: granted, seconds, why });
        }
        Ok(GrantedPages {
            page_bytes,
            asked_pages: self.pages,
            granted_pages: granted,
            unclaimed_pages: after.huge_unclaimed_pages(),
            pool_pages: after.huge_total_pages,
            available_before_bytes: before.available_bytes,
            available_after_bytes: after.available_bytes,
            elapsed_us: Span(taken.elapsed).as_us(),
            nodes: taken.nodes,
            shortage: is_short
                .then(|| format!("{granted} of {} could be had: {why}", counted(self.plan.units, "page"))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> HostState {
        let before = Meminfo {
            total_bytes: 24 * Bytes::GIB,
            available_bytes: 20 * Bytes::GIB,
            huge_total_pages: 50,
            huge_free_pages: 40,
            huge_reserved_pages: 10,
            huge_page_bytes: 2 * Bytes::MIB,
            ..Meminfo::default()
        };
        HostState {
            before,
            overcommit: Some(0),
            pool: 50,
            block_bytes: 0,
            blocks: 0,
            sysctl_writable: true,
            strict_commit: false,
            root: true,
            room: Room::of_host(&before),
        }
    }

    fn wish(pages: u64) -> Wish {
        Wish { pages, drop_caches: false, deadline: Duration::from_secs(1), strict: false }
    }

    #[test]
    fn pages_that_nobody_claims_are_there_already() {
        let plan = ServerPages::plan_on(&wish(279), &host()).expect("plans");
        assert_eq!((plan.unclaimed, plan.plan.units, plan.plan.pool_before), (30, 249, 50));
        assert!(plan.plan.changes()[0].change.contains("50 -> 299"), "{:?}", plan.plan.changes());
        let nothing = ServerPages::plan_on(&wish(30), &HostState { root: false, ..host() }).expect("needs no root");
        assert!(nothing.plan.is_nothing());
    }

    #[test]
    fn the_host_keeps_its_reserve() {
        let refused = |pages, host: &HostState| match ServerPages::plan_on(&wish(pages), host) {
            Err(Error::Refused { what, hint }) => format!("{what}; {hint}"),
            other => panic!("{other:?}"),
        };
        // 20 GiB minus 1.2 GiB are 9625 pages and a part of one
        let most = refused(9_656, &host());
        assert!(most.contains("at most 9625 can be added"), "{most}");
        assert!(ServerPages::plan_on(&wish(9_655), &host()).is_ok());
        assert!(refused(u64::MAX, &host()).contains("at most"));
        assert!(refused(279, &HostState { root: false, ..host() }).contains("only root"));
        assert!(refused(279, &HostState { overcommit: None, ..host() }).contains("no huge pages"));
    }
}
