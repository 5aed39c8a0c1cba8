// SPDX-License-Identifier: Apache-2.0
use serde::{Deserialize, Serialize};

/// The meaning of a leaf's growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Memory that the server works with: sessions, locks that are held, contexts of backends. It has no size at which it stops.
    Used,
    /// Memory that fills up to a size, and stops: the buffer pool, other caches, tables whose size follows from a variable, program text.
    Cache,
    /// Free in the allocator, and still resident.
    Retained,
}

/// Beginnings of the paths of [`Kind::Cache`]. The longest beginning of both lists decides.
const CACHES: &[&str] = &[
    "backends/catalogue_cache",
    "data_cache/",
    "files/",
    "huge_pages/",
    "instrumentation/",
    "kernel/",
    "locks/index",
    "log/",
    "metadata/",
    "program/",
    "shared_memory/",
];
/// Beginnings of the paths of [`Kind::Used`] below those of caches.
const USED: &[&str] = &["shared_memory/dynamic"];

/// The kind of a leaf, by its path.
pub fn kind(path: &str) -> Kind {
    if path.starts_with("allocator/") {
        return Kind::Retained;
    }
    let longest = |beginnings: &[&str]| {
        let fitting = beginnings.iter().filter(|beginning| path.starts_with(**beginning));
        fitting.map(|beginning| beginning.len()).max().unwrap_or(0)
    };
    if longest(CACHES) > longest(USED) { Kind::Cache } else { Kind::Used }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_that_fill_a_size_are_told_from_those_that_have_none() {
        for (path, is) in [
            ("data_cache/buffer_pool", Kind::Cache),
            ("shared_memory/Buffer Blocks", Kind::Cache),
            ("shared_memory/dynamic", Kind::Used),
            ("sessions/prepared", Kind::Used),
            ("locks/index", Kind::Cache),
            ("locks/held", Kind::Used),
            ("backends/catalogue_cache", Kind::Cache),
            ("backends/top", Kind::Used),
            ("stacks", Kind::Used),
            ("allocator/retained", Kind::Retained),
            ("a leaf of a later build", Kind::Used),
        ] {
            assert_eq!(kind(path), is, "{path}");
        }
    }

    #[test]
    fn each_beginning_belongs_to_a_leaf_of_the_table() {
        for beginning in CACHES.iter().chain(USED) {
            assert!(crate::rows().iter().any(|row| row.path.starts_with(beginning)), "{beginning}");
        }
    }
}
