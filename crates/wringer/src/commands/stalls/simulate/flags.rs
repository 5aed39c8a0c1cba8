// SPDX-License-Identifier: Apache-2.0
//! The flags of a simulation, and the settings that are made from them.

use crate::commands::stalls::algorithm::Named;
use crate::exit::{Exit, Failure};
use capability::{Algorithm, Clock, Flavour, free_list, free_lists};
use clap::ValueEnum;
use sandbox::Request;
use simulate::{Burst, Costs, Settings, Start};
use std::collections::BTreeMap;
use units::{Bytes, Span};

const PAGE_BYTES: u64 = 16 * 1024;
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Flags {
    /// The server whose rules are simulated: percona@8.0.29, percona@5.7.39, mariadb@10.1.23, mysql@8.0. A version whose source Wringer's authors have not read is
    /// refused, never guessed
    #[arg(long, value_name = "SERVER@VERSION")]
    pub(super) server: String,
    /// innodb_empty_free_list_algorithm [default: the server's]
    #[arg(long, value_enum, value_name = "NAME")]
    pub(super) algorithm: Option<Named>,
    /// innodb_lru_scan_depth: the number of free pages that a refill of an instance aims at [default: the server's]
    #[arg(long, value_name = "PAGES")]
    pub(super) lru_scan_depth: Option<u32>,
    /// innodb_buffer_pool_size, in pages of 16 KiB; the default is MySQL's
    #[arg(long, value_name = "SIZE", default_value = "128M")]
    pub(super) pool: Bytes,
    /// innodb_buffer_pool_instances
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(super) instances: u32,
    /// Number of clients. 0: no queries are sent, and only the refiller runs
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(super) threads: u32,
    /// Queries a second of all clients together, at random times [default: each client sends its next query at once]
    #[arg(long, value_name = "QUERIES")]
    pub(super) rate: Option<f64>,
    /// How long each load is; seconds without a unit
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = Span::parse_seconds)]
    pub(super) time: Span,
    /// Quiet time before each load: the refiller's sleep grows in it
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = Span::parse_seconds)]
    pub(super) pause: Span,
    /// Loads, one after the other, on the same server; 200 ms lie between two of them, beside the pause
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(super) repeat: u32,
    /// Size of the table; each query needs one page of it at random. Pages that the pool does not hold must be read
    #[arg(long, value_name = "SIZE", conflicts_with = "pages_per_query")]
    pub(super) table: Option<Bytes>,
    /// Pages that a query reads and that the pool does not hold, on average: 0.73, 12 [default: 1]
    #[arg(long, value_name = "PAGES")]
    pub(super) pages_per_query: Option<f64>,
    /// Pages that a query needs without reading anything, on average: a compressed table needs one more for each page that it decompresses
    #[arg(long, value_name = "PAGES", default_value_t = 0.0)]
    pub(super) pages_without_read: f64,
    /// Time of a query that neither reads nor waits
    #[arg(long, value_name = "TIME", default_value = "28.7us")]
    pub(super) service_time: Span,
    /// Time of one read, which is added to the time of the query
    #[arg(long, value_name = "TIME", default_value = "0")]
    pub(super) read_time: Span,
    /// Time of one write of a page
    #[arg(long, value_name = "TIME", default_value = "100us")]
    pub(super) write_time: Span,
    /// Share of the pages that are dirty when they come to the end of the LRU list, 0 to 1; above 0 there are writes, and the server is active
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(super) dirty: f64,
    /// One more client, which reads so many pages one after the other: a scan that empties the list
    #[arg(long, value_name = "PAGES")]
    pub(super) burst_pages: Option<u64>,
    /// Quiet time of that client from the end of one scan to the next; the first comes after half of it; seconds without a unit
    #[arg(long, value_name = "TIME", value_parser = Span::parse_seconds)]
    pub(super) burst_every: Option<Span>,
    /// By how much a sleep is longer than asked for: 60us on a quiet host, 100us to 200us on a virtual machine at work
    #[arg(long, value_name = "TIME", default_value = "60us")]
    pub(super) sleep_overhead: Span,
    /// Time of a round of the refiller beside its sleep and its batch: the overhead of a sleep, and a look that finds nothing to do
    #[arg(long, value_name = "TIME", default_value = "70us")]
    pub(super) loop_overhead: Span,
    /// Sleep of the LRU manager at the beginning, up to 1 s, in whole milliseconds
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(super) initial_sleep: Span,
    /// Free pages of each instance at the beginning [default: as many as the scan depth: the pool is full]
    #[arg(long, value_name = "PAGES")]
    pub(super) initial_free: Option<u64>,
    /// Time from the beginning of the first load to the next refill [default: unknown; the refiller falls asleep at the beginning, and other starts make the band]
    #[arg(long, value_name = "TIME")]
    pub(super) wake_offset: Option<Span>,
    /// Time from a refill of the LRU manager to one of the second refiller, which MariaDB 10.1 has [default: unknown; 7 ms, and other times make the band]
    #[arg(long, value_name = "TIME")]
    pub(super) phase: Option<Span>,
    /// How the LRU manager reads its clock [default: as the version does; where that is not known, both ways are in the band]
    #[arg(long, value_enum, value_name = "NAME")]
    pub(super) clock: Option<NamedClock>,
    /// Seed of the random numbers: the same seed gives the same result
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(super) seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum NamedClock {
    /// In whole milliseconds
    IntegerMs,
    /// In nanoseconds, the rest of the sleep cut to whole milliseconds
    TruncatedMs,
}

