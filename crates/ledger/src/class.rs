// SPDX-License-Identifier: Apache-2.0
//! The purpose of each mapping, by its name, flags, neighbours and size. Each mapping has exactly one class. The rules come from measurements on
//! Linux 6.18 (patterns of smaps). Flags may change between kernels: a mapping that fits no rule is [`Class::Anonymous`].

use crate::aria_cache;
use crate::figures::Figures;
use crate::key_cache;
use crate::{Mapping, ProcessSeen};
use capability::Flavour;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

const MIB: u64 = 1 << 20;
/// A heap of a secondary arena of glibc begins and ends at multiples of this (`HEAP_MAX_SIZE` on 64-bit hosts).
const ARENA: u64 = 64 * MIB;
/// Guards of thread stacks are one page; some libraries ask for more.
const LARGEST_GUARD: u64 = 64 << 10;
/// The zeroed data after the file of a program is smaller than this; a larger mapping is other memory that is next to it by chance.
const LARGEST_BSS: u64 = 16 * MIB;
/// The address space that MariaDB reserves after its pool is at least this large.
const RESERVATION: u64 = 1 << 40;
/// malloc's head and the server's own, and the end of the last page, of two buffers that lie side by side.
const HEAD_AND_ROUNDING: u64 = 16 << 10;
/// The System V segment of PostgreSQL that only marks its data directory as used is one page.
const LARGEST_STUB: u64 = 64 << 10;

/// The purpose of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Code and constants of programs and libraries.
    ProgramText,
    /// Private pages of their files, and the zeroed data that follows.
    ProgramData,
    /// Other files that are mapped shared.
    MappedFile,
    /// vdso, vvar: the kernel's.
    Special,
    /// Rings of asynchronous I/O.
    IoRings,
    Stack,
    /// malloc's: `[heap]`, and arenas of glibc.
    Heap,
    BufferPool,
    LogBuffer,
    KeyCache,
    AriaCache,
    /// Both of the two before, where the kernel has merged their mappings.
    KeyAndAriaCache,
    /// PostgreSQL's one segment.
    MainShared,
    DynamicShared,
    /// Outside of Rss and Pss.
    HugePages,
    /// Reserved addresses, without memory.
    Reserved,
    /// Memory without a name that no rule fits.
    Anonymous,
    /// Anonymous memory of a process whose mappings were not read.
    Unseen,
}

impl Class {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::ProgramText => "program_text",
            Self::ProgramData => "program_data",
            Self::MappedFile => "mapped_file",
            Self::Special => "special",
            Self::IoRings => "io_rings",
            Self::Stack => "stack",
            Self::Heap => "heap",
            Self::BufferPool => "buffer_pool",
            Self::LogBuffer => "log_buffer",
            Self::KeyCache => "key_cache",
            Self::AriaCache => "aria_cache",
            Self::KeyAndAriaCache => "key_and_aria_cache",
            Self::MainShared => "main_shared",
            Self::DynamicShared => "dynamic_shared",
            Self::HugePages => "huge_pages",
            Self::Reserved => "reserved",
            Self::Anonymous => "anonymous",
            Self::Unseen => "unseen",
        }
    }

    /// Whether malloc's blocks may lie in it, so that the server's own meters split it.
    pub(crate) fn is_private(self) -> bool {
        matches!(self, Self::Heap | Self::Anonymous | Self::Unseen | Self::Reserved)
    }
}

/// The class of each mapping, in their order.
pub fn classes(process: &ProcessSeen, inventory: &crate::Inventory) -> Vec<Class> {
    of_process(process, &Figures::of(inventory))
}

pub(crate) fn of_process(process: &ProcessSeen, figures: &Figures<'_>) -> Vec<Class> {
    let mappings = process.mappings.as_deref().unwrap_or_default();
    let around = Around { mappings, process, figures };
    let mut classes: Vec<Class> = Vec::with_capacity(mappings.len());
    for index in 0..mappings.len() {
        let class = around.class(index, classes.last().copied());
        classes.push(class);
    }
    by_size(mappings, &mut classes, figures);
    classes
}

pub(crate) fn length(mapping: &Mapping) -> u64 {
    mapping.end.saturating_sub(mapping.start)
}

pub(crate) fn has_flag(mapping: &Mapping, flag: &str) -> bool {
    mapping.flags.split_whitespace().any(|it| it == flag)
}

pub(crate) fn is_hugetlb(mapping: &Mapping) -> bool {
    let is_named = mapping.path.starts_with("/anon_hugepage");
    is_named || has_flag(mapping, "ht") || mapping.private_hugetlb > 0 || mapping.shared_hugetlb > 0
}

