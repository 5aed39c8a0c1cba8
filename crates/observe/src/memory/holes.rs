// SPDX-License-Identifier: Apache-2.0
//! Large ranges without a resident page, in mappings in which malloc's blocks may lie. Who asks malloc for 64 MiB and touches nothing of them makes such a
//! range: the server's meters count it, and it is not resident.

use super::pagemap::present_of_any_length;
use super::reading::Reading;
use super::target::Target;
use ledger::Mapping;

/// Shorter ranges lie in memory of other kinds, too, which no meter of the server counts: an idle MariaDB 11.4.5 has two of 2 MiB.
const LEAST: u64 = 4 << 20;
/// Kernels before 6.7 have no call for it: there a longer mapping is not looked at, because it would hold the process for more than some 12 ms in all.
const MOST_IN_WORDS: u64 = 1 << 30;

/// Notes them in the mappings. A mapping that cannot be read, or not within the budget, has none.
pub(super) fn note(target: &Target, mappings: &mut [Mapping], reading: &mut Reading) {
    for mapping in mappings.iter_mut().filter(|mapping| may_have_holes(mapping)) {
        let range = (mapping.start, mapping.end);
        let resident = present_of_any_length(target.pagemap(), range, MOST_IN_WORDS, reading);
        let Some(resident) = resident else { continue };
        mapping.holes = between(range, &resident);
    }
}

/// InnoDB keeps its pool and its log buffers out of dumps of the process; malloc's blocks are in them. A guard below a thread's stack shows that it is one.
fn may_have_holes(mapping: &Mapping) -> bool {
    let is_of_malloc = mapping.permissions == "rw-p" && mapping.inode == 0 && !mapping.path.starts_with("[stack");
    let has_flag = |flag: &str| mapping.flags.split_whitespace().any(|it| it == flag);
    let rest = (mapping.end - mapping.start).saturating_sub(mapping.rss);
    is_of_malloc && rest >= LEAST && !has_flag("dd") && !has_flag("nh")
}

/// The bytes of all ranges of at least [`LEAST`] between those that are resident.
fn between((start, end): (u64, u64), resident: &[(u64, u64)]) -> u64 {
    let (mut at, mut sum) = (start, 0);
    for (from, to) in resident.iter().copied().chain([(end, end)]) {
        let hole = from.saturating_sub(at);
        sum += if hole >= LEAST { hole } else { 0 };
        at = at.max(to);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::super::{Options, target};
    use super::*;

    #[test]
    fn a_hole_is_long_and_between_resident_pages() {
        let mib = |count: u64| count << 20;
        assert_eq!(between((mib(10), mib(50)), &[]), mib(40));
        assert_eq!(between((mib(10), mib(50)), &[(mib(10), mib(12)), (mib(16) - 4096, mib(15))]), mib(35));
        assert_eq!(between((mib(10), mib(50)), &[(mib(14), mib(50))]), mib(4));
    }

    /// 64 MiB of this process: one page at the end of each half is touched.
    #[test]
    fn of_a_large_block_that_is_hardly_touched() {
        let mut block: Vec<u8> = Vec::with_capacity(64 << 20);
        let bytes = block.spare_capacity_mut();
        for at in [(32 << 20) - 1, (64 << 20) - 1] {
            bytes[at].write(1);
        }
        let at = block.as_ptr() as u64;
        let mut reading = Reading::begin(Options::default());
        let mut own = target::own(&mut reading);
        let mut mappings = own.maps(&mut reading).unwrap();
        note(&own, &mut mappings, &mut reading);
        let mapping = mappings.iter().find(|it| (it.start..it.end).contains(&at)).unwrap();
        // with transparent huge pages 2 MiB around each are resident; what the kernel has merged it with may have holes, too
        assert!(mapping.holes >= 56 << 20 && mapping.holes <= mapping.end - mapping.start, "{mapping:?}");
    }
}
