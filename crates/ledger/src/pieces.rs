// SPDX-License-Identifier: Apache-2.0
//! The partition: each byte of each process's proportional set size belongs to one class.

use crate::estimate::{self, Estimates};
use crate::figures::Figures;
use crate::parts::{Parts, measured};
use crate::share::{sane, signed};
use crate::{Class, Inventory, Mapping, ProcessSeen, class, merged_pool};

/// The resident memory of one class in one process; of one mapping, where mappings were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Index of the process.
    pub(crate) process: usize,
    /// Index of the mapping.
    pub(crate) mapping: Option<usize>,
    pub(crate) class: Class,
    /// Proportional: Pss.
    pub(crate) bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Partition {
    pub(crate) pieces: Vec<Piece>,
    /// By process: the classes of its mappings.
    pub(crate) classes: Vec<Vec<Class>>,
    /// By process, in bytes.
    pub(crate) pss: Vec<u64>,
    /// By how much the kernel's own sums of Pss are above those of the mappings because the two are read at different times.
    pub(crate) rounding: i64,
    /// The differences of those sums, process by process.
    pub(crate) apart: u64,
    pub(crate) estimates: Estimates,
    /// For a pool whose mapping the kernel has merged with others: the pool's part of it, in bytes.
    pub(crate) pool_mapped: Option<u64>,
}

pub(crate) fn partition(inventory: &Inventory, figures: &Figures<'_>) -> Partition {
    let mut partition = Partition { estimates: estimate::of(&inventory.processes), ..Partition::default() };
    partition.classes = inventory.processes.iter().map(|process| class::of_process(process, figures)).collect();
    let shared = shared_class(&partition.classes);
    for (index, process) in inventory.processes.iter().enumerate() {
        match measured(process) {
            Some(mappings) => partition.add_mappings(index, process, mappings),
            None => partition.add_parts(index, parts_of(process, &partition.estimates), shared),
        }
    }
    partition.part_merged_pool(inventory, figures);
    partition
}

/// The class of the shared memory of a process whose mappings were not read: the main segment, unless the mappings of other processes show that this
/// lies in huge pages.
fn shared_class(classes: &[Vec<Class>]) -> Class {
    let has = |class: Class| classes.iter().any(|it| it.contains(&class));
    if has(Class::HugePages) && !has(Class::MainShared) { Class::DynamicShared } else { Class::MainShared }
}

fn parts_of(process: &ProcessSeen, estimates: &Estimates) -> Parts {
    Parts::of_rollup(process).unwrap_or_else(|| estimates.parts(process))
}

/// The kernel rounds the Pss of each mapping down to 1 KiB, and its own sum has the whole bytes. A difference that can come from this belongs to these mappings,
/// and is divided among them equally; any other difference is left. Returns the bytes that were divided.
fn give_back_rounded(pieces: &mut [Piece], missing: u64) -> u64 {
    let count = pieces.len() as u64;
    if missing == 0 || missing > count * ROUNDED {
        return 0;
    }
    for (piece, nth) in pieces.iter_mut().zip(0..) {
        piece.bytes += missing / count + u64::from(nth < missing % count);
    }
    missing
}

/// Pss in smaps is rounded down to a multiple of this.
const ROUNDED: u64 = 1024;

impl Partition {
    fn add_mappings(&mut self, process: usize, seen: &ProcessSeen, mappings: &[Mapping]) {
        let classes = self.classes[process].iter();
        let pieces = mappings.iter().zip(classes).enumerate().map(|(mapping, (it, class))| Piece {
            process,
            mapping: Some(mapping),
            class: *class,
            bytes: sane(it.pss),
        });
        let resident = pieces.zip(mappings).filter(|(_, it)| it.rss > 0 || it.pss > 0);
        let mut pieces: Vec<Piece> = resident.map(|(piece, _)| piece).collect();
        let sum: u64 = pieces.iter().map(|piece| piece.bytes).sum();
        let said = seen.rollup.as_ref().and_then(|rollup| rollup.get("Pss")).map_or(sum, |pss| sane(*pss));
        self.rounding += signed(said) - signed(sum) - signed(give_back_rounded(&mut pieces, said.saturating_sub(sum)));
        self.apart += said.abs_diff(sum);
        self.pss.push(said);
        self.pieces.extend(pieces.into_iter().filter(|piece| piece.bytes > 0));
    }

    /// Splits the merged pool of the server's first process; the other processes have no pool.
    fn part_merged_pool(&mut self, inventory: &Inventory, figures: &Figures<'_>) {
        let first = inventory.processes.first().and_then(measured).zip(self.classes.first());
        let Some(pool) = first.and_then(|(mappings, classes)| merged_pool::find(mappings, classes, figures)) else {
            return;
        };
        let is_it = |piece: &&mut Piece| piece.process == 0 && piece.mapping == Some(pool.mapping);
        let Some(piece) = self.pieces.iter_mut().find(is_it) else { return };
        piece.bytes -= pool.resident;
        let part = Piece { class: Class::BufferPool, bytes: pool.resident, ..*piece };
        self.pieces.push(part);
        self.pieces.retain(|piece| piece.bytes > 0);
        self.pool_mapped = Some(pool.mapped);
    }

    fn add_parts(&mut self, process: usize, parts: Parts, shared: Class) {
        let by_class = [(Class::Unseen, parts.anonymous), (Class::ProgramText, parts.file), (shared, parts.shared)];
        self.pss.push(parts.sum());
        let pieces = by_class.map(|(class, bytes)| Piece { process, mapping: None, class, bytes });
        self.pieces.extend(pieces.into_iter().filter(|piece| piece.bytes > 0));
    }

    pub(crate) fn of_class(&self, class: Class) -> u64 {
        self.pieces.iter().filter(|piece| piece.class == class).map(|piece| piece.bytes).sum()
    }

    /// The resident memory in mappings that may contain malloc's blocks.
    pub(crate) fn private_of(&self, process: usize) -> u64 {
        let pieces = self.pieces.iter().filter(|piece| piece.process == process && piece.class.is_private());
        pieces.map(|piece| piece.bytes).sum()
    }

    /// Whether something is resident in it.
    pub(crate) fn has(&self, class: Class) -> bool {
        self.pieces.iter().any(|piece| piece.class == class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_rounded_belongs_to_the_mappings_and_nothing_else_does() {
        let pieces = || -> Vec<Piece> {
            let bytes = [4096, 0, 8192];
            let piece = |bytes| Piece { process: 0, mapping: Some(0), class: Class::Heap, bytes };
            bytes.map(piece).to_vec()
        };
        let after = |missing| {
            let mut pieces = pieces();
            let given = give_back_rounded(&mut pieces, missing);
            (given, pieces.iter().map(|piece| piece.bytes).collect::<Vec<_>>())
        };
        assert_eq!(after(2000), (2000, vec![4096 + 667, 667, 8192 + 666]));
        assert_eq!(after(0), (0, vec![4096, 0, 8192]));
        assert_eq!(after(3 * 1024 + 1), (0, vec![4096, 0, 8192]), "so much cannot come from rounding three mappings");
    }
}
