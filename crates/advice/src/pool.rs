// SPDX-License-Identifier: Apache-2.0
//! The settings in force of the buffer pool and its free lists, and the action of a query that finds no free page.

use crate::advised::{ARTICLE, FreeRatio, Missing, Share, algorithm_named};
use crate::reading::Reading;
use crate::server::Server;
use capability::{Algorithm, FreeList, Refiller, instances};

/// The size of InnoDB's page where the reading does not tell it.
const PAGE_BYTES: f64 = 16_384.0;

#[derive(Debug, Clone)]
pub(crate) struct Pool {
    pub page_bytes: u64,
    /// `None`: not in the reading.
    pub bytes: Option<u64>,
    pub instances: u64,
    pub depth: u64,
    /// Pages of an instance that no refill takes away; 0 where it is not known.
    pub least_in_use: u64,
    /// `None`: there is no choice, or the server does not tell it.
    pub algorithm: Option<Algorithm>,
    /// A page is written twice, and a query waits for an LRU batch that runs, where its version does that.
    pub is_doublewrite: bool,
}

/// Values of `innodb_doublewrite` with which no page is written twice. DETECT_ONLY writes only which pages are being written.
const WITHOUT_DOUBLEWRITE: [&str; 3] = ["OFF", "0", "DETECT_ONLY"];

#[allow(clippy::cast_possible_truncation)] // saturates; a setting is a whole number
fn whole(value: f64) -> u64 {
    value.max(0.0) as u64
}

impl Pool {
    pub(crate) fn of(reading: &Reading, server: &Server, missing: &mut Vec<Missing>) -> Self {
        let mut number = |name: &str| {
            let found = reading.number(name);
            if found.is_none() {
                missing.push(Missing {
                    what: format!("the variable {name}"),
                    statement: Some(format!("SHOW GLOBAL VARIABLES LIKE '{name}'")),
                });
            }
            found
        };
        let row = server.row;
        let bytes = number("innodb_buffer_pool_size").map(whole);
        let depth = number("innodb_lru_scan_depth").or(row.map(|row| f64::from(row.scan_depth))).map_or(1024, whole);
        let page_bytes = whole(number("innodb_page_size").unwrap_or(PAGE_BYTES)).max(1);
        // from 10.5 on MariaDB has one instance and no variable for it; the variable is only asked for where there may be several
        let has_many = row.is_some_and(|row| row.instances_max > 1);
        let told = match row {
            _ if reading.instances.is_some() => None,
            Some(_) if has_many => number("innodb_buffer_pool_instances"),
            Some(_) => None,
            None => reading.number("innodb_buffer_pool_instances"),
        };
        let by_variable =
            server.flavour.and_then(|it| instances(it, &server.version, told.map(whole), bytes)).or(told.map(whole));
        let has_choice = row.is_some_and(|row| row.algorithms.len() > 1);
        let word = reading.variable("innodb_empty_free_list_algorithm");
        if has_choice && word.is_none() {
            missing.push(Missing {
                what: "the variable innodb_empty_free_list_algorithm: the server's default is taken".to_owned(),
                statement: Some("SHOW GLOBAL VARIABLES LIKE 'innodb_empty_free_list_algorithm'".to_owned()),
            });
        }
        let default = row.filter(|_| has_choice).and_then(|row| row.algorithms.first().copied());
        Self {
            page_bytes,
            bytes,
            instances: reading.instances.or(by_variable).unwrap_or(1).max(1),
            depth,
            least_in_use: row.map_or(0, |row| u64::from(row.least_in_use)),
            algorithm: word.filter(|_| has_choice).and_then(algorithm_named).or(default),
            is_doublewrite: !reading
                .variable("innodb_doublewrite")
                .is_some_and(|word| WITHOUT_DOUBLEWRITE.iter().any(|it| it.eq_ignore_ascii_case(word))),
        }
    }

    /// The algorithm for the table of counters: a server without a choice counts as `legacy`.
    pub(crate) fn algorithm_or_legacy(&self) -> Algorithm {
        self.algorithm.unwrap_or(Algorithm::Legacy)
    }

    /// What this depth keeps free: never more than the pages that a refill may take.
    pub(crate) fn free_bytes(&self, depth: u64) -> u64 {
        let pages = self.most_free_pages().map_or(depth, |most| depth.min(most));
        pages.saturating_mul(self.instances).saturating_mul(self.page_bytes)
    }

    /// Pages of one instance that can be free while it is in use.
    pub(crate) fn most_free_pages(&self) -> Option<u64> {
        Some(self.instance_pages()?.saturating_sub(self.least_in_use))
    }

    /// Pages of one instance.
    pub(crate) fn instance_pages(&self) -> Option<u64> {
        Some(self.bytes? / self.page_bytes / self.instances)
    }

    pub(crate) fn share(&self, depth: u64) -> Option<f64> {
        let bytes = self.bytes.filter(|bytes| *bytes > 0)?;
        Some(self.free_bytes(depth) as f64 / bytes as f64)
    }

    /// The depth with which this share of the pool is kept free, in steps of 128 pages where it is at least that large.
    pub(crate) fn depth_of_share(&self, share: f64) -> Option<u64> {
        let pages = whole(self.bytes? as f64 * share / (self.page_bytes * self.instances) as f64);
        Some(if pages >= 256 { pages / 128 * 128 } else { pages })
    }

    pub(crate) fn free_ratio(&self) -> Option<FreeRatio> {
        let share = self.share(self.depth)?;
        let verdict = match share {
            share if share < 0.05 => Share::Fine,
            share if share <= 0.20 => Share::Acceptable,
            _ => Share::Problem,
        };
        let bytes = self.free_bytes(self.depth);
        Some(FreeRatio {
            share,
            bytes,
            lru_scan_depth: self.depth,
            instances: self.instances,
            verdict,
            source: ARTICLE,
        })
    }

    /// The longest time that a query under `backoff` may have to wait for the thread that makes pages free, in microseconds.
    pub(crate) fn longest_sleep_us(&self, row: &FreeList) -> Option<u64> {
        if self.algorithm != Some(Algorithm::Backoff) || row.backoff_wakes {
            return None;
        }
        let longest_ms = |it: &Refiller| match it {
            Refiller::Manager { adapt, .. } => adapt.longest_ms,
            Refiller::Cleaner { period_ms, .. } => *period_ms,
        };
        row.refillers.iter().map(longest_ms).max().map(|ms| u64::from(ms) * 1000)
    }
}
