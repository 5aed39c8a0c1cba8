// SPDX-License-Identifier: Apache-2.0
//! How many huge pages a server needs, and the source of that number.

use super::parts::{self, Part};
use super::readings::HugeSeen;
use crate::figures::Figures;
use capability::Flavour;
use serde::Serialize;

/// What a server needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Need {
    /// `server`: its own figure; `allocations`: the sum of what it has allocated; `mapping`: the size of the mappings of its process;
    /// `settings`: computed from its settings, which other versions may round differently.
    pub basis: &'static str,
    pub source: String,
    /// The memory for which the server asks for huge pages, before it is rounded up to pages. `None`: only the number of pages is known.
    pub bytes: Option<u64>,
    /// The server's own figure: for pages of this size, so many.
    #[serde(skip)]
    pub(super) told: Option<(u64, u64)>,
    #[serde(skip)]
    pub(super) parts: Vec<Part>,
    /// Allocations that are smaller than a huge page stay in ordinary pages.
    #[serde(skip)]
    pub(super) page_or_more: bool,
}

impl Need {
    /// `None`: it is not known for pages of this size.
    pub fn pages(&self, page_bytes: u64) -> Option<u64> {
        match self.told {
            Some((size, pages)) if size == page_bytes => Some(pages),
            _ if self.parts.is_empty() => None,
            _ => {
                let is_taken = |part: &&Part| !self.page_or_more || part.bytes >= page_bytes;
                Some(self.parts.iter().filter(is_taken).map(|part| part.pages(page_bytes)).sum())
            }
        }
    }
}

/// The size of the pages that the server asks for.
pub(super) fn page_bytes(seen: &HugeSeen) -> u64 {
    let variables = seen.inventory.server.as_ref().map(|server| &server.variables);
    let asked = variables.and_then(|it| size(it.get("huge_page_size")?)).filter(|bytes| *bytes > 0);
    asked.unwrap_or_else(|| parts::default_page(seen))
}

/// `2MB`, `1GB`, and `0`, as PostgreSQL writes sizes whose unit is kB.
fn size(text: &str) -> Option<u64> {
    let end = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = match unit.trim() {
        "" | "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// `None`: neither the server nor its process tells it.
pub(super) fn need(seen: &HugeSeen) -> Option<Need> {
    match seen.inventory.flavour {
        Some(Flavour::Postgresql) => of_postgresql(seen),
        _ => of_others(seen),
    }
}

fn of_postgresql(seen: &HugeSeen) -> Option<Need> {
    let told = figure(seen);
    let mapped = parts::seen(seen).into_iter().find(|part| part.what == "shared memory");
    let allocated = allocated(seen);
    let (basis, source) = match (told, allocated, &mapped) {
        (Some(_), ..) => ("server", "shared_memory_size_in_huge_pages"),
        (None, Some(_), _) => ("allocations", "the sum of pg_shmem_allocations"),
        (None, None, Some(_)) => ("mapping", "the size of its shared mapping in /proc/PID/maps"),
        (None, None, None) => return None,
    };
    let of_sum = allocated.map(|bytes| Part {
        what: "shared memory".into(),
        count: 1,
        bytes,
        page_bytes: None,
        in_huge_pages: false,
    });
    let parts: Vec<Part> = of_sum.or(mapped).into_iter().collect();
    let bytes = parts.first().map(|part| part.bytes);
    Some(Need { basis, source: source.into(), bytes, told, parts, page_or_more: false })
}

/// The server's own number of huge pages, and the size of these pages. The number is -1 where the server cannot have any.
fn figure(seen: &HugeSeen) -> Option<(u64, u64)> {
    let figure = Figures::of(&seen.inventory).variable("shared_memory_size_in_huge_pages")?;
    Some((page_bytes(seen), figure))
}

fn allocated(seen: &HugeSeen) -> Option<u64> {
    let allocations = &seen.inventory.server.as_ref()?.shared_allocations;
    let sum = allocations.iter().map(|it| it.allocated_size).fold(0, u64::saturating_add);
    (sum > 0).then_some(sum)
}

/// Each allocation that was seen in the process; those that were not, by the settings.
fn of_others(seen: &HugeSeen) -> Option<Need> {
    let mapped = parts::seen(seen);
    let smallest = parts::smallest(seen);
    // the next start may need more for the alignment than this one did
    let is_lasting = |part: &Part| part.is_counted(smallest) && part.what != parts::ALIGNMENT;
    let mapped: Vec<Part> = mapped.into_iter().filter(is_lasting).collect();
    let by_settings: Vec<Part> =
        parts::by_settings(seen).into_iter().filter_map(|part| unseen(part, &mapped)).collect();
    let alignment = parts::alignment(seen);
    // without a process, the pool of MySQL has descriptors that the settings do not tell
    let is_known = mapped.iter().chain(&by_settings).any(|part| part.what == "buffer pool");
    // without the settings, what lies beside the pool is not known: the log's buffers, MariaDB's caches of keys and of Aria
    let is_asked = seen.inventory.server.as_ref().is_some_and(|server| !server.variables.is_empty());
    let is_mariadb = seen.inventory.flavour == Some(Flavour::Mariadb);
    let is_told = is_asked && (is_mariadb || mapped.iter().any(|it| it.what == "buffer pool"));
    let is_all_huge = !mapped.is_empty() && mapped.iter().all(|part| part.in_huge_pages);
    (is_known && is_told || is_all_huge).then_some(())?;
    let (basis, source) = match (mapped.is_empty(), by_settings.is_empty()) {
        (true, _) => ("settings", "the server's settings".to_owned()),
        (false, true) => ("mapping", "its mappings, each rounded up by itself".to_owned()),
        (false, false) => {
            let names: Vec<&str> = by_settings.iter().map(|part| part.what.as_str()).collect();
            ("mapping", format!("its mappings, and its settings for {}, each rounded up by itself", names.join(", ")))
        }
    };
    let parts: Vec<Part> = mapped.into_iter().chain(by_settings).chain(alignment).collect();
    let taken = parts.iter().filter(|part| part.bytes >= smallest);
    let bytes = Some(taken.map(Part::all_bytes).fold(0, u64::saturating_add));
    Some(Need { basis, source, bytes, told: None, parts, page_or_more: smallest > 0 })
}

/// The allocations of a part that were not found in the process: the kernel may merge a mapping with its neighbours, and then it is not always found.
fn unseen(part: Part, mapped: &[Part]) -> Option<Part> {
    let seen: u64 = mapped.iter().filter(|it| it.what == part.what).map(|it| it.count).sum();
    (seen < part.count).then(|| Part { count: part.count - seen, ..part })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_two_log_buffers_that_was_not_told_apart_counts() {
        let part = |count| Part { what: "log buffer".into(), count, bytes: 16, page_bytes: None, in_huge_pages: false };
        assert_eq!(unseen(part(2), &[part(1)]), Some(part(1)));
        assert_eq!((unseen(part(2), &[part(1), part(1)]), unseen(part(2), &[])), (None, Some(part(2))));
    }

    #[test]
    fn sizes_as_postgresql_writes_them() {
        assert_eq!([size("0"), size("2MB"), size("1GB"), size("2048kB")], [0, 2 << 20, 1 << 30, 2 << 20].map(Some));
        assert_eq!([size(""), size("MB"), size("2 parsecs"), size("99999999999999999999GB")], [None; 4]);
    }
}
