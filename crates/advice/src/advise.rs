// SPDX-License-Identifier: Apache-2.0
//! Makes an answer from a reading.

use crate::advised::{Advised, Missing, Tail, Watch};
use crate::counted::counters;
use crate::load::{Known, loads, stalls_a_second};
use crate::pool::Pool;
use crate::reading::Reading;
use crate::rules::Case;
use crate::server::Server;
use crate::tail::{demand, is_active, tail};
use crate::trades::{Writes, trades};
use capability::{Algorithm, Flavour, FreeList, SCAN_DEPTH_MIN, watches};

/// Values that the caller knows better than the reading, and how much is simulated.
#[derive(Debug, Clone, Copy)]
pub struct AdviceRequest {
    /// Clients that send their next query as soon as they have an answer.
    pub threads: Option<u32>,
    /// Time of a query that waits for no page, in microseconds.
    pub service_us: Option<f64>,
    /// Starts that are simulated for each band; 0: nothing is simulated.
    pub starts: u32,
}

pub fn advise(reading: &Reading, asked: &AdviceRequest) -> Advised {
    let server = Server::of(reading);
    let mut missing = Vec::new();
    let pool = Pool::of(reading, &server, &mut missing);
    let mut notes = reading.notes.clone();
    if reading.basis.as_deref() == Some("assumed") {
        notes.push("the reading was put together by hand: no server said this".to_owned());
    }
    if let Some(most) = pool.most_free_pages().filter(|most| *most < pool.depth) {
        notes.push(format!(
            "innodb_lru_scan_depth is {}, but of the pages of an instance only {most} can be free: {} stay in use",
            pool.depth, pool.least_in_use
        ));
    }
    let (Some(row), Some(flavour)) = (server.row, server.flavour) else {
        return unknown(reading, &server, &pool, missing, notes);
    };
    let longest_sleep_us = pool.longest_sleep_us(row);
    let demand = demand(reading, &pool, longest_sleep_us);
    let per_second = demand.as_ref().map(|(per_second, _)| *per_second);
    let algorithm = pool.algorithm_or_legacy();
    let tail = tail(reading, row, &server.version, algorithm, per_second);
    let counters = counters(reading, row, &server.version, algorithm, &mut missing);
    if demand.is_none() {
        missing.push(Missing {
            what: "the page demand: Innodb_buffer_pool_reads in both readings, none of which is smaller".to_owned(),
            statement: Some("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_reads'".to_owned()),
        });
    }
    let case =
        Case { reading, server: &server, row, pool: &pool, demand: demand.as_ref().map(|(_, it)| it), tail: &tail };
    let advice = case.advice();
    let known = Known { threads: asked.threads, service_us: asked.service_us };
    let of_load = per_second.and_then(|it| loads(reading, it, stalls_a_second(row, algorithm), known));
    let has_load = of_load.is_some() && pool.bytes.is_some();
    let (trades, trades_of) = match of_load.filter(|_| asked.starts > 0) {
        Some(load) => {
            let writes = Writes { dirty: tail.simulated_share(), active: is_active(reading, &pool, &tail, per_second) };
            trades(&pool, row, writes, load, asked.starts)
        }
        None => (Vec::new(), None),
    };
    if trades.is_empty() && asked.starts > 0 {
        notes.push(not_simulated(&pool, has_load));
    }
    let (applicable, applicable_why) = applicable(row, flavour);
    Advised {
        server: server.name(),
        said: server.said.clone(),
        algorithm: pool.algorithm.map(Algorithm::name),
        applicable: Some(applicable),
        applicable_why,
        source: Some(format!("{} {}, {}: {}", row.flavour, row.versions(), row.evidence.words(), row.source)),
        seconds: reading.seconds(),
        free_ratio: pool.free_ratio(),
        page_demand_per_second: per_second,
        page_demand: demand.map(|(_, it)| it),
        longest_sleep_us,
        dirty_tail: tail,
        counters,
        advice,
        watch: watches(flavour, &server.version)
            .map(|it| Watch { what: it.what, means: it.means, source: it.source })
            .collect(),
        trades,
        trades_of,
        missing,
        notes,
    }
}

fn not_simulated(pool: &Pool, has_load: bool) -> String {
    match pool.most_free_pages().filter(|_| has_load) {
        Some(most) => format!(
            "nothing is simulated: of the {} pages of an instance {most} can be free, and none of half the depth, the depth, twice and four times as much is from \
             {SCAN_DEPTH_MIN} to {most}",
            most + pool.least_in_use
        ),
        None => "nothing is simulated: without queries that ask for pages between the readings, or without the size of the pool, there is no load".to_owned(),
    }
}

fn applicable(row: &FreeList, flavour: Flavour) -> (bool, String) {
    let why = match (row.algorithms.contains(&Algorithm::Backoff), flavour) {
        (true, _) => {
            "this server has `backoff`: a query without a free page may sleep until another thread makes one free"
        }
        (false, Flavour::Mysql) => {
            "not applicable: MySQL has no `backoff`; a query without a free page makes one free itself"
        }
        (false, _) => {
            "not applicable: this server has no `backoff`; a query without a free page wakes the thread that makes pages free, or makes one free itself"
        }
    };
    (row.algorithms.contains(&Algorithm::Backoff), why.to_owned())
}

/// A version whose source Wringer's authors have not read gets no advice: facts about neighbouring versions may not hold for it.
fn unknown(reading: &Reading, server: &Server, pool: &Pool, missing: Vec<Missing>, notes: Vec<String>) -> Advised {
    let variable = match reading.variable("innodb_empty_free_list_algorithm") {
        Some(word) => format!("its variable innodb_empty_free_list_algorithm is '{word}'"),
        None => "it has no variable innodb_empty_free_list_algorithm, or the reading lacks it".to_owned(),
    };
    Advised {
        applicable_why: format!(
            "nobody has looked at what this version does about an empty free list, and nothing is taken from its neighbours; {variable}"
        ),
        seconds: reading.seconds(),
        free_ratio: reading.number("innodb_lru_scan_depth").and_then(|_| pool.free_ratio()),
        missing,
        notes,
        ..nothing_said(server.name(), server.said.clone(), "what the counters mean in this version is not known")
    }
}

/// A server without InnoDB has no free list that its queries wait for. `server`: its name and version.
pub fn without_innodb(server: String, version: String) -> Advised {
    Advised {
        applicable: Some(false),
        applicable_why: "not applicable: this server has no InnoDB. A query of PostgreSQL that needs a buffer takes one by the clock sweep, and waits for no \
                         thread that makes buffers free"
            .to_owned(),
        ..nothing_said(server, version, "this server has no LRU list of InnoDB")
    }
}

fn nothing_said(server: String, said: String, of_tail: &str) -> Advised {
    let dirty_tail = Tail {
        verdict: "not_known",
        pages_flushed_per_second: None,
        single_flush_scanned_per_second: None,
        dirty_share: None,
        says: of_tail.to_owned(),
    };
    Advised {
        server,
        said,
        algorithm: None,
        applicable: None,
        applicable_why: String::new(),
        source: None,
        seconds: 0.0,
        free_ratio: None,
        page_demand_per_second: None,
        page_demand: None,
        longest_sleep_us: None,
        dirty_tail,
        counters: Vec::new(),
        advice: Vec::new(),
        watch: Vec::new(),
        trades: Vec::new(),
        trades_of: None,
        missing: Vec::new(),
        notes: Vec::new(),
    }
}
