// SPDX-License-Identifier: Apache-2.0
//! Aria's page cache: `init_pagecache` of storage/maria/ma_pagecache.c. Blocks come from one allocation; their descriptors from another, which is zeroed,
//! and so touched, when the server starts.

use crate::figures::Figures;
use crate::row::{Amount, Reckoned};
use capability::Version;

/// `PAGECACHE_BLOCK_LINK`, and a head of a chain of links, on a 64-bit host.
const DESCRIPTOR: u64 = 144;
const HEAD: u64 = 8;
/// `PAGECACHE_HASH_LINK`, of which there are two for each block; from 10.5 on with what the S3 engine needs.
const LINK: u64 = 96;
const LINK_WITH_S3: u64 = 112;
const S3_SINCE: [u32; 2] = [10, 5];
/// Two tables of changed blocks, each of 512 pointers, which is the least (`MIN_PAGECACHE_CHANGED_BLOCKS_HASH_SIZE`).
const CHANGED: u64 = 2 * 512 * 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) count: u64,
    /// All blocks together, in bytes.
    pub(crate) blocks: u64,
    pub(crate) descriptors: u64,
}

/// The cache by its size. An unknown version is taken for one before 10.5, which has less memory beside the blocks.
pub(crate) fn parts(figures: &Figures<'_>) -> Option<Parts> {
    let size = figures.size("aria_pagecache_buffer_size").filter(|size| *size >= 8 << 20)?;
    let has_s3 = figures.version().is_some_and(|version| version >= Version::of(&S3_SINCE));
    let link = if has_s3 { LINK_WITH_S3 } else { LINK };
    Some(of(size, figures.size("aria_block_size").unwrap_or(8192), link))
}

fn of(size: u64, block: u64, link: u64) -> Parts {
    // so many blocks are tried first, each with its links; then as many blocks are taken as fit beside all links
    let tried = size / (DESCRIPTOR + 2 * link + HEAD * 5 / 4 + block);
    let power = (tried + 1).next_power_of_two();
    let heads = if power < tried * 5 / 4 { power * 2 } else { power };
    let fixed = heads * HEAD + 2 * tried * link + CHANGED;
    let count = tried.min(size.saturating_sub(fixed) / (DESCRIPTOR + block));
    Parts { count, blocks: count * block, descriptors: fixed + count * DESCRIPTOR }
}

/// Descriptors, links, heads, and tables of changed blocks.
pub(crate) fn descriptors(of: &Reckoned<'_>) -> Option<Amount> {
    parts(&of.0).map(|parts| Amount::whole(parts.descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Inventory, ServerSeen};
    use capability::Flavour;

    fn inventory(version: &str) -> Inventory {
        let variables = [("aria_pagecache_buffer_size", "134217728"), ("version", version)];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let server = Some(ServerSeen { variables, ..ServerSeen::default() });
        Inventory { flavour: Some(Flavour::Mariadb), server, ..Inventory::default() }
    }

    /// Massif has blocks of 5,550,248 bytes in MariaDB 10.1.23 and of 6,031,592 in 11.4.5, with 8 and 24 bytes of the server's own head, and the mapping
    /// of the blocks in 10.11.19 has 128,180,224 bytes. Just started, they say `Aria_pagecache_blocks_unused` 15,706 and, of 15,647, 15,638.
    #[test]
    fn as_it_was_measured() {
        let of = |version| parts(&Figures::of(&inventory(version)));
        let old = Parts { count: 15_706, blocks: 128_663_552, descriptors: 5_550_240 };
        let new = Parts { count: 15_647, blocks: 128_180_224, descriptors: 6_031_568 };
        assert_eq!((of("10.1.23-MariaDB"), of("11.4.5-MariaDB")), (Some(old), Some(new)));
        assert_eq!((of("10.11.19-MariaDB-0+deb12u1"), of("")), (Some(new), Some(old)));
        assert_eq!(parts(&Figures::of(&Inventory::default())), None);
    }

    #[test]
    fn any_size_is_taken() {
        for size in [8 << 20, 1 << 30, 1 << 47] {
            for block in [1, 1024, 1 << 47] {
                let parts = super::of(size, block, 112);
                assert!(parts.count <= size / block);
            }
        }
    }
}
