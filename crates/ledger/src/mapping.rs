// SPDX-License-Identifier: Apache-2.0
//! Parsers of /proc/PID/smaps, maps, smaps_rollup and status. Any text is accepted: lines that are neither a mapping nor a size are skipped.

use crate::Mapping;
use std::collections::BTreeMap;
use units::MapsLine;

/// Reads /proc/PID/smaps. Also /proc/PID/maps, whose mappings have no figures: all sizes are 0.
pub fn mappings(text: &str) -> Vec<Mapping> {
    let mut found: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        if let Some(mapping) = first_line(line) {
            found.push(mapping);
        } else if let Some(mapping) = found.last_mut() {
            field(mapping, line);
        }
    }
    found
}

/// Reads lines such as `Pss_Anon:  43566 kB` of /proc/PID/smaps_rollup or status: bytes by name. In status, lines without `kB` that hold one
/// number are counts (`Threads`) and are kept as they are.
pub fn sizes(text: &str) -> BTreeMap<String, u64> {
    text.lines().filter_map(size).map(|(name, value)| (name.to_owned(), value)).collect()
}

fn first_line(line: &str) -> Option<Mapping> {
    let line = MapsLine::parse(line)?;
    Some(Mapping {
        start: line.start,
        end: line.end,
        permissions: line.permissions.to_owned(),
        offset: line.offset,
        inode: line.inode,
        device: line.device.to_owned(),
        path: line.name.to_owned(),
        ..Mapping::default()
    })
}

fn field(mapping: &mut Mapping, line: &str) {
    if let Some(flags) = line.strip_prefix("VmFlags:") {
        flags.trim().clone_into(&mut mapping.flags);
        return;
    }
    let Some((name, bytes)) = size(line) else { return };
    match name {
        "Rss" => mapping.rss = bytes,
        "Pss" => mapping.pss = bytes,
        "Anonymous" => mapping.anonymous = bytes,
        "Swap" => mapping.swap = bytes,
        "Private_Hugetlb" => mapping.private_hugetlb = bytes,
        "Shared_Hugetlb" => mapping.shared_hugetlb = bytes,
        "KernelPageSize" => mapping.kernel_page_bytes = bytes,
        "AnonHugePages" => mapping.anon_huge_pages = bytes,
        _ => {}
    }
}

/// The name has to begin the line, so that `Pss` is neither `Pss_Dirty` nor `SwapPss`.
fn size(line: &str) -> Option<(&str, u64)> {
    let (name, value) = line.split_once(':')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_()".contains(c));
    let value = value.trim();
    let bytes = match value.strip_suffix("kB") {
        Some(number) => number.trim_end().parse::<u64>().ok()?.checked_mul(1024)?,
        None => value.parse().ok()?,
    };
    is_name.then_some((name, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMAPS: &str = "\
55d0c0000000-55d0c0021000 rw-p 00000000 00:00 0                          [heap]
Size:                132 kB
KernelPageSize:        4 kB
Rss:                  12 kB
Pss:                   8 kB
Pss_Dirty:             7 kB
Anonymous:            12 kB
SwapPss:               3 kB
Swap:                  5 kB
VmFlags: rd wr mr mw me ac
7f00aa000000-7f00aa200000 rw-s 00001000 00:0f 77                         /anon_hugepage (deleted)
Pss:                   0 kB
Shared_Hugetlb:     2048 kB
";

    #[test]
    fn names_are_matched_whole() {
        let found = mappings(SMAPS);
        assert_eq!(found.len(), 2);
        let (heap, huge) = (&found[0], &found[1]);
        assert_eq!((heap.rss, heap.pss, heap.anonymous, heap.swap), (12 << 10, 8 << 10, 12 << 10, 5 << 10));
        assert_eq!((heap.path.as_str(), heap.flags.as_str()), ("[heap]", "rd wr mr mw me ac"));
        assert_eq!((huge.path.as_str(), huge.inode, huge.offset), ("/anon_hugepage (deleted)", 77, 4096));
        assert_eq!(huge.shared_hugetlb, 2 << 20);
    }

    #[test]
    fn a_rollup_is_no_mapping_and_its_sizes_are_found() {
        let text =
            "55d0-7ffe ---p 00000000 00:00 0   [rollup]\nPss:  10 kB\nPss_Anon:  6 kB\nThreads:\t7\nName:\tpostgres\n";
        let found = sizes(text);
        assert_eq!((found["Pss"], found["Pss_Anon"], found["Threads"]), (10 << 10, 6 << 10, 7));
        assert_eq!(found.len(), 3);
    }

    proptest! {
        #[test]
        fn any_text_is_taken(text in "(?s).{0,400}") {
            mappings(&text);
            sizes(&text);
        }

        #[test]
        fn damaged_smaps_are_taken(cut in 0..SMAPS.len(), with in "[ -~\n]{0,6}") {
            let text = format!("{}{with}{}", &SMAPS[..cut], &SMAPS[cut..]);
            prop_assert!(mappings(&text).len() <= 8);
        }
    }
}
