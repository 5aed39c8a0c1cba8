// SPDX-License-Identifier: Apache-2.0
//! The simulator's predictions for each arm, on the article's server and on this one. Nothing in this module knows the measurements of either.

use super::article::Figures;
use super::measured::Measurement;
use crate::exit::{Exit, Failure};
use capability::{Algorithm, Flavour, FreeList, free_list};
use evidence::Arrivals;
use experiment::{Arm, Experiment, FillSize, RowShape};
use serde::Serialize;
use simulate::{
    Band, Burst, Costs, Error, Load, Parameter, Range, Settings, Stall, Start, parameters, simulate,
    simulate_with_band, starts,
};
use units::{Bytes, Span};

const PAGE_BYTES: u64 = 16 * 1024;
/// The number of other starts that are simulated for the band.
const STARTS: u32 = 16;
/// The number of loads that the article made with each setting.
const LOADS: u32 = 5;
const ALGORITHM: &str = "innodb_empty_free_list_algorithm";
const SCAN_DEPTH: &str = "innodb_lru_scan_depth";

/// Figures of a host that the prediction uses, beside those of the arm.
#[derive(Debug, Clone, Copy)]
pub(super) struct Host {
    pub(super) server: &'static FreeList,
    /// Time of a query that neither reads nor waits.
    pub(super) service: Span,
    /// The source of `service`; `None`: it is the simulator's default.
    pub(super) service_from: Option<&'static str>,
    /// By how much a sleep takes longer than asked for.
    pub(super) sleep_overhead: Span,
    /// Pages that a query needs; `None`: computed from the sizes of table and pool.
    pub(super) pages_per_query: Option<f64>,
    /// The size of this server's pool; the scan depth and the emptying query are scaled with it. `None`: the sizes of the file are used.
    pub(super) pool: Option<Bytes>,
}

/// The prediction for one arm, and everything that it was computed from.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Prediction {
    /// The `innodb_lru_scan_depth` that was simulated: the article's pool is larger than the one of the file, and its scan depth with it.
    pub(super) scan_depth: u32,
    pub(super) figures: Figures,
    pub(super) parameters: Vec<Parameter>,
}

impl Host {
    /// The article's host: its figures are in docs/stalls.md, which says how they were found.
    pub(super) fn of_the_article() -> Result<Self, Failure> {
        Ok(Self {
            server: row(Flavour::Percona, "8.0.29")?,
            service: Span(std::time::Duration::from_nanos(28_700)),
            service_from: None,
            sleep_overhead: Span(std::time::Duration::from_micros(60)),
            pages_per_query: Some(0.73),
            pool: Some(Bytes::mib(128)),
        })
    }

    /// # Errors
    /// Exit code 2: Wringer's authors have not read the source of this version.
    pub(super) fn here(experiment: &Experiment, service: Span, sleep_overhead: Span) -> Result<Self, Failure> {
        let server = &experiment.server;
        let flavour = lab::server_request(server)?.flavour;
        let version = server.version.as_deref().unwrap_or_default();
        Ok(Self {
            server: row(flavour, version)?,
            service,
            service_from: Some("assumed before the run, or the command line (--service-time)"),
            sleep_overhead,
            pages_per_query: None,
            pool: None,
        })
    }

    /// # Errors
    /// The arm cannot be simulated.
    pub(super) fn predict(&self, experiment: &Experiment, arm: &Arm) -> Result<Prediction, Failure> {
        let settings = self.settings(experiment, arm);
        let figures = match settings.burst {
            Some(burst) => emptied(&settings, burst),
            None => simulate_with_band(&settings, STARTS).map(|loads| figures(&loads)),
        };
        let figures = figures.map_err(|error| Failure::new(Exit::Usage, error))?;
        let mut parameters = parameters(&settings, &[]);
        if let Some(from) = self.service_from {
            parameters.iter_mut().filter(|it| it.name == "service-time").for_each(|it| from.clone_into(&mut it.source));
            let overhead = "measured by sleeps of 10 ms on this host before the run, or the command line";
            let of_sleeps = parameters.iter_mut().filter(|it| it.name == "sleep-overhead");
            of_sleeps.for_each(|it| overhead.clone_into(&mut it.source));
        }
        Ok(Prediction { scan_depth: settings.scan_depth, figures, parameters })
    }

