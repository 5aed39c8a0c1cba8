// SPDX-License-Identifier: Apache-2.0
//! The meaning of the counters of the free list. Names with a small first letter are metrics of `information_schema.INNODB_METRICS`, which are off
//! until a user turns them on.

use super::Counter;

const WAIT_FREE_BACKOFF: &str = "one for each failed try: a clock of the time that queries have stalled";
const WAIT_FREE_LEGACY: &str = "one for each round that found neither a free page nor a clean one to take; taking a clean page, and waiting for a batch that runs, do not count";

const SEARCH: Counter = Counter {
    name: "buffer_LRU_get_free_search",
    backoff: "one for each page that anybody asks for: the page demand",
    legacy: "one for each page that anybody asks for: the page demand",
};
const LOOPS: Counter = Counter {
    name: "buffer_LRU_get_free_loops",
    backoff: "one for each failed try, as wait_free",
    legacy: "one for each look at an empty list; while wait_free stands still, a clean page was found each time, which is cheap",
};
const WAITS: Counter = Counter {
    name: "buffer_LRU_get_free_waits",
    backoff: "stays as it is",
    legacy: "one for each sleep of a query that found nothing in two rounds",
};
const SCANNED: Counter = Counter {
    name: "buffer_LRU_search_scanned",
    backoff: "stays as it is: queries do not look through the LRU list",
    legacy: "pages of the LRU list that queries looked at in search of a clean one; many for each search: the end of the list is dirty",
};
const SINGLE: Counter = Counter {
    name: "buffer_LRU_single_flush_scanned",
    backoff: "stays as it is: queries write no page themselves",
    legacy: "pages that queries passed over before they wrote one themselves: it grows when dirty pages reach the end of the LRU list",
};
const SINGLE_FAILED: Counter = Counter {
    name: "buffer_LRU_single_flush_failure_count",
    backoff: "stays as it is",
    legacy: "a query wanted to write one page, and found none that can be written",
};
const BATCH_FLUSHED: Counter = Counter {
    name: "buffer_LRU_batch_flush_total_pages",
    backoff: "dirty pages that LRU batches began to write",
    legacy: "dirty pages that LRU batches began to write",
};
const BATCH_EVICTED: Counter = Counter {
    name: "buffer_LRU_batch_evict_total_pages",
    backoff: "clean pages that LRU batches took away",
    legacy: "clean pages that LRU batches took away",
};
const FREE: Counter = Counter {
    name: "Innodb_buffer_pool_pages_free",
    backoff: "length of all free lists now; innodb_lru_scan_depth of each instance is what they are filled up to",
    legacy: "length of all free lists now; innodb_lru_scan_depth of each instance is what they are filled up to",
};
const LRU_FLUSHED: Counter = Counter {
    name: "Innodb_buffer_pool_pages_LRU_flushed",
    backoff: "dirty pages that LRU batches began to write; pages that are taken away clean do not count",
    legacy: "dirty pages that LRU batches began to write; those that a query writes itself, and pages that are taken away clean, do not count",
};

const MYSQL_WAIT_FREE: Counter =
    Counter { name: "Innodb_buffer_pool_wait_free", backoff: "", legacy: WAIT_FREE_LEGACY };
const PERCONA_WAIT_FREE: Counter = Counter { backoff: WAIT_FREE_BACKOFF, ..MYSQL_WAIT_FREE };

pub(super) const MYSQL: &[Counter] =
    &[MYSQL_WAIT_FREE, SEARCH, LOOPS, WAITS, SCANNED, SINGLE, SINGLE_FAILED, BATCH_FLUSHED, BATCH_EVICTED, FREE];
pub(super) const MYSQL_5_6: &[Counter] =
    &[MYSQL_WAIT_FREE, SEARCH, SCANNED, SINGLE, SINGLE_FAILED, BATCH_FLUSHED, BATCH_EVICTED, FREE];
pub(super) const PERCONA: &[Counter] = &[
    PERCONA_WAIT_FREE,
    LRU_FLUSHED,
    SEARCH,
    LOOPS,
    WAITS,
    SCANNED,
    SINGLE,
    SINGLE_FAILED,
    BATCH_FLUSHED,
    BATCH_EVICTED,
    FREE,
];
/// XtraDB in MariaDB 10.1 has the same counters.
pub(super) const PERCONA_5_6: &[Counter] =
    &[PERCONA_WAIT_FREE, LRU_FLUSHED, SEARCH, SCANNED, SINGLE, SINGLE_FAILED, BATCH_FLUSHED, BATCH_EVICTED, FREE];

const MARIADB_FLUSHED: Counter = Counter {
    name: "Innodb_buffer_pool_pages_LRU_flushed",
    backoff: "",
    legacy: "dirty pages that LRU batches began to write",
};
const MARIADB_FREED: Counter = Counter {
    name: "Innodb_buffer_pool_pages_LRU_freed",
    backoff: "",
    legacy: "clean pages that LRU batches took away",
};
pub(super) const MARIADB: &[Counter] = &[
    Counter {
        name: "Innodb_buffer_pool_wait_free",
        backoff: "",
        legacy: "one for each time that a query waited and woke up without a page: thousands are normal while others write",
    },
    MARIADB_FLUSHED,
    MARIADB_FREED,
    SEARCH,
    LOOPS,
    SCANNED,
    FREE,
];
pub(super) const MARIADB_10_5: &[Counter] = &[
    Counter {
        name: "Innodb_buffer_pool_wait_free",
        backoff: "",
        legacy: "one for each LRU batch that a query runs itself",
    },
    MARIADB_FLUSHED,
    MARIADB_FREED,
    SEARCH,
    SCANNED,
    FREE,
];