fn usage(message: impl std::fmt::Display) -> Failure {
    Failure::message(Exit::Usage, message)
}

impl Flags {
    /// # Errors
    /// Exit code 2: an unknown server or version, or a value out of its range.
    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        let request: Request = self.server.parse().map_err(|error: sandbox::Error| Failure::new(Exit::Usage, error))?;
        let version = request
            .version
            .ok_or_else(|| usage(format_args!("'{}' names no version", self.server)).hint(known(request.flavour)))?;
        let server = free_list(request.flavour, &version).ok_or_else(|| {
            let what = format!("nobody has looked at what {} {version} does about an empty free list", request.flavour);
            usage(what).hint(known(request.flavour))
        })?;
        let default = server.algorithms.first().copied().unwrap_or(Algorithm::Legacy);
        let algorithm = self.algorithm.map_or(default, Algorithm::from);
        let burst = match (self.burst_pages, self.burst_every) {
            (Some(pages), Some(every)) => Some(Burst { pages, every_ns: every.as_ns() }),
            (None, None) => None,
            // clap cannot check this: one of the two may be swept
            (Some(_), None) => return Err(usage("--burst-pages needs --burst-every: how often that client comes")),
            (None, Some(_)) => return Err(usage("--burst-every needs --burst-pages: how much that client reads")),
        };
        let initial_sleep_ms = self.initial_sleep.as_ns() / 1_000_000;
        if initial_sleep_ms * 1_000_000 != self.initial_sleep.as_ns() {
            return Err(usage("--initial-sleep is in whole milliseconds: that is how the server counts it"));
        }
        let settings = Settings {
            server,
            algorithm,
            scan_depth: self.lru_scan_depth.unwrap_or(server.scan_depth),
            instance_pages: self.pool.0 / PAGE_BYTES / u64::from(self.instances.max(1)),
            instances: self.instances,
            threads: self.threads,
            rate_per_second: self.rate,
            time_ns: self.time.as_ns(),
            pause_ns: self.pause.as_ns(),
            repeat: self.repeat,
            gap_ns: 200_000_000,
            reads_per_query: self.reads_per_query()?,
            pages_without_read: self.pages_without_read,
            service_ns: self.service_time.as_ns(),
            read_ns: self.read_time.as_ns(),
            write_ns: self.write_time.as_ns(),
            dirty: self.dirty,
            active: self.dirty > 0.0,
            burst,
            sleep_overhead_ns: self.sleep_overhead.as_ns(),
            loop_overhead_ns: self.loop_overhead.as_ns(),
            initial_sleep_ms,
            initial_free: self.initial_free,
            start: Start {
                wake_offset_ns: self.wake_offset.map(Span::as_ns),
                phase_ns: self.phase.map(Span::as_ns),
                ..Start::default()
            },
            clock: self.clock.map(|clock| match clock {
                NamedClock::IntegerMs => Clock::IntegerMs,
                NamedClock::TruncatedMs => Clock::TruncatedMs,
            }),
            seed: self.seed,
            costs: Costs::default(),
        };
        settings.check().map_err(|error| Failure::new(Exit::Usage, error))?;
        Ok(settings)
    }

    /// The pages that a query reads, on average. Each page of the table is as likely as any other, and the pool holds as many of them as fit.
    fn reads_per_query(&self) -> Result<f64, Failure> {
        match (self.pages_per_query, self.table) {
            (Some(_), Some(_)) => {
                Err(usage("--table and --pages-per-query exclude each other, also where one of them is swept"))
            }
            (Some(pages), None) => Ok(pages),
            (None, Some(Bytes(0))) => Err(usage("--table is 0: a table has a size")),
            (None, Some(table)) => Ok((1.0 - self.pool.0 as f64 / table.0 as f64).max(0.0)),
            (None, None) => Ok(1.0),
        }
    }
}

/// The known versions of this server, for a message.
fn known(flavour: Flavour) -> String {
    let mut all: BTreeMap<Flavour, Vec<String>> = BTreeMap::new();
    for row in free_lists() {
        all.entry(row.flavour).or_default().push(row.versions());
    }
    match all.remove(&flavour) {
        Some(mut versions) => {
            versions.reverse();
            format!("of {flavour} these are known: {}", versions.join(", "))
        }
        None => format!("{flavour} has no InnoDB; known are mariadb, mysql and percona"),
    }
}