struct Around<'a> {
    mappings: &'a [Mapping],
    process: &'a ProcessSeen,
    figures: &'a Figures<'a>,
}

impl Around<'_> {
    fn class(&self, index: usize, before: Option<Class>) -> Class {
        let mapping = &self.mappings[index];
        if is_hugetlb(mapping) {
            return Class::HugePages;
        }
        self.by_name(mapping).unwrap_or_else(|| self.nameless(index, before))
    }

    fn by_name(&self, mapping: &Mapping) -> Option<Class> {
        let path = mapping.path.as_str();
        match path {
            "" => None,
            "[heap]" => Some(Class::Heap),
            _ if path.starts_with("[stack") || path.contains("pthread stack") => Some(Class::Stack),
            _ if path.contains("glibc: malloc") => Some(Class::Heap),
            _ if path.starts_with("[anon") => None,
            _ if path.starts_with('[') => Some(Class::Special),
            _ if path.starts_with("/[aio]") || path.starts_with("anon_inode:") => Some(Class::IoRings),
            _ => Some(self.of_file(mapping)),
        }
    }

    fn of_file(&self, mapping: &Mapping) -> Class {
        let is_shared = mapping.permissions.ends_with('s');
        let path = mapping.path.as_str();
        let is_segment = path.starts_with("/SYSV");
        let is_postgresql = self.figures.flavour.is_none_or(|it| it == Flavour::Postgresql);
        let is_main = path.starts_with("/dev/zero") || is_segment && length(mapping) > LARGEST_STUB;
        match path {
            _ if is_shared && is_main && is_postgresql => Class::MainShared,
            _ if path.starts_with("/dev/zero") && !is_shared => Class::Anonymous,
            _ if is_segment || ["/dev/shm/", "/memfd:", "/dev/zero"].iter().any(|it| path.starts_with(it)) => {
                Class::DynamicShared
            }
            _ if is_shared => Class::MappedFile,
            // mostly private copies: relocations, initialised data
            _ if mapping.anonymous > 0 && mapping.anonymous >= mapping.rss / 2 => Class::ProgramData,
            _ => Class::ProgramText,
        }
    }

    fn nameless(&self, index: usize, before: Option<Class>) -> Class {
        let mapping = &self.mappings[index];
        if mapping.permissions.starts_with("---") {
            return Class::Reserved;
        }
        if mapping.permissions.ends_with('s') {
            return Class::DynamicShared;
        }
        if self.is_pool(index) {
            return Class::BufferPool;
        }
        if self.is_arena(index) {
            return Class::Heap;
        }
        if self.is_stack(index) {
            return Class::Stack;
        }
        if self.is_bss(index, before) { Class::ProgramData } else { Class::Anonymous }
    }

    fn previous(&self, index: usize) -> Option<&Mapping> {
        let previous = self.mappings.get(index.checked_sub(1)?)?;
        (previous.end == self.mappings[index].start).then_some(previous)
    }

    fn next(&self, index: usize) -> Option<&Mapping> {
        next(self.mappings, index)
    }

    fn is_pool(&self, index: usize) -> bool {
        has_flag(&self.mappings[index], "dd") && is_before_reservation(self.mappings, index)
    }

    fn is_arena(&self, index: usize) -> bool {
        let mapping = &self.mappings[index];
        if let Some(heap) = &self.process.heap {
            return heap.walked.contains(&mapping.start);
        }
        let is_other = self.process.allocator.as_deref().is_some_and(|name| !name.starts_with("glibc"));
        let end = match self.next(index) {
            Some(tail) if tail.permissions.starts_with("---") && tail.path.is_empty() => tail.end,
            _ => mapping.end,
        };
        let is_whole = end.is_multiple_of(ARENA) && end.saturating_sub(mapping.start) == ARENA;
        !is_other && mapping.permissions == "rw-p" && mapping.start.is_multiple_of(ARENA) && is_whole
    }

    fn is_stack(&self, index: usize) -> bool {
        let mapping = &self.mappings[index];
        let is_guard = |it: &Mapping| it.permissions.starts_with("---") && it.path.is_empty();
        let has_guard = self.previous(index).is_some_and(|it| is_guard(it) && length(it) <= LARGEST_GUARD);
        let has_guards_inside = has_flag(mapping, "gu") && has_flag(mapping, "nh");
        has_flag(mapping, "gd") || has_guards_inside || has_guard && !has_flag(mapping, "dd")
    }

    fn is_bss(&self, index: usize, before: Option<Class>) -> bool {
        let mapping = &self.mappings[index];
        // some linkers end the data with a page that is protected once it is written (relro); its copy is private, too
        let is_data =
            |it: &Mapping| it.inode != 0 && (it.permissions.starts_with("rw") || before == Some(Class::ProgramData));
        let is_after_data = self.previous(index).is_some_and(is_data);
        let is_after = is_after_data && matches!(before, Some(Class::ProgramData | Class::ProgramText));
        is_after && mapping.permissions.starts_with("rw") && length(mapping) <= LARGEST_BSS
    }
}

