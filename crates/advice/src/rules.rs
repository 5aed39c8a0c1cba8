// SPDX-License-Identifier: Apache-2.0
//! The rules: which settings to change, and which not.

use crate::advised::{ARTICLE, Advice, Basis, Demand, Share, Tail};
use crate::change::{basis, change};
use crate::pool::Pool;
use crate::reading::Reading;
use crate::server::Server;
use crate::tail::rounds_without_a_page;
use capability::{Algorithm, FreeList, OnEmpty, Refiller};

/// The facts that the rules use.
pub(crate) struct Case<'a> {
    pub reading: &'a Reading,
    pub server: &'a Server,
    pub row: &'static FreeList,
    pub pool: &'a Pool,
    pub demand: Option<&'a Demand>,
    pub tail: &'a Tail,
}

const LARGEST_SHARE: f64 = 0.20;

impl Case<'_> {
    pub(crate) fn advice(&self) -> Vec<Advice> {
        let mut all = Vec::new();
        match self.pool.algorithm {
            Some(Algorithm::Backoff) => {
                all.extend(self.leave_backoff());
                all.extend(self.larger_depth());
            }
            Some(Algorithm::Legacy) => all.push(self.stay_with_legacy()),
            None => {}
        }
        // in other versions queries never write a page themselves
        if self.tail.is_dirty() && matches!(self.row.legacy, OnEmpty::Searches(_)) {
            all.extend(self.write_earlier());
        }
        if rounds_without_a_page(self.reading, self.row, self.pool.algorithm_or_legacy()).is_some() {
            all.extend(self.twice_the_depth());
        }
        if self.pool.free_ratio().is_some_and(|it| it.verdict == Share::Problem) {
            all.extend(self.smaller_depth());
        }
        all.extend(self.lru_threads());
        all
    }

    fn has_manager(&self) -> bool {
        self.row.refillers.iter().any(|it| matches!(it, Refiller::Manager { .. }))
    }

    /// The price of legacy, by the version's row.
    fn price_of_legacy(&self) -> String {
        let mut price = "a query that finds the list empty takes a clean page itself: some microseconds".to_owned();
        if let OnEmpty::Searches(search) = self.row.legacy {
            price += &format!(
                "; where all pages at the end of the LRU list are dirty it writes one, and from the third round on sleeps {} ms",
                search.sleep_us / 1000
            );
            if search.waits_for_batch && self.pool.is_doublewrite {
                price +=
                    "; with the doublewrite buffer on it waits for an LRU batch that runs, and no counter shows that";
            }
        }
        price
    }

    fn leave_backoff(&self) -> Option<Advice> {
        let now = match self.reading.rate("Innodb_buffer_pool_wait_free") {
            Some(stalls) if stalls > 0.0 => {
                format!("queries failed {stalls:.0} tries for a page in each second: they sleep, and wake no other thread")
            }
            Some(_) => {
                "no query failed to get a page between the readings; when one does, it sleeps, and wakes no other thread"
                    .to_owned()
            }
            None => "the reading does not tell whether queries failed to get a page; one that does sleeps, and wakes no other thread"
                .to_owned(),
        };
        let (is_certain, why) = match (self.has_manager(), self.row.backoff_wakes, self.tail.verdict) {
            (false, false, _) => (
                true,
                "in this version only the page cleaner makes pages free, once a second, and perhaps not at all while there are no writes".to_owned(),
            ),
            (_, true, _) => (true, "in this version each failed try wakes the thread that makes pages free, but legacy is the default, and needs no other thread".to_owned()),
            (true, false, "clean") => (true, "the pages at the end of the LRU list are clean, so that a query can take one itself".to_owned()),
            (true, false, "dirty") => (false, "dirty pages reach the end of the LRU list, so that legacy may be worse: try it, and go back if buffer_LRU_single_flush_scanned grows and queries get slower".to_owned()),
            (true, false, _) => (true, "whether dirty pages reach the end of the LRU list is not known: look at buffer_LRU_single_flush_scanned afterwards, and go back if it grows".to_owned()),
        };
        let statement = change(self.server, "innodb_empty_free_list_algorithm", "legacy")?;
        let mut price = self.price_of_legacy();
        if !is_certain {
            price = format!("perhaps longer writes than stalls: {price}");
        }
        Some(Advice {
            statement: Some(statement.statement),
            dynamic: Some(statement.is_dynamic),
            why: format!("{now}; {why}"),
            price,
            basis: if is_certain { basis(self.server) } else { Basis::Assumed },
            source: format!("{}; {}; {ARTICLE}", statement.source, self.row.source),
        })
    }

    /// Advice for a server on which backoff has to stay.
    fn larger_depth(&self) -> Option<Advice> {
        let needed = self.demand?.lru_scan_depth_needed.filter(|needed| *needed > self.pool.depth)?;
        let most = self.pool.depth_of_share(LARGEST_SHARE)?;
        let depth = needed.min(most);
        if depth <= self.pool.depth {
            return None;
        }
        let statement = change(self.server, "innodb_lru_scan_depth", &depth.to_string())?;
        let so_far = if depth < needed {
            format!("{needed} would be needed; more than {depth} is over 20 % of the pool")
        } else {
            "the list then lasts through the longest sleep at the page demand of the reading, with a quarter more"
                .to_owned()
        };
        Some(Advice {
            statement: Some(statement.statement),
            dynamic: Some(statement.is_dynamic),
            why: format!("if backoff has to stay: {so_far}"),
            price: format!(
                "{}; stalls are rarer, and those that remain no shorter, perhaps longer; a scan that needs more pages still stalls all",
                self.kept_free(depth)
            ),
            basis: basis(self.server),
            source: format!("{}; {}", statement.source, self.row.source),
        })
    }

    /// Advice for a server whose queries find neither a free page nor a clean one.
    fn twice_the_depth(&self) -> Option<Advice> {
        let depth = self.pool.depth.saturating_mul(2).min(self.pool.depth_of_share(LARGEST_SHARE)?);
        if depth <= self.pool.depth {
            return None;
        }
        let statement = change(self.server, "innodb_lru_scan_depth", &depth.to_string())?;
        Some(Advice {
            statement: Some(statement.statement),
            dynamic: Some(statement.is_dynamic),
            why: format!(
                "{}; with a longer list the thread that makes pages free writes more of them before a query needs one",
                self.tail.says
            ),
            price: format!("{}; and more writes each time that this thread works", self.kept_free(depth)),
            basis: Basis::Assumed,
            source: format!("{}; {}", statement.source, self.row.source),
        })
    }

    /// The share of the pool that this depth keeps free, and that of now.
    fn kept_free(&self, depth: u64) -> String {
        let percent = |depth| self.pool.share(depth).unwrap_or(0.0) * 100.0;
        format!("{:.1} % of the buffer pool is kept free instead of {:.1} %", percent(depth), percent(self.pool.depth))
    }

    fn stay_with_legacy(&self) -> Advice {
        let default = self.row.algorithms.first() == Some(&Algorithm::Legacy);
        let default = if default { "legacy is the default of this version and in force" } else { "legacy is in force" };
        Advice {
            statement: None,
            dynamic: None,
            why: format!("{default}: queries do not sleep for a page that is clean; see that nobody sets backoff"),
            price: self.price_of_legacy(),
            basis: basis(self.server),
            source: self.row.source.to_owned(),
        }
    }

    fn write_earlier(&self) -> Option<Advice> {
        let now = self.reading.number("innodb_io_capacity")?;
        // a higher value is cut off to this one, with a warning only
        let most = self.reading.number("innodb_io_capacity_max").unwrap_or(f64::INFINITY);
        let value = (now * 2.0).min(most);
        if value <= now {
            return None;
        }
        let statement = change(self.server, "innodb_io_capacity", &format!("{value:.0}"))?;
        // under backoff no query writes a page, and the counter is the time of stalls
        let is_backoff = self.pool.algorithm == Some(Algorithm::Backoff);
        let (who, watch) = if is_backoff {
            ("under legacy a query without a free page would have to write one", "Go on in steps")
        } else {
            ("a query without a free page may have to write one", "Watch wait_free, and go on in steps")
        };
        Some(Advice {
            statement: Some(statement.statement),
            dynamic: Some(statement.is_dynamic),
            why: format!(
                "{}, and {who}; pages that are written earlier are clean when they come there",
                self.tail.says
            ),
            price: format!(
                "more writes now, of pages that would perhaps have changed again; the disk must have room for them. {watch}"
            ),
            basis: Basis::Assumed,
            source: statement.source.to_owned(),
        })
    }

    fn smaller_depth(&self) -> Option<Advice> {
        let depth = self.pool.depth_of_share(LARGEST_SHARE)?.max(u64::from(capability::SCAN_DEPTH_MIN));
        if depth >= self.pool.depth || self.is_too_short_under_backoff(depth) {
            return None;
        }
        let statement = change(self.server, "innodb_lru_scan_depth", &depth.to_string())?;
        let price = match self.pool.algorithm {
            Some(Algorithm::Backoff) => {
                "under backoff a shorter list is empty sooner: more stalls, and less throughput. Set legacy first"
            }
            _ => "queries find the list empty more often, and take a clean page themselves",
        };
        Some(Advice {
            statement: Some(statement.statement),
            dynamic: Some(statement.is_dynamic),
            why: "more than 20 % of the buffer pool is kept free, and holds no data".to_owned(),
            price: price.to_owned(),
            basis: Basis::Assumed,
            source: format!("{}; {ARTICLE}", statement.source),
        })
    }

    /// Whether a list of this length may be empty before the longest sleep is over: then all queries stall. Without the demand it is not known that it lasts.
    fn is_too_short_under_backoff(&self, depth: u64) -> bool {
        let is_backoff = self.pool.algorithm == Some(Algorithm::Backoff) && !self.row.backoff_wakes;
        is_backoff && self.demand.and_then(|it| it.lru_scan_depth_needed).is_none_or(|needed| needed > depth)
    }

    fn lru_threads(&self) -> Option<Advice> {
        let is_on =
            self.reading.variable("innodb_lru_threads").is_some_and(|it| it.eq_ignore_ascii_case("on") || it == "1");
        let statement = change(self.server, "innodb_lru_threads", "ON").filter(|_| !is_on)?;
        Some(Advice {
            statement: Some(statement.statement),
            dynamic: Some(statement.is_dynamic),
            why: "threads of their own make pages free again in this version, for each instance; only if queries find the list empty, and after measuring".to_owned(),
            price: "a restart; nobody has measured it here".to_owned(),
            basis: Basis::Assumed,
            source: statement.source.to_owned(),
        })
    }
}