    fn settings(&self, experiment: &Experiment, arm: &Arm) -> Settings {
        let load = &arm.load;
        let server = self.server;
        let algorithm = algorithm(server, arm);
        let pool = experiment.pool(arm);
        let larger = |pages: u64| self.pool.map_or(pages, |own| pages.saturating_mul(own.0) / pool.0.max(1));
        let depth = arm.live.get(SCAN_DEPTH).and_then(|text| text.parse().ok()).map(larger);
        let is_burst = !load.at.is_empty();
        Settings {
            server,
            algorithm,
            scan_depth: depth.and_then(|depth| u32::try_from(depth).ok()).unwrap_or(server.scan_depth),
            instance_pages: larger(pool.0 / PAGE_BYTES),
            instances: 1,
            threads: load.threads,
            rate_per_second: match load.arrivals {
                Arrivals::Closed | Arrivals::Recorded { .. } => None,
                Arrivals::Constant { per_second } | Arrivals::Poisson { per_second } => Some(per_second),
            },
            time_ns: load.time.unwrap_or(Span::secs(10)).as_ns(),
            pause_ns: load.pause.as_ns(),
            repeat: if is_burst { 1 } else { LOADS },
            gap_ns: 200_000_000,
            reads_per_query: self.pages_per_query.unwrap_or_else(|| pages_per_query(experiment, arm, pool)),
            pages_without_read: 0.0,
            service_ns: self.service.as_ns(),
            read_ns: 0,
            write_ns: 100_000,
            dirty: 0.0,
            active: false,
            burst: burst(experiment, arm).map(|burst| Burst { pages: larger(burst.pages), ..burst }),
            sleep_overhead_ns: self.sleep_overhead.as_ns(),
            loop_overhead_ns: self.sleep_overhead.as_ns() + 10_000,
            initial_sleep_ms: 1000,
            initial_free: None,
            start: Start::default(),
            clock: None,
            seed: load.seed,
            costs: Costs::default(),
        }
    }
}

pub(super) fn algorithm(server: &FreeList, arm: &Arm) -> Algorithm {
    match arm.live.get(ALGORITHM).map(String::as_str) {
        Some("backoff") => Algorithm::Backoff,
        Some(_) => Algorithm::Legacy,
        None => server.algorithms.first().copied().unwrap_or(Algorithm::Legacy),
    }
}

/// The time of a query in this arm, its reads included, in microseconds. `None`: queries waited for pages in this arm, or came at times of their own.
pub(super) fn service_us(arm: &Arm, measured: &Measurement) -> Option<f64> {
    let is_legacy = arm.live.get(ALGORITHM).is_some_and(|it| it == "legacy");
    let rate = measured.figures.queries_per_second.filter(|it| it.low > 0.0)?;
    let middle = f64::midpoint(rate.low, rate.high);
    (is_legacy && arm.load.arrivals == Arrivals::Closed).then(|| f64::from(arm.load.threads) * 1e6 / middle)
}

fn row(flavour: Flavour, version: &str) -> Result<&'static FreeList, Failure> {
    let found = version.parse().ok().and_then(|version| free_list(flavour, &version));
    let unknown = || format!("nobody has looked at what {flavour} {version} does about an empty free list");
    found.ok_or_else(|| {
        Failure::message(Exit::Usage, unknown()).hint("`wringer stalls simulate --help` names versions that are known")
    })
}

/// The pages that a query reads, on average. Queries for ids without a row need only the last leaf page, which stays in the pool. Of the pages of
/// other ids, the pool holds as many as fit.
fn pages_per_query(experiment: &Experiment, arm: &Arm, pool: Bytes) -> f64 {
    let table = match experiment.fill.size {
        Some(FillSize::TimesPool(times)) => times,
        Some(FillSize::Size(bytes)) => bytes.0 as f64 / pool.0 as f64,
        _ => f64::INFINITY,
    };
    (1.0 - 1.0 / table).max(0.0) / arm.load.options.ids_times_rows as f64
}

/// The emptying of the list: the query skips as many rows as its LIMIT says, and reads the pages of all of them.
fn burst(experiment: &Experiment, arm: &Arm) -> Option<Burst> {
    let at = arm.load.at.first()?;
    let limit = at.sql.split("LIMIT ").nth(1)?;
    let rows: u64 = limit.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    let RowShape::PerPage(per_page) = experiment.fill.rows else { return None };
    // the simulator's first burst comes after half of the time between two bursts
    let every = at.every.unwrap_or(Span(at.time.0 * 2));
    Some(Burst { pages: rows.div_ceil(u64::from(per_page)).max(1), every_ns: every.as_ns() })
}

/// The figures of a load in which a query empties the list, over the plain start and all others.
fn emptied(settings: &Settings, burst: Burst) -> Result<Figures, Error> {
    let mut figures = Figures::default();
    for settings in std::iter::once(settings.clone()).chain(starts(settings, STARTS).1) {
        for load in simulate(&settings)? {
            let longest = by_emptying(&load, burst, settings.time_ns);
            match longest.split_first() {
                Some((first, later)) if !later.is_empty() => {
                    figures.first_max_us = both(figures.first_max_us, exact(*first));
                    figures.later_max_us = later.iter().fold(figures.later_max_us, |all, it| both(all, exact(*it)));
                }
                _ => figures.first_max_us = both(figures.first_max_us, exact(load.max_us)),
            }
            figures.queries_per_second = both(figures.queries_per_second, exact(load.queries_per_second));
            figures.stalled = both(figures.stalled, exact(load.stalls as f64));
            figures.wait_free = both(figures.wait_free, exact(load.wait_free as f64));
        }
    }
    Ok(figures)
}

