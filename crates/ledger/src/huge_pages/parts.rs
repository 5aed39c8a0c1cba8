// SPDX-License-Identifier: Apache-2.0
//! The parts of a server's memory that it asks huge pages for, and where each of them lies.

use super::readings::HugeSeen;
use crate::class::{self, Class};
use crate::figures::Figures;
use crate::key_cache;
use crate::{Mapping, Missing};
use capability::{Capability, Flavour, Version, words};
use serde::Serialize;
use units::Bytes;

const POOL: &str = "buffer pool";
pub(super) const ALIGNMENT: &str = "pool alignment";
/// `innodb_buffer_pool_extent_size`, storage/innobase of MariaDB 10.11.19.
const POOL_EXTENT: u64 = 8 << 20;
const ARIA_LOG: &str = "Aria log cache";
/// `TRANSLOG_PAGECACHE_SIZE`, storage/maria/ma_loghandler.h.
const ARIA_LOG_CACHE: u64 = 2 << 20;

/// One allocation, or several of the same size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// `shared memory`, `buffer pool`, `pool alignment`, `log buffer`, `key cache`, `Aria cache`.
    pub what: String,
    pub count: u64,
    /// The bytes of each allocation.
    pub bytes: u64,
    /// The size of its pages. `None`: by the server's settings; it was not seen in a process.
    pub page_bytes: Option<u64>,
    pub in_huge_pages: bool,
}

impl Part {
    pub(super) fn all_bytes(&self) -> u64 {
        self.bytes.saturating_mul(self.count)
    }

    /// Each allocation is rounded up by itself.
    pub(super) fn pages(&self, page_bytes: u64) -> u64 {
        self.count.saturating_mul(self.bytes.div_ceil(page_bytes.max(1)))
    }

    /// The pool counts also where its chunks are too small for huge pages: it is what huge pages are wanted for.
    pub(super) fn is_counted(&self, smallest: u64) -> bool {
        self.in_huge_pages || self.bytes >= smallest || self.what == POOL
    }

    fn by_settings(what: &str, count: u64, bytes: u64) -> Self {
        Self { what: what.to_owned(), count, bytes, page_bytes: None, in_huge_pages: false }
    }
}

/// The mappings of the first process that are in huge pages, or that the server would put there.
pub(super) fn seen(seen: &HugeSeen) -> Vec<Part> {
    let inventory = &seen.inventory;
    let Some(first) = inventory.processes.first() else { return Vec::new() };
    let figures = Figures::of(inventory);
    let classes = class::of_process(first, &figures);
    let mappings = first.mappings.iter().flatten().zip(classes);
    let around = files_of_pool(first.mappings.iter().flatten(), &figures);
    let own = mappings.flat_map(|(mapping, class)| of_mapping(mapping, class, seen, &figures, &around));
    own.fold(Vec::new(), joined)
}

/// The anonymous files of huge pages that the pool lies in, where the server maps more than the pool to align it.
fn files_of_pool<'a>(mappings: impl Iterator<Item = &'a Mapping>, figures: &Figures<'_>) -> Vec<u64> {
    let is_pool = |it: &&Mapping| {
        let is_chunk = || class::is_huge_chunk(class::length(it), it.kernel_page_bytes, figures);
        class::is_hugetlb(it) && it.inode != 0 && is_chunk()
    };
    if class::is_pool_aligned(figures) { mappings.filter(is_pool).map(|it| it.inode).collect() } else { Vec::new() }
}

/// Equal parts are combined into one with a count.
fn joined(mut parts: Vec<Part>, part: Part) -> Vec<Part> {
    let alike = |it: &&mut Part| Part { count: part.count, ..(**it).clone() } == part;
    match parts.iter_mut().find(alike) {
        Some(before) => before.count += part.count,
        None => parts.push(part),
    }
    parts
}

