// SPDX-License-Identifier: Apache-2.0
//! The load for the simulator, as far as a reading tells it.

use crate::reading::Reading;
use capability::{Algorithm, LADDER};

/// One possible load of a reading. A reading does not tell whether clients wait for an answer before they send the next query, nor how long one sleep is: so it has
/// several possible loads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Load {
    pub threads: u32,
    /// `None`: each client sends its next query at once.
    pub rate_per_second: Option<f64>,
    pub service_us: f64,
    pub pages_per_query: f64,
}

/// Values that the caller knows better than the reading.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Known {
    pub threads: Option<u32>,
    pub service_us: Option<f64>,
}

/// By how much a sleep is longer than asked for, in microseconds: on a quiet host, and on a busy virtual machine.
const OVERHEADS_US: [u64; 2] = [60, 200];
/// The largest share of its time in which a client stalls.
const STALLED_MOST: f64 = 0.98;
const THREADS_MAX: f64 = 512.0;

/// The possible loads of a reading, sentences on what they have in common, and sentences on what is unknown. `None`: there were no queries, or no pages were
/// asked for.
pub(crate) fn loads(
    reading: &Reading,
    demand: f64,
    algorithm: Algorithm,
    known: Known,
) -> Option<(Vec<Load>, Vec<String>, Vec<String>)> {
    let queries = reading.rate("Questions").filter(|rate| *rate >= 1.0)?;
    if demand < 1.0 {
        return None;
    }
    let running = reading.values("Threads_running");
    // one of the running threads is the one that reads the status
    let mean = (running.iter().sum::<f64>() / running.len().max(1) as f64 - 1.0).round().clamp(1.0, THREADS_MAX);
    #[allow(clippy::cast_possible_truncation)] // below THREADS_MAX
    let threads = known.threads.unwrap_or(mean as u32);
    let pages_per_query = demand / queries;
    let stalled = |overhead_us: u64| {
        let counted = reading.rate("Innodb_buffer_pool_wait_free").filter(|_| algorithm == Algorithm::Backoff);
        let tries = counted.unwrap_or(0.0) / f64::from(threads);
        #[allow(clippy::cast_possible_truncation)] // saturates
        let us = LADDER.length_us((tries as u32).min(100_000), overhead_us) as f64;
        (us / 1e6).min(STALLED_MOST)
    };
    let service = |overhead_us| (1.0 - stalled(overhead_us)) * f64::from(threads) * 1e6 / queries;
    let services = match known.service_us {
        Some(us) => vec![us],
        None => OVERHEADS_US.map(service).to_vec(),
    };
    let mut loads: Vec<Load> = services
        .iter()
        .map(|us| Load { threads, rate_per_second: None, service_us: us.max(1.0), pages_per_query })
        .collect();
    loads.dedup();
    let mut unknown = Vec::new();
    if known.service_us.is_none() && loads.len() > 1 {
        unknown.push(
            "how much longer than asked for a sleep of a query is (60 to 200 us), and so how long its own work is"
                .to_owned(),
        );
    }
    if known.threads.is_none() {
        let shortest = services.iter().copied().fold(f64::INFINITY, f64::min);
        let service_us = shortest.min(f64::from(threads) * 5e5 / queries).max(1.0);
        loads.push(Load { threads, rate_per_second: Some(queries), service_us, pages_per_query });
        unknown.push("whether clients ask again as soon as they have an answer, or at times of their own (--threads: the former)".to_owned());
    }
    let words = vec![
        format!(
            "{threads} clients ({})",
            if known.threads.is_some() { "as you say" } else { "Threads_running, on average" }
        ),
        format!("{queries:.0} queries a second now (Questions)"),
        format!("{pages_per_query:.2} pages a query"),
    ];
    Some((loads, words, unknown))
}
