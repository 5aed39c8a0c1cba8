// SPDX-License-Identifier: Apache-2.0
//! MyISAM's key caches: `init_simple_key_cache` of mysys/mf_keycache.c. Blocks come from one mapping; their descriptors lie elsewhere, and are all zeroed,
//! and so touched, when the cache is made. Beside the default cache a server has caches with names of their own (`SET GLOBAL hot.key_buffer_size`).

use crate::KeyCacheSeen;
use crate::figures::Figures;
use crate::row::{Amount, Reckoned};
use crate::share::sane;
use capability::Flavour;

pub(crate) const LIST_SOURCE: &str = "information_schema.KEY_CACHES, USED_BLOCKS x BLOCK_SIZE of caches with names";
pub(crate) const EVENT_SOURCE: &str =
    "performance_schema.memory_summary_global_by_event_name, memory/mysys/KEY_CACHE, without key_buffer_size";

/// The name of the cache whose size is `key_buffer_size`.
const DEFAULT: &str = "default";

/// `BLOCK_LINK`, `HASH_LINK` (two for each block), and a head of a chain of them, on a 64-bit host.
const DESCRIPTOR: u64 = 112;
const LINKS: u64 = 2 * 48;
const HEAD: u64 = 8;
/// Two tables of changed blocks, each of 512 pointers (`CHANGED_BLOCKS_HASH`).
const CHANGED: u64 = 2 * 512 * 8;

/// How many blocks there are, and how large each is.
pub(crate) fn blocks(figures: &Figures<'_>) -> Option<(u64, u64)> {
    let (size, block) = sizes(figures)?;
    Some((fitting(size, block).0, block))
}

fn sizes(figures: &Figures<'_>) -> Option<(u64, u64)> {
    let size = figures.size("key_buffer_size").filter(|size| *size >= 8 << 20)?;
    Some((size, figures.size("key_cache_block_size").unwrap_or(1024)))
}

/// How many blocks fit together with their links and heads, and the size of these without the blocks' own descriptors. The heads are the next power of 2, and
/// the one after it where that is less than 5/4 of the blocks.
fn fitting(size: u64, block: u64) -> (u64, u64) {
    // so many blocks are tried first, each with its links; then as many blocks are taken as fit beside all links
    let tried = size / (DESCRIPTOR + LINKS + HEAD * 5 / 4 + block);
    let power = (tried + 1).next_power_of_two();
    let heads = if power < tried * 5 / 4 { power * 2 } else { power };
    let fixed = tried * LINKS + heads * HEAD + CHANGED;
    (tried.min(size.saturating_sub(fixed) / (DESCRIPTOR + block)), fixed)
}

/// Descriptors, links, heads, and tables of changed blocks, of all caches that are known one by one.
pub(crate) fn descriptors(of: &Reckoned<'_>) -> Option<Amount> {
    let of_default = sizes(&of.0).map(|(size, block)| descriptors_of(size, block));
    let of_named = sum(&of.0, |cache| sane(cache.size).saturating_sub(blocks_of(cache)));
    let of_named = of_named.saturating_add(descriptors_beside_default(&of.0));
    let all = of_default.unwrap_or(0).saturating_add(of_named);
    (all > 0).then(|| Amount::whole(all))
}

fn descriptors_of(size: u64, block: u64) -> u64 {
    let (count, fixed) = fitting(size, block);
    count * DESCRIPTOR + fixed
}

/// In bytes.
fn blocks_of(cache: &KeyCacheSeen) -> u64 {
    sane(cache.blocks.saturating_mul(cache.block)).min(sane(cache.size))
}

/// Of MariaDB's caches with names.
fn sum(figures: &Figures<'_>, of: impl Fn(&KeyCacheSeen) -> u64) -> u64 {
    let caches = figures.server().into_iter().flat_map(|server| &server.key_caches);
    caches.filter(|cache| cache.name != DEFAULT).map(of).fold(0, u64::saturating_add)
}

/// MariaDB: the blocks of caches with names. A block that was used once is resident.
pub(crate) fn named_blocks(figures: &Figures<'_>) -> Option<Amount> {
    let allocated = sum(figures, blocks_of);
    let used = sum(figures, |cache| sane(cache.used.saturating_mul(cache.block)));
    (allocated > 0).then_some(Amount { resident: used.min(allocated), allocated })
}

/// MariaDB: caches with names, with their descriptors. `Memory_used` counts them from their beginning.
pub(crate) fn named_size(figures: &Figures<'_>) -> u64 {
    sum(figures, |cache| sane(cache.size))
}

/// MySQL: the blocks of other caches than the default one. Nothing tells how much of them was touched.
pub(crate) fn blocks_beside_default(figures: &Figures<'_>) -> Option<u64> {
    Some(beside_default(figures)?.saturating_sub(descriptors_beside_default(figures)))
}

/// As of one cache with blocks of the default size.
fn descriptors_beside_default(figures: &Figures<'_>) -> u64 {
    let block = figures.size("key_cache_block_size").unwrap_or(1024);
    beside_default(figures).map_or(0, |size| descriptors_of(size, block).min(size))
}

/// MySQL: what its memory event has beside the default cache.
fn beside_default(figures: &Figures<'_>) -> Option<u64> {
    let is_mysql = figures.flavour.is_some_and(|it| it == Flavour::Mysql || it.base() == Some(Flavour::Mysql));
    let event = figures.event("memory/mysys/KEY_CACHE").filter(|_| is_mysql)?;
    event.checked_sub(figures.size("key_buffer_size")?).filter(|rest| *rest >= LEAST)
}

/// The least size of a cache that has blocks. The event has some KiB more than `key_buffer_size` also where there is only the default cache.
const LEAST: u64 = 64 << 10;

/// The size of all caches, as far as the server tells it.
pub(crate) fn size_of_all(figures: &Figures<'_>) -> u64 {
    let size = figures.size("key_buffer_size").unwrap_or(0);
    size.saturating_add(named_size(figures)).saturating_add(beside_default(figures).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Inventory, ServerSeen};

    /// With the default of 128 MiB, MariaDB 10.1.23, 10.11.19 and 11.4.5 say `Key_blocks_unused` 107,163; Massif has a block of 24,481,848 bytes, the
    /// server's own head included.
    #[test]
    fn as_it_was_measured() {
        let variables = [("key_buffer_size".to_owned(), "134217728".to_owned())].into();
        let server = Some(ServerSeen { variables, ..ServerSeen::default() });
        let inventory = Inventory { server, ..Inventory::default() };
        let figures = Figures::of(&inventory);
        assert_eq!(blocks(&figures), Some((107_163, 1024)));
        assert_eq!(descriptors(&Reckoned(figures)), Some(Amount::whole(24_481_840)));
    }
}
