// SPDX-License-Identifier: Apache-2.0
//! The figures of the five articles, and the laws that they should follow on any machine, if there is one. Both are only here.

use super::measured::{
    ENTRY_BYTES, FigureOf, backoff_after_pause, backoff_over_legacy, cached_cold_over_warm,
    cached_cold_over_warm_without_ram, direct_cold_over_warm, distance_of_humps, huge_over_buffers, load_over_squeezed,
    page_table_entry, page_tables_over_huge, pool_share, reads_of_second_hump, refused_beside_leak, refused_with_limit,
    rss_after_rest, scan_warm_over_cold, scan_warm_over_cold_without_ram, served_with_limit, ticks_per_stall,
    vsz_over_rss,
};

/// One figure.
pub(super) struct Law {
    pub(super) article: u32,
    pub(super) name: &'static str,
    /// The article's own figure, or one that is computed from the article's figures. `None`: the article prints no such figure.
    pub(super) printed: Option<f64>,
    /// The numbers that the article printed.
    pub(super) source: Option<&'static str>,
    pub(super) unit: &'static str,
    /// The figure as a sentence of the headline, with `{}` in place of the number. Empty: the figure is only in the table.
    pub(super) tells: &'static str,
    /// `None`: there is no law that holds on every machine and could still fail; then only the two figures are shown.
    pub(super) holds: Option<Holds>,
    pub(super) of: FigureOf,
}

/// A law that should hold on any machine.
pub(super) struct Holds {
    /// The law in words, with the reason of its bounds.
    pub(super) says: &'static str,
    /// Both bounds are included.
    pub(super) low: f64,
    pub(super) high: f64,
}

const ANY: f64 = f64::INFINITY;

/// What speaks against this law on some servers: [`super::measured::no_longer_stall`].
pub(super) const LONGER_PAUSE: &str = "longest query after a pause of 60 s over that after 5 s";

pub(super) fn title(article: u32) -> &'static str {
    match article {
        1 => "Trick to Simulate a Linux Server with less RAM",
        2 => "Trick to Simulate Higher Latency IOs on Linux",
        3 => "MySQL server memory usage",
        4 => "Tail Latencies in Percona Server because of InnoDB Stalls on Empty Free List",
        5 => "Why Linux HugePages are Super Important for Database Servers: A Case with PostgreSQL",
        _ => "of a later version",
    }
}

