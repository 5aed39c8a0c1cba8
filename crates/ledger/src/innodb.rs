// SPDX-License-Identifier: Apache-2.0
//! InnoDB's memory outside of its pool: figures of its status, and formulas of its source. Sizes in bytes.

use crate::row::{Amount, Reckoned};
use crate::share::sane;
use capability::Flavour;

/// A cell of a hash table is a pointer.
const CELL: u64 = 8;
/// MariaDB keeps one latch among so many cells, so that both share a line of the CPU's cache (`ELEMENTS_PER_LATCH`).
const CELLS_PER_LATCH: u64 = 7;

/// A figure of "BUFFER POOL AND MEMORY": the number after `name`. Where two parts in brackets follow, as in
/// `Lock system  334000 (332872 + 1128)`, the first: it is the table, allocated at start; the second lies elsewhere or in the pool.
pub(crate) fn line(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.trim_start().strip_prefix(name))?;
    let (total, brackets) = rest.split_once('(').unwrap_or((rest, ""));
    let constant = brackets.split_once('+').and_then(|(constant, _)| constant.trim().parse().ok());
    let total = || total.split([',', ';']).next()?.trim().parse().ok();
    constant.or_else(total).map(sane)
}

/// `ut_find_prime` of ut/ut0rnd: a prime above `n` that is not near a power of 2. All of InnoDB's hash tables have so many cells.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn cells(n: u64) -> u64 {
    // a pool of 2^40 bytes asks for 2^34 cells; the cast is exact there
    let mut n = n.min(1 << 40) + 100;
    let mut power = 1;
    while power * 2 < n {
        power *= 2;
    }
    if (n as f64) < 1.05 * power as f64 {
        n = (n as f64 * 1.041_232_1) as u64;
    }
    power *= 2;
    if n as f64 > 0.95 * power as f64 {
        n = (n as f64 * 1.113_134_7) as u64;
    }
    if n > power - 20 {
        n += 30;
    }
    n = (n as f64 * 1.013_267_7) as u64;
    (n..).find(|candidate| is_prime(*candidate)).unwrap_or(n)
}

fn is_prime(n: u64) -> bool {
    (2..).take_while(|divisor| divisor * divisor <= n).all(|divisor: u64| !n.is_multiple_of(divisor))
}

fn table(wanted: u64) -> u64 {
    cells(wanted) * CELL
}

fn with_latches(wanted: u64) -> u64 {
    let cells = cells(wanted);
    (cells + cells / CELLS_PER_LATCH + 1) * CELL
}

/// Pages of the pool; `None` without a server, or without InnoDB.
fn pages(of: &Reckoned<'_>) -> Option<u64> {
    Some(of.0.pool_size()? / of.0.page_size())
}

/// lock0lock: three tables of five cells for each page of the pool.
pub(crate) fn lock_index(of: &Reckoned<'_>) -> Option<Amount> {
    let wanted = 5 * pages(of)?;
    match of.0.flavour {
        Some(Flavour::Mariadb) => Some(Amount::whole(3 * with_latches(wanted))),
        _ => (!of.0.counts_hash_tables()).then(|| Amount::whole(3 * table(wanted))),
    }
}

/// buf0buf: the page hash, and in MySQL the hash of compressed pages, with two cells for each page of the pool. MariaDB has the latter, too, but does
/// not touch it.
pub(crate) fn page_index(of: &Reckoned<'_>) -> Option<Amount> {
    let wanted = 2 * pages(of)?;
    match of.0.flavour {
        Some(Flavour::Mariadb) => Some(Amount::whole(with_latches(wanted))),
        _ => (!of.0.counts_hash_tables()).then(|| Amount::whole(2 * table(wanted))),
    }
}

/// dict0dict: two tables with a cell for each 4 KiB of the pool. Nothing where performance_schema counts hash tables: it counts these.
pub(crate) fn dictionary_index(of: &Reckoned<'_>) -> Option<Amount> {
    let pool = of.0.pool_size().filter(|_| !of.0.counts_hash_tables())?;
    Some(Amount::whole(2 * table(pool / 4096)))
}

/// btr0sea: a cell for each 512 bytes of the pool, in so many parts. MySQL allocates it also when it is off. Nothing where performance_schema counts it.
pub(crate) fn adaptive_hash(of: &Reckoned<'_>) -> Option<Amount> {
    if of.0.counts_hash_tables() {
        return None;
    }
    let parts = of.0.size("innodb_adaptive_hash_index_parts").unwrap_or(8);
    Some(Amount::whole(parts.min(512) * table(of.0.pool_size()? / 512 / parts)))
}

/// `Innodb_mem_adaptive_hash` counts table and nodes. The nodes are pages of the pool; the table lies outside.
pub(crate) fn adaptive_hash_counted(of: &Reckoned<'_>) -> Option<Amount> {
    let allocated = of.0.status("Innodb_mem_adaptive_hash").filter(|bytes| *bytes > 0 && !of.0.counts_hash_tables())?;
    Some(Amount { resident: allocated.min(adaptive_hash(of)?.allocated), allocated })
}

/// log0log of InnoDB 5.6: one buffer and a block of the log, zeroed, and so touched, when the server starts.
pub(crate) fn log_buffer_zeroed(of: &Reckoned<'_>) -> Option<Amount> {
    Some(Amount::whole(of.0.size("innodb_log_buffer_size")? + 512))
}

/// log0log of XtraDB: a buffer for archiving the log, a quarter of the log buffer and a block; zeroed, also where archiving is off.
pub(crate) fn archive_buffer_zeroed(of: &Reckoned<'_>) -> Option<Amount> {
    let log = of.0.size("innodb_log_buffer_size").filter(|_| of.0.is_xtradb())?;
    Some(Amount::whole(log / 4 + 512))
}

