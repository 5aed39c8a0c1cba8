// SPDX-License-Identifier: Apache-2.0
//! The load for the simulator, as far as a reading tells it.

use crate::reading::Reading;
use capability::{Algorithm, FreeList, LADDER};

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

/// The most stalls that a client is taken to have in a second: one for each thread that makes pages free. 0: `wait_free` does not count the tries of stalls.
pub(crate) fn stalls_a_second(row: &FreeList, algorithm: Algorithm) -> u32 {
    match algorithm {
        Algorithm::Backoff => u32::try_from(row.refillers.len()).unwrap_or(u32::MAX),
        Algorithm::Legacy => 0,
    }
}

/// The possible loads of a reading, sentences on what they have in common, and sentences on what is unknown. `None`: there were no queries, or no pages were
/// asked for.
pub(crate) fn loads(
    reading: &Reading,
    demand: f64,
    stalls_a_second: u32,
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
    let counted = if stalls_a_second > 0 { reading.rate("Innodb_buffer_pool_wait_free") } else { None };
    let tries = counted.unwrap_or(0.0) / f64::from(threads);
    // many short stalls take less time than few long ones with the same number of tries
    let stalled = |stalls: u32, overhead_us: u64| {
        #[allow(clippy::cast_possible_truncation)] // saturates
        let of_one = (tries / f64::from(stalls)) as u32;
        let us = LADDER.length_us(of_one.min(100_000), overhead_us) as f64 * f64::from(stalls);
        (us / 1e6).min(STALLED_MOST)
    };
    let service = |stalls, overhead_us| (1.0 - stalled(stalls, overhead_us)) * f64::from(threads) * 1e6 / queries;
    let services: Vec<f64> = match known.service_us {
        Some(us) => vec![us],
        None => (1..=stalls_a_second.max(1))
            .flat_map(|stalls| OVERHEADS_US.map(|overhead_us| service(stalls, overhead_us)))
            .collect(),
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
        if stalls_a_second > 1 {
            unknown.push(format!(
                "how many stalls a second the failed tries of a client are: 1 to {stalls_a_second}, as many as threads make pages free"
            ));
        }
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

#[cfg(test)]
mod tests {
    use super::{Known, loads, stalls_a_second};
    use crate::reading::{Reading, Snapshot};
    use capability::{Algorithm, Flavour, FreeList, free_list};

    const QUERIES: f64 = 1000.0;
    const CLIENTS: u32 = 4;
    /// Failed tries of one client in a second.
    const TRIES: f64 = 104.0;

    fn row(flavour: Flavour, version: &str) -> &'static FreeList {
        free_list(flavour, &version.parse().expect("a version")).expect("a known version")
    }

    fn reading() -> Reading {
        let at = |at_seconds: f64| {
            let status = [
                ("Questions", QUERIES * at_seconds),
                ("Innodb_buffer_pool_wait_free", TRIES * f64::from(CLIENTS) * at_seconds),
            ];
            let status = status.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
            Snapshot { at_seconds, status, ..Snapshot::default() }
        };
        Reading { readings: vec![at(0.0), at(10.0)], ..Reading::default() }
    }

    /// The times of a query in us, and the sentences on what is unknown.
    fn services(stalls_a_second: u32) -> (Vec<f64>, String) {
        let known = Known { threads: Some(CLIENTS), service_us: None };
        let (loads, _, unknown) = loads(&reading(), 500.0, stalls_a_second, known).expect("there is a load");
        (loads.iter().map(|load| load.service_us.round()).collect(), unknown.join("\n"))
    }

    /// The lengths were added up by hand with the ladder of waits: with 60 us for each sleep 104 tries last 595.288 ms, and 52 tries 225.778 ms.
    #[test]
    fn the_tries_of_a_client_are_one_stall_or_as_many_as_there_are_refillers() {
        let whole = f64::from(CLIENTS) * 1e6 / QUERIES;
        let (one, two) = ((whole * (1.0 - 0.595_288)).round(), (whole * (1.0 - 2.0 * 0.225_778)).round());
        let (of_two, unknown) = services(2);
        assert!(of_two.contains(&one) && of_two.contains(&two), "{of_two:?}, not {one} and {two}");
        assert!(unknown.contains("1 to 2, as many as threads"), "{unknown}");
        let (of_one, unknown) = services(1);
        assert!(
            of_one.contains(&one) && !of_one.contains(&two) && !unknown.contains("as many as threads"),
            "{of_one:?}"
        );
        assert_eq!(services(0).0, [whole], "tries are no stalls where the counter counts something else");
    }

    #[test]
    fn xtradb_of_10_1_has_two_threads_that_end_stalls() {
        let of = |flavour, version, algorithm| stalls_a_second(row(flavour, version), algorithm);
        assert_eq!(of(Flavour::Mariadb, "10.1.23", Algorithm::Backoff), 2);
        assert_eq!(of(Flavour::Percona, "8.0.32", Algorithm::Backoff), 1);
        assert_eq!(of(Flavour::Mariadb, "10.1.23", Algorithm::Legacy), 0);
    }
}
