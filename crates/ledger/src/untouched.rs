// SPDX-License-Identifier: Apache-2.0
//! Large blocks that malloc has given and that nobody has touched. A server's meters count them; they are not resident.

use crate::claim::Claim;
use crate::figures::Figures;
use crate::pieces::Partition;
use crate::share::sane;
use crate::{Class, Inventory, class, key_cache};
use capability::Flavour;

/// Bytes of the holes in which such blocks lie ([`crate::Mapping::holes`]). With glibc's malloc, which maps a large block by itself, they are all; another malloc
/// has free memory in holes, too. There they are the most that MySQL's key caches may not have touched; MariaDB has larger meters than holes tell of.
pub(crate) fn bytes(inventory: &Inventory, partition: &Partition, process: usize) -> u64 {
    let seen = &inventory.processes[process];
    let name = seen.allocator.as_deref().unwrap_or_default();
    if !name.starts_with("glibc") && inventory.flavour == Some(Flavour::Mariadb) {
        return 0;
    }
    let mappings = seen.mappings.as_deref().unwrap_or_default().iter().zip(&partition.classes[process]);
    let holes = |wanted: Class| {
        let of_class = mappings.clone().filter(|(_, class)| **class == wanted);
        of_class.map(|(mapping, _)| sane(mapping.holes)).fold(0, u64::saturating_add)
    };
    let in_heap = seen.heap.as_ref().map_or(0, |heap| {
        let free = sane(heap.free).saturating_sub(sane(heap.free_resident));
        holes(Class::Heap).saturating_sub(free)
    });
    // tcmalloc's spans lie in `[heap]`
    if name == "tcmalloc" { in_heap } else { holes(Class::Anonymous).saturating_add(in_heap) }
}

/// What is left of it without the caches whose own meters tell that a part of them was not touched.
pub(crate) fn of_others(untouched: u64, claims: &[Claim], figures: &Figures<'_>) -> u64 {
    let caches = claims.iter().filter(|claim| CACHES.contains(&claim.path.as_str()));
    let rest = |claim: &Claim| blocks(claim, figures).saturating_sub(claim.resident);
    untouched.saturating_sub(caches.map(rest).fold(0, u64::saturating_add))
}

/// What a cache has allocated, without the descriptors that its size includes: they are touched, and a leaf of their own.
fn blocks(claim: &Claim, figures: &Figures<'_>) -> u64 {
    let allocated = claim.allocated.unwrap_or(0);
    let of_size = |name: &str| Some(allocated) == figures.size(name);
    let blocks = match claim.path.as_str() {
        "data_cache/key_cache" if of_size("key_buffer_size") => {
            key_cache::blocks(figures).map(|(count, block)| count * block)
        }
        "data_cache/aria_cache" if of_size("aria_pagecache_buffer_size") => class::aria_blocks(figures),
        _ => None,
    };
    blocks.unwrap_or(allocated)
}

const CACHES: [&str; 4] =
    ["data_cache/buffer_pool", "data_cache/key_cache", "data_cache/aria_cache", "data_cache/query_cache"];

/// Takes it from the resident bytes of the claims, in their order. The allocated bytes stay.
pub(crate) fn take_from(claims: &mut [Claim], mut untouched: u64) {
    for claim in claims {
        let part = untouched.min(claim.resident);
        claim.resident -= part;
        untouched -= part;
    }
}