pub(super) const LAWS: [Law; 21] = [
    Law {
        article: 1,
        name: "second scan over first, file cached",
        printed: Some(325.3),
        source: Some("5.9 GiB in 266.1 s, then in 0.818 s"),
        unit: "ratio",
        tells: "The second scan of a file that the page cache holds is {} times as fast as the first",
        holds: Some(Holds {
            says: "a file that fits in the page cache is scanned faster the second time: 1.5 times as fast at least, because a smaller difference may come from other work of the host",
            low: 1.5,
            high: ANY,
        }),
        of: scan_warm_over_cold,
    },
    Law {
        article: 1,
        name: "cached read, cold over warm",
        printed: Some(2932.0),
        source: Some("1024 reads: 3.90 ms each, then 1.33 us each"),
        unit: "ratio",
        tells: "",
        holds: None,
        of: cached_cold_over_warm,
    },
    Law {
        article: 1,
        name: "second scan over first, no RAM for the file",
        printed: Some(0.997),
        source: Some("5.9 GiB in 262.6 s, then in 263.5 s, with 14 of 16 GiB hidden"),
        unit: "ratio",
        tells: "without RAM for it, {} times",
        holds: Some(Holds {
            says: "a file that does not fit in the page cache is read from the disk again: not three times as fast, which more would be than a disk with a cache of its own (of a hypervisor, for example) and the host's other work vary by",
            low: 0.0,
            high: 3.0,
        }),
        of: scan_warm_over_cold_without_ram,
    },
    Law {
        article: 1,
        name: "cached read, cold over warm, no RAM for the file",
        printed: Some(1.57),
        source: Some("1024 reads: 4.10 ms each, then 2.61 ms each, with 14 of 16 GiB hidden"),
        unit: "ratio",
        tells: "",
        holds: Some(Holds {
            says: "most blocks are not in the page cache after a scan either: such reads are not three times faster, which more would be than a disk and the host's other work vary by",
            low: 0.0,
            high: 3.0,
        }),
        of: cached_cold_over_warm_without_ram,
    },
    Law {
        article: 1,
        name: "direct read, cold over warm",
        printed: None,
        source: None,
        unit: "ratio",
        tells: "",
        holds: Some(Holds {
            says: "a read past the page cache goes to the disk, whatever is cached: after a scan it is not three times faster, which more would be than a disk and the host's other work vary by",
            low: 0.0,
            high: 3.0,
        }),
        of: direct_cold_over_warm,
    },
    Law {
        article: 1,
        name: "queries a second, with over without the page cache's RAM",
        printed: Some(87.9),
        source: Some("5106.17 and 58.10 queries/s"),
        unit: "ratio",
        tells: "Without RAM for the page cache the load does {} times fewer queries a second",
        holds: Some(Holds {
            says: "a load whose table was in the page cache gets slower when there is no RAM for it: 1.5 times as slow at least, because a smaller difference may come from other work of the host",
            low: 1.5,
            high: ANY,
        }),
        of: load_over_squeezed,
    },
    Law {
        article: 2,
        name: "distance of the first two humps over the delay",
        printed: Some(1.03),
        source: Some("annex 4: the humps at 0.22 and 10.5 ms, with a delay of 10 ms"),
        unit: "ratio",
        tells: "A query that needs one read takes {} times the delay longer than one that needs none",
        holds: Some(Holds {
            says: "the humps are as far apart as one read takes: the delay, and what the device takes besides",
            low: 0.95,
            high: 1.35,
        }),
        of: distance_of_humps,
    },
    Law {
        article: 2,
        name: "distance of the second hump over that of the first",
        printed: Some(1.99),
        source: Some("annex 4: the third hump at 20.7 ms"),
        unit: "ratio",
        tells: "two reads take {} times as long as one",
        holds: Some(Holds { says: "some queries need two reads, and take twice as long", low: 1.85, high: 2.15 }),
        of: reads_of_second_hump,
    },
    Law {
        article: 3,
        name: "RSS over the buffer pool",
        printed: Some(1.1),
        source: Some("chapter 1: \"usually innodb uses 10% more memory than the one specified\""),
        unit: "ratio",
        tells: "The server's RSS is {} times its buffer pool",
        holds: None,
        of: pool_share,
    },
    Law {
        article: 3,
        name: "VSZ over RSS",
        printed: None,
        source: None,
        unit: "ratio",
        tells: "",
        holds: None,
        of: vsz_over_rss,
    },
    Law {
        article: 3,
        name: "RSS after a rest over RSS at the load's end",
        printed: None,
        source: None,
        unit: "ratio",
        tells: "after a rest it has {} times the RSS that it had at the end of the load",
        holds: Some(Holds {
            says: "InnoDB frees no page of its pool when it has nothing to do; what connections had is given back, and may be a fifth",
            low: 0.8,
            high: 1.05,
        }),
        of: rss_after_rest,
    },
    Law {
        article: 4,
        name: "increases of wait_free a stalled query",
        printed: Some(95.8),
        source: Some("annex 5: 479 for 5 stalls"),
        unit: "count",
        tells: "Each stalled query raises the counter wait_free by {}",
        holds: Some(Holds {
            says: "with backoff each try of a waiting query counts: at least two, and in the second that a pause can last at most 250 (one each 4 ms)",
            low: 2.0,
            high: 250.0,
        }),
        of: ticks_per_stall,
    },
    Law {
        article: 4,
        name: LONGER_PAUSE,
        printed: Some(3.94),
        source: Some("annex 3, later loads: 306.55 and 77.79 ms"),
        unit: "ratio",
        tells: "After a pause of 60 s the longest query takes {} times as long as after one of 5 s",
        // how long the list lasts depends on the machine, so that there is no upper bound
        holds: Some(Holds {
            says: "the LRU manager sleeps the longer the longer nobody needs pages: in t ms without need its sleep grows to sqrt(2t) ms, so that it is sqrt(60 / 5) = 3.46 times as long after 60 s as after 5 s; a query waits for the rest of a sleep only: 1.5 times as long at least",
            low: 1.5,
            high: ANY,
        }),
        of: backoff_after_pause,
    },
    Law {
        article: 4,
        name: "longest query after a pause of 60 s, backoff over legacy",
        printed: Some(578.4),
        source: Some("annex 3: 306.55 ms with backoff, at most 0.53 ms with legacy"),
        unit: "ratio",
        tells: "After a pause of 60 s the longest query takes {} times as long with backoff as with legacy",
        holds: Some(Holds {
            says: "with backoff a query waits for the LRU manager, which sleeps up to a second; with legacy it takes a page itself: twice as long at least, for a busy host delays both",
            low: 2.0,
            high: ANY,
        }),
        of: backoff_over_legacy,
    },
    Law {
        article: 5,
        name: "page tables of a page that a connection has touched",
        printed: Some(9.0),
        source: Some("25 GB over 80 connections, each with the 141.5 GiB of 72457 huge pages in pages of 4 KiB"),
        unit: "bytes",
        tells: "",
        holds: Some(Holds {
            says: "8 bytes for each page of 4 KiB and connection, within 5 %; what a connection has also with huge pages (the program, libraries, its own memory) is taken off",
            low: 0.95 * ENTRY_BYTES,
            high: 1.05 * ENTRY_BYTES,
        }),
        of: page_table_entry,
    },
    Law {
        article: 5,
        name: "page tables with pages of 4 KiB over those with huge pages",
        printed: Some(419.7),
        source: Some("25 GB and 61 MB"),
        unit: "ratio",
        tells: "With pages of 4 KiB the server has {} times the page tables that it has with huge pages",
        holds: Some(Holds {
            says: "a huge page stands for 512 pages of 4 KiB, which is the most; what else a connection has mapped keeps its tables, and at 1 GiB that may be a fifth",
            low: 5.0,
            high: 512.0,
        }),
        of: page_tables_over_huge,
    },
    Law {
        article: 5,
        name: "memory in huge pages over shared_buffers",
        printed: Some(1.025),
        source: Some("72457 pages of 2 MiB for shared_buffers of 138 GB"),
        unit: "ratio",
        tells: "",
        holds: Some(Holds {
            says: "the server's shared memory is shared_buffers and little besides: locks, WAL buffers, a slot for each connection, and the rest of the last page",
            low: 1.0,
            high: 1.15,
        }),
        of: huge_over_buffers,
    },
    Law {
        article: 5,
        name: "logins of the application that fail beside a leak",
        printed: None,
        source: None,
        unit: "count",
        tells: "Beside a client that leaks connections, {} logins of the application fail",
        holds: Some(Holds { says: "a client that leaks connections leaves none for others", low: 1.0, high: ANY }),
        of: refused_beside_leak,
    },
    Law {
        article: 5,
        name: "logins of the application that fail beside a leak with a limit",
        printed: None,
        source: None,
        unit: "count",
        tells: "with a limit for that client, {} fail",
        holds: Some(Holds { says: "a limit for the leaking account leaves the rest to others", low: 0.0, high: 0.0 }),
        of: refused_with_limit,
    },
    Law {
        article: 5,
        name: "logins of the application beside a leak with a limit, over those alone",
        printed: None,
        source: None,
        unit: "ratio",
        tells: "",
        holds: Some(Holds {
            says: "a client that is kept to its limit takes nothing from the application: 0.95 of its throughput at least, for less may be the host's other work",
            low: 0.95,
            high: ANY,
        }),
        of: served_with_limit,
    },
    Law {
        article: 5,
        name: "page tables of 80 connections over those of 20",
        printed: None,
        source: None,
        unit: "ratio",
        tells: "",
        holds: Some(Holds {
            says: "four times as many connections have four times the page tables, but for what the server has without them",
            low: 3.0,
            high: 5.0,
        }),
        of: super::measured::page_tables_by_connections,
    },
];