/// InnoDB's pool in MariaDB from 10.11.19 and 11.8.9 on: kept out of core files, and before the address space into which it may grow. The kernel may have merged it
/// with the log buffers below it, which are kept out of core files, too.
pub fn is_pool_that_may_grow(mappings: &[Mapping], index: usize) -> bool {
    let is_nameless = |it: &Mapping| it.permissions == "rw-p" && it.path.is_empty() && may_be_left_out_of_dumps(it);
    mappings.get(index).is_some_and(is_nameless) && is_before_reservation(mappings, index)
}

fn is_before_reservation(mappings: &[Mapping], index: usize) -> bool {
    let is_reservation = |it: &Mapping| it.permissions.starts_with("---") && length(it) >= RESERVATION;
    next(mappings, index).is_some_and(is_reservation)
}

/// The mapping that begins where this one ends.
fn next(mappings: &[Mapping], index: usize) -> Option<&Mapping> {
    let next = mappings.get(index + 1)?;
    (next.start == mappings[index].end).then_some(next)
}

/// Mappings without a name whose size is that of something the server says it allocated.
fn by_size(mappings: &[Mapping], classes: &mut [Class], figures: &Figures<'_>) {
    pool_by_size(mappings, classes, figures);
    for (mapping, class) in mappings.iter().zip(classes) {
        if *class == Class::Anonymous {
            *class = cache_of_size(length(mapping), may_be_left_out_of_dumps(mapping), None, figures).unwrap_or(*class);
        }
    }
}

/// As InnoDB asks for its buffers. /proc/PID/maps, from which large mappings are known, does not tell the flags.
fn may_be_left_out_of_dumps(mapping: &Mapping) -> bool {
    mapping.flags.is_empty() || has_flag(mapping, "dd")
}

/// Chunks of InnoDB's pool with their descriptors; the kernel merges chunks that lie side by side.
fn pool_by_size(mappings: &[Mapping], classes: &mut [Class], figures: &Figures<'_>) {
    if classes.contains(&Class::BufferPool) {
        return;
    }
    if figures.pool_counted().is_some() {
        return pool_as_counted(mappings, classes, figures);
    }
    let Some((chunk, count)) = chunks(figures) else { return };
    let is_in_huge_pages = |it: &&Mapping| is_hugetlb(it) && is_huge_chunk(length(it), it.kernel_page_bytes, figures);
    let in_huge_pages = mappings.iter().filter(is_in_huge_pages).count();
    let mut left = count.saturating_sub(in_huge_pages as u64);
    let mut candidates: Vec<usize> = (0..mappings.len())
        .filter(|index| classes[*index] == Class::Anonymous && length(&mappings[*index]) >= chunk)
        .collect();
    // MariaDB keeps its pool out of dumps, and its log buffers, too; caches of other engines and malloc's blocks are not. The pool is mapped before the log buffers, and
    // the kernel gives addresses from above
    let is_log =
        |bytes: u64| figures.size("innodb_log_buffer_size").is_some_and(|log| bytes == log || bytes == 2 * log);
    // jemalloc maps without a reserve (`nr`), InnoDB does not; jemalloc's mappings have any size
    candidates.sort_by_key(|index| {
        let mapping = &mappings[*index];
        let is_of_jemalloc = has_flag(mapping, "nr");
        (!has_flag(mapping, "dd"), is_of_jemalloc, is_log(length(mapping)), Reverse(length(mapping)), Reverse(*index))
    });
    let mut is_out_of_dumps = false;
    for index in candidates {
        if is_out_of_dumps && !may_be_left_out_of_dumps(&mappings[index]) {
            continue;
        }
        let count = length(&mappings[index]) / chunk;
        if count <= left && length(&mappings[index]) <= largest_of(count * chunk, 2 * MIB, figures) {
            classes[index] = Class::BufferPool;
            is_out_of_dumps |= has_flag(&mappings[index], "dd");
            left -= count;
        }
    }
}

