// SPDX-License-Identifier: Apache-2.0
//! MyISAM's key cache: `init_simple_key_cache` of mysys/mf_keycache.c. Blocks come from one mapping; their descriptors lie elsewhere, and are all zeroed,
//! and so touched, when the server starts.

use crate::figures::Figures;
use crate::row::{Amount, Reckoned};

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

/// Descriptors, links, heads, and tables of changed blocks.
pub(crate) fn descriptors(of: &Reckoned<'_>) -> Option<Amount> {
    let (size, block) = sizes(&of.0)?;
    let (count, fixed) = fitting(size, block);
    Some(Amount::whole(count * DESCRIPTOR + fixed))
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