fn of_mapping(
    mapping: &Mapping,
    class: Class,
    seen: &HugeSeen,
    figures: &Figures<'_>,
    files_of_pool: &[u64],
) -> Vec<Part> {
    let length = class::length(mapping);
    if class == Class::HugePages {
        let part = in_huge_pages(mapping, seen, figures);
        let is_around = part.what != POOL && files_of_pool.contains(&mapping.inode);
        return vec![if is_around { Part { what: ALIGNMENT.into(), ..part } } else { part }];
    }
    let page_bytes = Some(mapping.kernel_page_bytes.max(seen.inventory.page_bytes));
    let part =
        |what: &str, count: u64, bytes| Part { what: what.to_owned(), count, bytes, page_bytes, in_huge_pages: false };
    match class {
        Class::MainShared => vec![part("shared memory", 1, length)],
        // the kernel merges neighbouring mappings, so a mapping may be larger than the known part of it
        Class::BufferPool => {
            let (count, bytes) = older_pool(seen, figures).unwrap_or_else(|| pool_in(length, figures));
            vec![part(POOL, count, bytes)]
        }
        Class::LogBuffer => {
            let size = figures.size("innodb_log_buffer_size").unwrap_or(length);
            vec![part("log buffer", (length / size).max(1), size)]
        }
        Class::KeyCache => vec![part("key cache", 1, key_bytes(figures).unwrap_or(length))],
        Class::AriaCache => vec![part("Aria cache", 1, class::aria_blocks(figures).unwrap_or(length))],
        Class::KeyAndAriaCache => {
            let key = key_bytes(figures).unwrap_or(0);
            let aria = class::aria_blocks(figures).unwrap_or(length.saturating_sub(key));
            vec![part("key cache", 1, key), part("Aria cache", 1, aria)]
        }
        _ => Vec::new(),
    }
}

fn key_bytes(figures: &Figures<'_>) -> Option<u64> {
    key_cache::blocks(figures).map(|(count, block)| count * block)
}

/// Each instance with the descriptors of its pages behind it, where the pool has no chunks yet.
fn older_pool(seen: &HugeSeen, figures: &Figures<'_>) -> Option<(u64, u64)> {
    /// The descriptor of a page: `sizeof(buf_block_t)` of XtraDB 5.6.35. MariaDB 10.1.23 asks for 70,287,360 bytes for 4,096 pages of 16 KiB.
    const DESCRIPTOR: u64 = 776;
    users(seen).contains(&"descriptors").then_some(())?;
    let (bytes, count) = class::chunks(figures)?;
    let page = figures.page_size();
    Some((count, bytes + (bytes / page * DESCRIPTOR).next_multiple_of(page)))
}

/// Newer MariaDBs have no chunks, and put the descriptors into the pool.
fn pool_in(length: u64, figures: &Figures<'_>) -> (u64, u64) {
    let is_whole = figures.flavour == Some(Flavour::Mariadb) && figures.size("innodb_buffer_pool_chunk_size").is_none();
    if let Some(size) = figures.pool_size().filter(|_| is_whole) {
        return (1, size);
    }
    let Some((chunk, count)) = class::chunks(figures) else { return (1, length) };
    let count = (length / chunk).clamp(1, count.max(1));
    // a chunk of MariaDB's has its descriptors inside, of MySQL's behind it
    (count, if figures.flavour == Some(Flavour::Mariadb) { chunk } else { length / count })
}

fn in_huge_pages(mapping: &Mapping, seen: &HugeSeen, figures: &Figures<'_>) -> Part {
    let page_bytes = page_of(mapping, seen);
    let what = match crate::huge::class_of_mapping(mapping, figures) {
        Class::MainShared => "shared memory",
        Class::BufferPool => POOL,
        Class::LogBuffer => "log buffer",
        Class::KeyCache => "key cache",
        Class::AriaCache => "Aria cache",
        _ if users(seen).contains(&"aria log") && class::length(mapping) <= page_bytes.max(ARIA_LOG_CACHE) => ARIA_LOG,
        _ => "not told apart",
    };
    let bytes = class::length(mapping);
    Part { what: what.to_owned(), count: 1, bytes, page_bytes: Some(page_bytes), in_huge_pages: true }
}

