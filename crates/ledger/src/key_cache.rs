// SPDX-License-Identifier: Apache-2.0
//! MyISAM's key cache: `init_simple_key_cache` of mysys/mf_keycache.c. Blocks come from one mapping; their descriptors lie elsewhere, and are all zeroed,
//! and so touched, when the server starts.

use crate::figures::Figures;
use crate::row::{Amount, Reckoned};

/// `BLOCK_LINK`, `HASH_LINK` (two for each block), and a head of a chain of them, on a 64-bit host.
const DESCRIPTOR: u64 = 112;
const LINKS: u64 = 2 * 48;
const HEAD: u64 = 8;

/// How many blocks there are, and how large each is.
pub(crate) fn blocks(figures: &Figures<'_>) -> Option<(u64, u64)> {
    let size = figures.size("key_buffer_size").filter(|size| *size >= 8 << 20)?;
    let block = figures.size("key_cache_block_size").filter(|block| *block > 0).unwrap_or(1024);
    Some((size / (DESCRIPTOR + LINKS + HEAD * 5 / 4 + block), block))
}

/// Descriptors, links and heads: the heads are the next power of 2, and the one after it where that is less than 5/4 of the blocks.
pub(crate) fn descriptors(of: &Reckoned<'_>) -> Option<Amount> {
    let (blocks, _) = blocks(&of.0)?;
    let power = blocks.checked_next_power_of_two()?;
    let heads = if power < blocks * 5 / 4 { power * 2 } else { power };
    Some(Amount::whole(blocks * (DESCRIPTOR + LINKS) + heads * HEAD))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Inventory, ServerSeen};

    /// A MariaDB 10.11.19 with the default of 128 MiB has a mapping of 24,576,000 bytes for them, all of it resident; Massif says 24.5 MB.
    #[test]
    fn as_it_was_measured() {
        let variables = [("key_buffer_size".to_owned(), "134217728".to_owned())].into();
        let server = Some(ServerSeen { variables, ..ServerSeen::default() });
        let inventory = Inventory { server, ..Inventory::default() };
        let amount = descriptors(&Reckoned(Figures::of(&inventory))).unwrap_or(Amount { resident: 0, allocated: 0 });
        assert!(amount.resident.abs_diff(24_576_000) < 16 << 10, "{amount:?}");
    }
}
