// SPDX-License-Identifier: Apache-2.0
//! Reads `smaps` so that the kernel does not walk a large mapping: it walks all pages of a mapping while it holds the address space, and releases it
//! only between two reads (fs/seq_file.c, fs/proc/task_mmu.c).

use super::reading::Reading;
use std::fs::File;
use std::io::{self, Read as _};

/// Shorter than the text of one mapping: then each read makes the kernel walk at most one more mapping.
const SHORT: usize = 512;
/// The size of the kernel's own buffer, which is one page.
const WHOLE: usize = 4096;

/// The text; [`io::ErrorKind::TimedOut`] when the budget is used up. `before`: the number of the first mapping that must not be walked; the text then
/// ends a little before it.
pub(super) fn text(file: &mut File, before: Option<usize>, reading: &mut Reading) -> io::Result<String> {
    let mut part = [0; WHOLE];
    let part = if before.is_some() { &mut part[..SHORT] } else { &mut part[..] };
    let mut text = Vec::new();
    let mut begun = 0;
    // the mapping that the last read walked may still be in the kernel's buffer, and the next read walks one more
    while before.is_none_or(|before| begun + 1 < before) {
        if !reading.admits(0) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let read = reading.hold("smaps", || file.read(part))?;
        if read == 0 {
            return Ok(into_text(text));
        }
        let seen = text.len();
        text.extend_from_slice(&part[..read]);
        begun += begun_since(&text, seen);
    }
    Ok(whole_records(&into_text(text)).to_owned())
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The number of mappings that begin at or after `seen`: their lines start with an address, in small letters.
fn begun_since(text: &[u8], seen: usize) -> usize {
    let is_begin = |at: &usize| *at == 0 || text[at - 1] == b'\n';
    (seen..text.len()).filter(is_begin).filter(|at| matches!(text[*at], b'0'..=b'9' | b'a'..=b'f')).count()
}

/// The text without an incomplete record at its end: the last line of each mapping has its flags.
fn whole_records(text: &str) -> &str {
    let (mut end, mut whole) = (0, 0);
    for line in text.split_inclusive('\n') {
        end += line.len();
        if line.starts_with("VmFlags:") && line.ends_with('\n') {
            whole = end;
        }
    }
    &text[..whole]
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::super::reading::LIMIT_US;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whole_records_are_a_beginning_of_any_text(text in "(?s).{0,300}", cut in 0..80_usize) {
            prop_assert!(text.starts_with(whole_records(&text)));
            let record = "1000-2000 rw-p 00000000 00:00 0\nRss: 4 kB\nVmFlags: rd wr\n".repeat(2);
            let whole = whole_records(&record[..cut.min(record.len())]);
            prop_assert_eq!(ledger::mapping::mappings(whole).len(), cut / (record.len() / 2));
            prop_assert!(begun_since(text.as_bytes(), 0) <= text.lines().count());
        }
    }

    #[test]
    fn only_whole_records_are_kept() {
        let whole = "1000-2000 rw-p\nRss: 4 kB\nVmFlags: rd wr\n";
        assert_eq!(whole_records(&format!("{whole}2000-3000 rw-p\nVmFlags: rd")), whole);
        assert_eq!((whole_records(whole), whole_records("1000-2000 rw-p\n")), (whole, ""));
        assert_eq!(begun_since(format!("{whole}2000").as_bytes(), 0), 2);
        assert_eq!(begun_since(format!("{whole}2000").as_bytes(), 3), 1);
    }

    #[test]
    fn reading_ends_before_the_mapping_that_is_named() {
        let mut reading = Reading::begin(Options::default());
        let open = || File::open("/proc/self/smaps").unwrap();
        let all = ledger::mapping::mappings(&text(&mut open(), None, &mut reading).unwrap());
        for before in [0, 1, 2, 7] {
            let some = ledger::mapping::mappings(&text(&mut open(), Some(before), &mut reading).unwrap());
            assert!(some.len() < before.max(1) && some.len() + 3 > before, "{before}: {}", some.len());
            assert!(some.iter().all(|mapping| !mapping.flags.is_empty()));
        }
        let beyond = ledger::mapping::mappings(&text(&mut open(), Some(9999), &mut reading).unwrap());
        // other tests map and unmap memory at the same time
        assert!(beyond.len() * 2 > all.len());
    }

    #[test]
    fn the_budget_ends_it() {
        let mut reading = Reading::begin(Options::default());
        reading.held("smaps", LIMIT_US + 1, 0);
        let mut file = File::open("/proc/self/smaps").unwrap();
        let ended = text(&mut file, None, &mut reading).map_err(|error| error.kind());
        assert_eq!(ended, Err(io::ErrorKind::TimedOut));
    }
}