/// InnoDB 5.6 counts the memory that it asks the kernel for in one mapping: the pool with the descriptors of its blocks, which are all written at start. Hash tables, which the
/// status names, come from malloc and are not in it.
pub(crate) fn descriptors_counted(of: &Reckoned<'_>) -> Option<Amount> {
    let rest = of.0.pool_counted()?.checked_sub(of.0.pool_size()?)?;
    (rest > 0).then(|| Amount::whole(rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figures;
    use crate::{Inventory, ServerSeen};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_status_is_taken_and_its_figures_are_sane(text in "(?s).{0,200}", figure in any::<u128>(), rest in "[ -~\t]{0,40}") {
            line(&text, "Total");
            let text = format!("  Lock system   {figure} {rest}\n");
            prop_assert!(line(&text, "Lock system").is_none_or(|bytes| bytes <= 1 << 47));
        }
    }

    fn inventory(flavour: Flavour) -> Inventory {
        let variables = [("innodb_buffer_pool_size".to_owned(), "268435456".to_owned())].into();
        let server = Some(ServerSeen { variables, ..ServerSeen::default() });
        Inventory { flavour: Some(flavour), server, ..Inventory::default() }
    }

    /// A heap profile of MySQL 9.7.4 with a pool of 256 MiB has blocks of 554,088 and 664,968 bytes: these tables and 32 bytes more each.
    #[test]
    fn hash_tables_as_a_heap_profile_has_them() {
        let inventory = inventory(Flavour::Mysql);
        let of = Reckoned(Figures::of(&inventory));
        assert_eq!(adaptive_hash(&of).map(|it| it.resident), Some(8 * (554_088 - 32)));
        assert_eq!(lock_index(&of).map(|it| it.resident), Some(3 * (664_968 - 32)));
        assert_eq!(dictionary_index(&of).map(|it| it.resident), Some(2 * (554_088 - 32)));
    }

    /// MySQL 9.7.4 with all memory instruments and a pool of 128 MiB counts 1,952 bytes of hash tables: no cells.
    #[test]
    fn an_event_that_counts_only_the_heads_of_the_tables_counts_no_table() {
        let mut inventory = inventory(Flavour::Mysql);
        let mut told = |bytes: i64| {
            let events = [("memory/innodb/hash0hash", bytes), ("memory/innodb/adaptive hash index", 1704)];
            let server = inventory.server.as_mut().expect("a server");
            server.memory_events = events.map(|(name, bytes)| (name.to_owned(), bytes)).into();
            let of = Reckoned(Figures::of(&inventory));
            [lock_index(&of), page_index(&of), dictionary_index(&of), adaptive_hash(&of)].map(|it| it.is_some())
        };
        assert_eq!(told(1952), [true; 4]);
        assert_eq!(told(9_000_000), [false; 4]);
    }

    #[test]
    fn the_status_of_xtradb() {
        let text = "Total memory allocated 137756672; in additional pool allocated 0\n\
            Internal hash tables (constant factor + variable factor)\n    Adaptive hash index 2250352 \t(2213368 + 36984)\n    \
            Page hash           139112 (buffer pool 0 only)\n    Lock system         334000 \t(332872 + 1128)\n\
            Dictionary memory allocated 43118\n";
        let expected = [
            ("Adaptive hash index", 2_213_368),
            ("Page hash", 139_112),
            ("Lock system", 332_872),
            ("Dictionary memory allocated", 43_118),
        ];
        for (name, bytes) in expected {
            assert_eq!(line(text, name), Some(bytes), "{name}");
        }
        assert_eq!(line(text, "Total memory allocated"), Some(137_756_672));
        assert_eq!(line(text, "Recovery system"), None);
    }

    /// XtraDB in MariaDB 10.1.23 with a pool of 128 MiB: 8,192 descriptors of 776 bytes (its debug information has that size). Massif has blocks of
    /// 16,777,832 and 4,194,920 bytes for the log's two buffers, with the heads of malloc and of InnoDB's own heap.
    #[test]
    fn what_xtradb_has_beside_its_pool() {
        let mut inventory = inventory(Flavour::Mariadb);
        let server = inventory.server.as_mut().expect("a server");
        let set = |map: &mut std::collections::BTreeMap<String, String>, name: &str, value: &str| {
            map.insert(name.to_owned(), value.to_owned());
        };
        set(&mut server.variables, "innodb_buffer_pool_size", "134217728");
        set(&mut server.variables, "innodb_log_buffer_size", "16777216");
        set(&mut server.variables, "innodb_version", "5.6.35-80.0");
        set(&mut server.status, "Innodb_mem_total", "140574720");
        let of = Reckoned(Figures::of(&inventory));
        assert_eq!(descriptors_counted(&of).map(|it| it.resident), Some(8192 * 776));
        let (log, archive) = (log_buffer_zeroed(&of), archive_buffer_zeroed(&of));
        assert_eq!(log.map(|it| it.resident), Some(16_777_832 - 104));
        assert_eq!(archive.map(|it| it.resident), Some(4_194_920 - 104));
        // InnoDB of the same server, as its plugin, has none for archiving
        let server = inventory.server.as_mut().expect("a server");
        server.variables.insert("innodb_version".to_owned(), "5.6.35".to_owned());
        assert_eq!(archive_buffer_zeroed(&Reckoned(Figures::of(&inventory))), None);
    }

    #[test]
    fn any_size_is_taken() {
        assert!(cells(u64::MAX) > 1 << 40);
        assert_eq!(cells(0) % 2, 1);
    }
}
