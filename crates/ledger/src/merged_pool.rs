// SPDX-License-Identifier: Apache-2.0
//! The pool of InnoDB 5.6 in a mapping that the kernel has merged with neighbouring memory: chunks of jemalloc, which serves malloc in MariaDB 10.1's own builds.

use crate::Mapping;
use crate::class::{Class, length};
use crate::figures::Figures;
use crate::share::sane;

/// jemalloc 3 and 4 ask the kernel for multiples of this, at multiples of it (`opt.lg_chunk` of 22, and of 21 from 4.0 on; multiples of the larger one are of
/// both).
const CHUNK: u64 = 4 << 20;

/// The mapping, and the pool's part of it, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MergedPool {
    pub(crate) mapping: usize,
    /// With the descriptors, by the server.
    pub(crate) mapped: u64,
    pub(crate) resident: u64,
}

/// `None`: no mapping, or more than one, has the size that the server counts and whole chunks besides.
///
/// The pool's part is the resident memory of the mapping minus the chunks, which are all assumed to be resident. Where the server's figure for the pool's data and
/// descriptors is larger, that figure is used.
pub(crate) fn find(mappings: &[Mapping], classes: &[Class], figures: &Figures<'_>) -> Option<MergedPool> {
    let counted = figures.pool_counted().filter(|_| !classes.contains(&Class::BufferPool))?;
    let is_merged = |it: &Mapping| {
        let rest = length(it).checked_sub(counted);
        let is_at_chunks = it.start.is_multiple_of(CHUNK) || it.end.is_multiple_of(CHUNK);
        // a pool whose size is a multiple of a chunk cannot be distinguished from chunks
        is_at_chunks && !counted.is_multiple_of(CHUNK) && rest.is_some_and(|rest| rest.is_multiple_of(CHUNK))
    };
    let all = mappings.iter().zip(classes).enumerate();
    let mut fitting = all.filter(|(_, (it, class))| **class == Class::Anonymous && is_merged(it));
    let (mapping, (found, _)) = fitting.next().filter(|_| fitting.next().is_none())?;
    let pss = sane(found.pss);
    let said = figures.pool_data().unwrap_or(0) + counted.saturating_sub(figures.pool_size()?);
    let without_chunks = pss.saturating_sub(length(found) - counted);
    Some(MergedPool { mapping, mapped: counted, resident: without_chunks.max(said.min(pss)).min(counted) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Inventory, ServerSeen};
    use capability::Flavour;

    /// XtraDB in MariaDB 10.1.23 under load: 140,574,720 bytes of its pool below one chunk of jemalloc. `pss` is what was resident of both.
    fn inventory(data: u64) -> Inventory {
        let texts =
            |pairs: &[(&str, u64)]| pairs.iter().map(|(name, it)| ((*name).to_owned(), it.to_string())).collect();
        let variables = texts(&[("innodb_buffer_pool_size", 134_217_728), ("innodb_buffer_pool_instances", 8)]);
        let status = texts(&[
            ("Innodb_mem_total", 140_574_720),
            ("Innodb_buffer_pool_bytes_data", data),
            ("Innodb_buffer_pool_pages_total", 8191),
        ]);
        let server = ServerSeen { variables, status, ..ServerSeen::default() };
        Inventory { flavour: Some(Flavour::Mariadb), server: Some(server), ..Inventory::default() }
    }

    fn mapping(start: u64, end: u64, pss: u64) -> Mapping {
        Mapping { start, end, pss, rss: pss, permissions: "rw-p".into(), ..Mapping::default() }
    }

    fn found(mappings: &[Mapping], data: u64) -> Option<MergedPool> {
        let classes = vec![Class::Anonymous; mappings.len()];
        find(mappings, &classes, &Figures::of(&inventory(data)))
    }

    #[test]
    fn the_pool_beside_a_chunk_of_jemalloc() {
        let merged = mapping(0x7f03_aa5f_0000, 0x7f03_b300_0000, 46_796_800);
        let others = mapping(0x7f03_b3c0_0000, 0x7f03_c500_0000, 37_203_968);
        let pool = |resident| Some(MergedPool { mapping: 1, mapped: 140_574_720, resident });
        let both = [others.clone(), merged.clone()];
        assert_eq!(found(&both, 30_359_552), pool(46_796_800 - (4 << 20)));
        // nearly empty: what the server says of it is more than what lies outside of the chunk for certain
        let idle = [others.clone(), Mapping { pss: 9_109_504, ..merged.clone() }];
        assert_eq!(found(&idle, 2_605_056), pool(2_605_056 + 8192 * 776));
        assert_eq!(found(&[others, merged.clone(), merged], 0), None, "which one is it?");
    }

    #[test]
    fn what_lies_beside_it_must_be_whole_chunks() {
        assert_eq!(found(&[mapping(0x7f03_aa5e_f000, 0x7f03_b300_0000, 1 << 20)], 0), None);
        assert_eq!(found(&[mapping(0x7f03_aa5f_1000, 0x7f03_b300_1000, 1 << 20)], 0), None, "it lies at no chunk");
        assert_eq!(
            found(&[mapping(0x7f03_aa9f_0000, 0x7f03_b300_0000, 1 << 20)], 0).map(|it| it.mapped),
            Some(140_574_720)
        );
    }
}