/// The page size of the mapping by `smaps`; the default size of huge pages where `smaps` was not read.
fn page_of(mapping: &Mapping, seen: &HugeSeen) -> u64 {
    if mapping.kernel_page_bytes > seen.inventory.page_bytes { mapping.kernel_page_bytes } else { default_page(seen) }
}

/// The size of huge pages that a server gets which asks for none in particular; 2 MiB where the kernel does not tell.
pub(super) fn default_page(seen: &HugeSeen) -> u64 {
    seen.inventory.host.meminfo.get("Hugepagesize").copied().filter(|size| *size > 0).unwrap_or(2 << 20)
}

/// The parts for which the server will ask for huge pages, by its settings; empty where the settings do not tell.
pub(super) fn by_settings(seen: &HugeSeen) -> Vec<Part> {
    let figures = Figures::of(&seen.inventory);
    let found = users(seen).iter().filter_map(|word| by_word(word, seen, &figures));
    let smallest = smallest(seen);
    found.filter(|part| part.is_counted(smallest)).collect()
}

/// The most that the server maps in addition to its pool, to begin the pool at a multiple of 8 MiB. The amount at one start depends on the
/// address that the kernel gives, which is random: 0 to 6 MiB in pages of 2 MiB.
pub(super) fn alignment(seen: &HugeSeen) -> Option<Part> {
    let is_aligned = class::is_pool_aligned(&Figures::of(&seen.inventory));
    let most = POOL_EXTENT.saturating_sub(default_page(seen));
    (is_aligned && most > 0).then(|| Part::by_settings(ALIGNMENT, 1, most))
}

/// Why the pool never lies in huge pages, however many the kernel has: MariaDB allocates it in chunks, and puts chunks that are smaller than a huge page
/// into ordinary pages.
pub(super) fn chunks_are_small(seen: &HugeSeen) -> Option<Missing> {
    let figures = Figures::of(&seen.inventory);
    let (chunk, _) = class::chunks(&figures)?;
    (chunk < smallest(seen)).then(|| Missing {
        what: "the buffer pool in huge pages".into(),
        why: format!("its chunks of {} are smaller than a huge page", Bytes(chunk)),
        remedy: Some(format!("innodb_buffer_pool_chunk_size={}, and a restart", smallest(seen))),
    })
}

/// What a server of this version puts into huge pages, by the table of capabilities.
fn users(seen: &HugeSeen) -> &'static [&'static str] {
    let (Some(flavour), Some(version)) = (seen.inventory.flavour, version(seen)) else { return &[] };
    words(Capability::LargePageUsers, flavour, &version)
}

pub(super) fn version(seen: &HugeSeen) -> Option<Version> {
    let inventory = &seen.inventory;
    let told = || inventory.server.as_ref()?.variables.get("version").cloned();
    Version::find_in(&inventory.version.clone().or_else(told)?)
}

/// Newer MariaDBs leave smaller allocations in ordinary pages.
pub(super) fn smallest(seen: &HugeSeen) -> u64 {
    if users(seen).contains(&"page or more") { default_page(seen) } else { 0 }
}

fn by_word(word: &str, seen: &HugeSeen, figures: &Figures<'_>) -> Option<Part> {
    match word {
        "pool" => {
            let (count, bytes) = older_pool(seen, figures).or_else(|| {
                let (chunk, count) = class::chunks(figures)?;
                Some((count, chunk))
            })?;
            Some(Part::by_settings(POOL, count, bytes))
        }
        "aria log" => Some(Part::by_settings(ARIA_LOG, 1, ARIA_LOG_CACHE)),
        "log" => Some(Part::by_settings("log buffer", 2, figures.size("innodb_log_buffer_size")?)),
        "keys" => Some(Part::by_settings("key cache", 1, key_bytes(figures)?)),
        "aria" => Some(Part::by_settings("Aria cache", 1, class::aria_blocks(figures)?)),
        _ => None,
    }
}
