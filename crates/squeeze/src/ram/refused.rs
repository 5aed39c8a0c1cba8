// SPDX-License-Identifier: Apache-2.0
//! Why the kernel refuses a huge page, from what it says at that moment.

use crate::Meminfo;
use crate::ram::OVERCOMMIT;
use std::fs;
use std::path::Path;
use units::counted;

/// The state of the host in which the kernel refused one huge page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused {
    /// Huge pages beyond the pool, of everybody.
    pub(super) surplus: u64,
    /// The number of surplus pages that the kernel allows. `None`: the page was asked for the pool, which has no such limit.
    pub(super) cap: Option<u64>,
    /// Free pieces of memory that are as large as a huge page.
    pub(super) free_blocks: u64,
}

impl Refused {
    pub(super) fn beyond_the_pool(page_bytes: u64) -> Self {
        let cap = host::change::read_value(Path::new(OVERCOMMIT)).ok().and_then(|value| value.parse().ok());
        Self { cap, ..Self::of_the_pool(page_bytes) }
    }

    pub(super) fn of_the_pool(page_bytes: u64) -> Self {
        let buddies = fs::read_to_string("/proc/buddyinfo").unwrap_or_default();
        Self {
            surplus: Meminfo::now().map_or(0, |now| now.huge_surplus_pages),
            cap: None,
            free_blocks: free_blocks(&buddies, page_bytes / rustix::param::page_size() as u64),
        }
    }

    /// In words. `no_block`: the reason when no free block is large enough.
    pub(super) fn why(&self, no_block: &str) -> String {
        let free = match self.free_blocks {
            0 => "no free block of its size exists".to_owned(),
            blocks => format!("{} of its size exist", counted(blocks, "free block")),
        };
        let surplus = counted(self.surplus, "surplus huge page");
        match self.cap {
            Some(cap) if self.surplus >= cap => format!(
                "the kernel refused a page because there are {surplus} (HugePages_Surp), and vm.nr_overcommit_hugepages allows {cap}; {free}. \
                 Somebody took surplus pages or lowered that value meanwhile: end who uses them, or take --mechanism balloon"
            ),
            _ if self.free_blocks > 0 => format!(
                "the kernel refused a page although {free}, and there are {surplus}: it keeps the blocks for itself, or a hugetlb cgroup limits \
                 us; --mechanism balloon takes no huge pages"
            ),
            _ => no_block.to_owned(),
        }
    }
}

/// The free blocks of `/proc/buddyinfo` (kernel, filesystems/proc.rst) that hold this many pages. Without the zone DMA: it is not for huge pages.
fn free_blocks(buddies: &str, pages: u64) -> u64 {
    let of_zone = |line: &str| -> Option<u64> {
        let mut words = line.split_ascii_whitespace().skip(3);
        if words.next()? == "DMA" {
            return None;
        }
        let sizes = std::iter::successors(Some(1_u64), |size| size.checked_mul(2));
        let blocks = words.zip(sizes).filter_map(|(count, size)| Some((count.parse::<u64>().ok()?, size)));
        Some(blocks.map(|(count, size)| count.saturating_mul(size / pages.max(1))).sum())
    };
    buddies.lines().filter_map(of_zone).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDDIES: &str = "\
Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      3 
Node 0, zone    DMA32   3146   2051   1107    591    386    273    173    118     64     38    656 
Node 1, zone   Normal  26773  13864   5863   1994   2798   9281   8260   3186    948    261    769 
";

    #[test]
    fn a_block_of_4_mib_holds_two_pages_of_2_mib() {
        assert_eq!(free_blocks(BUDDIES, 512), 38 + 2 * 656 + 261 + 2 * 769);
        assert_eq!(free_blocks(BUDDIES, 1024), 656 + 769);
        assert_eq!((free_blocks(BUDDIES, 1 << 18), free_blocks("", 512)), (0, 0));
    }

    #[test]
    fn the_cause_is_what_the_kernel_shows() {
        let why = |surplus, cap, free_blocks| Refused { surplus, cap, free_blocks }.why("no memory in one piece");
        let capped = why(20, Some(20), 7);
        for word in ["20 surplus huge pages", "nr_overcommit_hugepages allows 20", "7 free blocks", "balloon"] {
            assert!(capped.contains(word), "'{word}' is not in: {capped}");
        }
        for uncapped in [why(20, Some(60), 1), why(20, None, 1)] {
            assert!(uncapped.contains("although 1 free block of its size"), "{uncapped}");
            assert!(uncapped.contains("20 surplus huge pages") && uncapped.contains("balloon"), "{uncapped}");
        }
        assert_eq!([why(20, Some(60), 0), why(20, None, 0)], ["no memory in one piece"; 2]);
    }
}