/// For each emptying: the longest stall of the load around it, in microseconds, or 0 if there was none. Each emptying comes in the middle of its period.
fn by_emptying(load: &Load, burst: Burst, time_ns: u64) -> Vec<f64> {
    let every_us = burst.every_ns as f64 / 1000.0;
    let number = |event: &Stall| (event.started_us / every_us).floor();
    let count = (time_ns * 2).saturating_sub(burst.every_ns).div_ceil((burst.every_ns * 2).max(1));
    let longest = |emptying: u64| {
        let around = load.events.iter().filter(|event| !event.is_burst && number(event) == emptying as f64);
        around.map(|event| event.length_us).fold(0.0, f64::max)
    };
    (0..count).map(longest).collect()
}

fn exact(value: f64) -> Range {
    Range { low: value, high: value }
}

fn both(one: Option<Range>, other: Range) -> Option<Range> {
    Some(one.map_or(other, |one| Range { low: one.low.min(other.low), high: one.high.max(other.high) }))
}

fn figures(loads: &[(Load, Option<Band>)]) -> Figures {
    let mut figures = Figures::default();
    for (index, (load, band)) in loads.iter().enumerate() {
        let of = |get: fn(&Load) -> f64, banded: fn(&Band) -> Range| band.as_ref().map_or(exact(get(load)), banded);
        let max = of(|load| load.max_us, |band| band.max_us);
        if index == 0 {
            figures.first_max_us = Some(max);
        } else {
            figures.later_max_us = both(figures.later_max_us, max);
        }
        if index <= 1 {
            // the figures of the first load are replaced by those of the later loads
            figures = Figures { queries_per_second: None, stalled: None, wait_free: None, ..figures };
        }
        let rate = of(|load| load.queries_per_second, |band| band.queries_per_second);
        figures.queries_per_second = both(figures.queries_per_second, rate);
        figures.stalled = both(figures.stalled, of(|load| load.stalls as f64, |band| band.stalls));
        figures.wait_free = both(figures.wait_free, of(|load| load.wait_free as f64, |band| band.wait_free));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::super::file::{Annex, read};
    use super::{Burst, Host, by_emptying};
    use simulate::{Settings, simulate};

    const EVERY_TWO_MINUTES: &str = "backoff, emptied every two minutes";

    fn settings(name: &str) -> Settings {
        let (_, experiment) = read(Annex::Five, None, false).unwrap();
        let arm = experiment.arms.iter().find(|arm| arm.name == name).unwrap();
        Host::of_the_article().unwrap().settings(&experiment, arm)
    }

    #[test]
    fn each_emptying_has_the_longest_stall_around_it() {
        let settings = settings(EVERY_TWO_MINUTES);
        let burst = settings.burst.unwrap();
        let load = simulate(&settings).unwrap().remove(0);
        let longest = by_emptying(&load, burst, settings.time_ns);
        let of = |from_us: f64, to_us: f64| {
            let clients =
                load.events.iter().filter(|it| !it.is_burst && it.started_us >= from_us && it.started_us < to_us);
            clients.map(|it| it.length_us).fold(0.0, f64::max)
        };
        assert_eq!(longest, [of(59e6, 70e6), of(179e6, 190e6)], "emptied after one minute and after three");
        assert!(longest.iter().all(|it| *it > 100_000.0), "{longest:?}");
        // in shorter loads fewer queries come
        let shorter = |minutes: u64| by_emptying(&load, burst, minutes * 60_000_000_000).len();
        assert_eq!([shorter(1), shorter(2), shorter(3), shorter(4), shorter(6)], [0, 1, 1, 2, 3]);
        let rare = Burst { every_ns: burst.every_ns * 10, ..burst };
        assert!(by_emptying(&load, rare, settings.time_ns).is_empty());
    }

    /// The plain start alone would be one number.
    #[test]
    fn first_and_later_emptyings_have_a_band_each_over_all_starts() {
        let (_, experiment) = read(Annex::Five, None, false).unwrap();
        let arm = experiment.arms.iter().find(|arm| arm.name == EVERY_TWO_MINUTES).unwrap();
        let figures = Host::of_the_article().unwrap().predict(&experiment, arm).unwrap().figures;
        let (first, later) = (figures.first_max_us.unwrap(), figures.later_max_us.unwrap());
        assert!(first.low < first.high && later.low < later.high, "{figures:?}");
        // the longest of a whole load is never below its later ones
        assert!(first.low < later.low, "{figures:?}");
    }
}