/// InnoDB 5.6 says what it asks the kernel for: as much for each instance.
fn pool_as_counted(mappings: &[Mapping], classes: &mut [Class], figures: &Figures<'_>) {
    let Some((total, size)) = figures.pool_counted().zip(figures.pool_size()) else { return };
    let each = (total / instances(size, figures)).max(1);
    for (mapping, class) in mappings.iter().zip(classes) {
        let length = length(mapping);
        if *class == Class::Anonymous && length <= total && length.is_multiple_of(each) {
            *class = Class::BufferPool;
        }
    }
}

/// The size of the pieces in which the pool is allocated, and their number. Without chunks (before MySQL 5.7 and MariaDB 10.2) a piece is an instance; a pool of less than
/// 1 GiB has one instance, whatever the variable says (`BUF_POOL_SIZE_THRESHOLD`; seen in MariaDB 10.1.23).
pub(crate) fn chunks(figures: &Figures<'_>) -> Option<(u64, u64)> {
    let pool = figures.pool_size()?;
    let chunk = figures
        .size("innodb_buffer_pool_chunk_size")
        .unwrap_or(pool / instances(pool, figures))
        .clamp(MIB, pool.max(MIB));
    Some((chunk, pool.div_ceil(chunk)))
}

/// At least one.
fn instances(pool: u64, figures: &Figures<'_>) -> u64 {
    let asked = figures.size("innodb_buffer_pool_instances").filter(|_| pool >= capability::ONE_INSTANCE_BELOW);
    asked.unwrap_or(1).max(1)
}

/// The size of huge pages to which a length was rounded up, where the kernel's figure may be missing.
pub(crate) fn huge_page(kernel_page_bytes: u64) -> u64 {
    kernel_page_bytes.max(2 * MIB)
}

/// Whether a mapping in huge pages is one chunk with its descriptors, rounded up to whole pages: each has a mapping of its own there, which the kernel never merges.
pub(crate) fn is_huge_chunk(mapped: u64, page_bytes: u64, figures: &Figures<'_>) -> bool {
    let page_bytes = huge_page(page_bytes);
    if let Some(pool) = figures.pool_size().filter(|_| is_pool_aligned(figures)) {
        return mapped >= pool && mapped < pool.saturating_add(page_bytes);
    }
    chunks(figures).is_some_and(|(chunk, _)| mapped >= chunk && mapped <= largest_of(chunk, page_bytes, figures))
}

/// A MariaDB with this variable allocates the pool in one piece, with its descriptors inside, at an address that 8 MiB divides (`buf_pool_t::create`).
pub(crate) fn is_pool_aligned(figures: &Figures<'_>) -> bool {
    figures.flavour == Some(Flavour::Mariadb) && figures.size("innodb_buffer_pool_size_max").is_some()
}

/// With descriptors, of which a page has less than 1 KiB (392 bytes in MySQL 5.7, 369 in 9.7), and rounded up.
fn largest_of(pool: u64, rounding: u64, figures: &Figures<'_>) -> u64 {
    pool.saturating_add(pool / figures.page_size() * 1024).saturating_add(rounding)
}

/// By the exact size that the server asks for. MariaDB before 10.5 asks malloc, which adds its own head and rounds up to pages; in huge pages, of
/// `huge_page` bytes, the size is rounded up to whole ones. A rule for sizes near it would also match other memory: blocks of MEMORY tables, which the kernel merges, can have any size.
pub(crate) fn cache_of_size(
    length: u64,
    is_dont_dump: bool,
    huge_page: Option<u64>,
    figures: &Figures<'_>,
) -> Option<Class> {
    if figures.flavour != Some(Flavour::Mariadb) {
        return None;
    }
    let is_of =
        |wanted: u64| length >= wanted && length < wanted.saturating_add(huge_page.unwrap_or(HEAD_AND_ROUNDING));
    let log = figures.size("innodb_log_buffer_size");
    let is_one_or_two = |log: u64| [log, 2 * log].iter().any(|size| length >= *size && length <= size + MIB);
    if is_dont_dump && log.is_some_and(is_one_or_two) {
        return Some(Class::LogBuffer);
    }
    let (key, aria) = (key_cache::blocks(figures).map(|(count, block)| count * block), aria_blocks(figures));
    match (key, aria) {
        (Some(key), _) if is_of(key) => Some(Class::KeyCache),
        (_, Some(aria)) if is_of(aria) => Some(Class::AriaCache),
        (Some(key), Some(aria)) if is_of(key + aria) => Some(Class::KeyAndAriaCache),
        _ => None,
    }
}

pub(crate) fn aria_blocks(figures: &Figures<'_>) -> Option<u64> {
    aria_cache::parts(figures).map(|parts| parts.blocks)
}

#[cfg(test)]
#[path = "class_tests.rs"]
mod tests;
