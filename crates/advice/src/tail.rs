// SPDX-License-Identifier: Apache-2.0
//! How many pages are asked for, and whether the pages at the end of the LRU list are dirty.

use crate::advised::{Demand, Tail};
use crate::pool::Pool;
use crate::reading::Reading;
use capability::{Algorithm, FreeList, OnEmpty, Version, bugs};

const SEARCH: &str = "buffer_LRU_get_free_search";
const DECOMPRESSED: &str = "compress_pages_decompressed";
const LRU_FLUSHED: &str = "Innodb_buffer_pool_pages_LRU_flushed";
/// Counters that rise only where clients write.
const WRITES: [&str; 10] = [
    "Com_delete",
    "Com_insert",
    "Com_replace",
    "Com_update",
    "Innodb_pages_created",
    "Innodb_rows_deleted",
    "Innodb_rows_inserted",
    "Innodb_rows_updated",
    LRU_FLUSHED,
    BATCH_FLUSHED,
];
const BATCH_FLUSHED: &str = "buffer_LRU_batch_flush_total_pages";
const SINGLE: &str = "buffer_LRU_single_flush_scanned";
const WAIT_FREE: &str = "Innodb_buffer_pool_wait_free";
/// The verdicts on a list with dirty pages at its end.
const DIRTY: &str = "dirty";
const NOW_AND_THEN: &str = "dirty_now_and_then";
/// The share of dirty pages among those asked for below which the end of the list counts as clean.
const CLEAN_SHARE: f64 = 0.01;
/// The factor of free pages over the pages asked for, so that there is room for a burst.
const RESERVE: f64 = 1.25;

/// Pages that all threads ask for, in a second.
pub(crate) fn demand(reading: &Reading, pool: &Pool, longest_sleep_us: Option<u64>) -> Option<(f64, Demand)> {
    let (per_second, from, without) = match reading.rate(SEARCH) {
        Some(rate) => (rate, vec![SEARCH.to_owned()], None),
        None => {
            let names =
                ["Innodb_buffer_pool_reads", "Innodb_buffer_pool_read_ahead", "Innodb_pages_created", DECOMPRESSED];
            let rates: Vec<(&str, f64)> = names.iter().filter_map(|name| Some((*name, reading.rate(name)?))).collect();
            rates.iter().find(|(name, _)| *name == "Innodb_buffer_pool_reads")?;
            let has_all = rates.iter().any(|(name, _)| *name == DECOMPRESSED);
            let without = (!has_all).then_some("pages that are decompressed without a read; ordinary tables have none");
            (
                rates.iter().map(|(_, rate)| rate).sum(),
                rates.iter().map(|(name, _)| (*name).to_owned()).collect(),
                without,
            )
        }
    };
    let in_sleep = longest_sleep_us.map(|us| per_second * us as f64 / 1e6 / pool.instances as f64);
    #[allow(clippy::cast_possible_truncation)] // saturates
    let needed = in_sleep.map(|pages| ((pages * RESERVE / 128.0).ceil() * 128.0) as u64);
    Some((per_second, Demand { from, without, pages_in_longest_sleep: in_sleep, lru_scan_depth_needed: needed }))
}

/// How often in a second a query found neither a free page nor a clean one in the LRU list. `None`: never, or the counter counts something else in
/// this version, under this algorithm.
pub(crate) fn rounds_without_a_page(reading: &Reading, row: &FreeList, algorithm: Algorithm) -> Option<f64> {
    let is_oracles = algorithm == Algorithm::Legacy && matches!(row.legacy, OnEmpty::Searches(_));
    reading.rate(WAIT_FREE).filter(|rate| is_oracles && *rate > 0.0)
}

/// Whether clients write, so that a page cleaner counts the server as active. This does not depend on the end of the LRU list, which may be clean.
pub(crate) fn is_active(reading: &Reading, pool: &Pool, tail: &Tail, demand: Option<f64>) -> bool {
    let has_writes = WRITES.iter().any(|name| reading.rate(name).is_some_and(|rate| rate > 0.0));
    // under backoff queries make no page free: more pages than the list held at first came from a thread that refills
    let at_first = reading.values("Innodb_buffer_pool_pages_free").first().copied().unwrap_or(0.0);
    let held = at_first.max(pool.depth.saturating_mul(pool.instances) as f64);
    let was_refilled = pool.algorithm == Some(Algorithm::Backoff)
        && demand.is_some_and(|per_second| per_second * reading.seconds() > held);
    has_writes || was_refilled || tail.is_dirty()
}

pub(crate) fn tail(
    reading: &Reading,
    row: &FreeList,
    version: &Version,
    algorithm: Algorithm,
    demand: Option<f64>,
) -> Tail {
    let single = reading.rate(SINGLE);
    let is_zero_nothing = bugs(row.flavour, version).any(|bug| bug.name == "PS-6860");
    let status = reading.rate(LRU_FLUSHED).filter(|rate| *rate > 0.0 || !is_zero_nothing);
    let flushed = status.or_else(|| reading.rate(BATCH_FLUSHED));
    let share = match (flushed, demand) {
        (Some(flushed), Some(demand)) if demand > 0.0 => Some((flushed / demand).min(1.0)),
        _ => None,
    };
    let writes_itself = single.is_some_and(|rate| rate > 0.0);
    let is_quiet = demand.is_some_and(|demand| demand < 1.0);
    let rounds = rounds_without_a_page(reading, row, algorithm);
    let (verdict, says) = match (share, rounds) {
        _ if writes_itself => {
            (DIRTY, "queries wrote pages themselves: dirty pages reach the end of the LRU list".to_owned())
        }
        (Some(share), _) if share >= CLEAN_SHARE && !is_quiet => {
            let words = format!(
                "dirty pages reach the end of the LRU list: {:.0} of 100 pages that are asked for",
                share * 100.0
            );
            (DIRTY, words)
        }
        (_, Some(rounds)) => {
            let is_seldom = demand.is_some_and(|demand| rounds < demand * CLEAN_SHARE);
            let (verdict, how) = if is_seldom { (NOW_AND_THEN, "now and then ") } else { (DIRTY, "") };
            let words = format!(
                "{how}dirty pages reach the end of the LRU list: {rounds:.1} times a second a query found neither a free page nor a clean one ({WAIT_FREE})"
            );
            (verdict, words)
        }
        _ if is_quiet => ("not_known", "hardly a page was asked for between the readings: read under load".to_owned()),
        (Some(_), _) => (
            "clean",
            "the pages at the end of the LRU list are clean: no page must be written to make one free".to_owned(),
        ),
        (None, _) if is_zero_nothing => {
            ("not_known", "Innodb_buffer_pool_pages_LRU_flushed says nothing in this version (PS-6860)".to_owned())
        }
        (None, _) => ("not_known", "nothing in the reading counts the dirty pages that LRU batches write".to_owned()),
    };
    Tail {
        verdict,
        pages_flushed_per_second: flushed,
        single_flush_scanned_per_second: single,
        dirty_share: share,
        says,
    }
}

impl Tail {
    /// The share of dirty pages for the simulator; 0 for a list that is mostly clean: its few dirty pages lie together, and not one in each batch.
    pub(crate) fn simulated_share(&self) -> Option<f64> {
        self.dirty_share.map(|share| if self.verdict == DIRTY { share } else { 0.0 })
    }

    pub(crate) fn is_dirty(&self) -> bool {
        [DIRTY, NOW_AND_THEN].contains(&self.verdict)
    }
}
