// SPDX-License-Identifier: Apache-2.0
//! Files that broke off, were damaged, or are meant to do harm: they are read up to the damage, in bounded memory, without a panic.
#![allow(clippy::unwrap_used)]

use heap::{Error, Holdings, Label, NoSymbols, Outline, Tree, growth, ms_print};
use proptest::prelude::*;
use std::io::Read;

const HEADER: &str = "desc: --time-unit=B\ncmd: ./program\ntime_unit: B\n";

fn snapshot(number: u64, bytes: u64, tree: &str) -> String {
    let rule = "#-----------";
    let kind = if tree.is_empty() { "empty\n" } else { "detailed\n" };
    format!(
        "{rule}\nsnapshot={number}\n{rule}\ntime={}\nmem_heap_B={bytes}\nmem_heap_extra_B=8\nmem_stacks_B=0\nheap_tree={kind}{tree}",
        number * 1000
    )
}

const TREE: &str = "n2: 900 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
 n1: 800 0x4E3F: my_malloc (my_malloc.c:88)
  n1: 800 0x5A: ??? (in /usr/sbin/mariadbd)
   n0: 800 0x5A: grow(char const*, int#1) (grow.cc:7)
 n0: 100 in 3 places, below massif's threshold (1.00%)
";

fn whole() -> Vec<u8> {
    format!("{HEADER}{}{}{}", snapshot(0, 0, ""), snapshot(1, 900, TREE), snapshot(2, 1200, "")).into_bytes()
}

fn trees(bytes: &[u8], places: &[usize]) -> Result<Vec<Tree>, Error> {
    heap::trees(bytes, &Outline::read(bytes)?, places, &mut NoSymbols)
}

/// All readers; the trees of all snapshots.
fn read_all(bytes: &[u8]) -> Result<usize, Error> {
    let mut written = Vec::new();
    let _ = ms_print::print(bytes, || Ok(bytes), &ms_print::Options::default(), &mut written);
    let outline = Outline::read(bytes)?;
    let places: Vec<usize> = outline.with_trees().collect();
    let trees = trees(bytes, &places)?;
    let holdings: Vec<Holdings> = trees.iter().map(Holdings::of).collect();
    for tree in &trees {
        heap::folded::write(tree, &mut std::io::sink())?;
    }
    holdings.windows(2).for_each(|pair| drop(growth(&pair[0], &pair[1])));
    Ok(outline.snapshots.len())
}

#[test]
fn a_file_that_broke_off_is_read_up_to_there() {
    let whole = whole();
    assert_eq!(read_all(&whole).unwrap(), 3);
    let mut before = 0;
    for end in HEADER.len()..whole.len() {
        let found = read_all(&whole[..end]).unwrap();
        assert!(found >= before && found - before <= 1, "{found} snapshots of {end} bytes, {before} of fewer");
        before = found;
    }
    let last_line = "heap_tree=empty\n".len();
    let cut = Outline::read(&whole[..whole.len() - last_line]).unwrap();
    assert!(cut.damage.is_some_and(|damage| damage.is_end && damage.line > 20), "a line is missing");
}

#[test]
fn a_name_with_a_number_sign_is_whole() {
    let tree = &trees(&whole(), &[1]).unwrap()[0];
    assert!(matches!(&tree.nodes[3].label, Label::Frame(frame) if frame.function == "grow(char const*, int#1)"));
    let holdings = Holdings::of(tree);
    assert_eq!(
        (holdings.functions[0].bytes, holdings.hidden_bytes),
        (800, 100),
        "charged past the wrapper and what has no name"
    );
    assert_eq!(holdings.functions[0].function, "grow(char const*, int#1)");
}

/// What editors and transfers add: the same profile, but for `ms_print`, which prints what Valgrind's program would.
#[test]
fn other_line_ends_are_no_damage() {
    let text = String::from_utf8(whole()).unwrap();
    let expected = Outline::read(text.as_bytes()).unwrap();
    let same = trees(text.as_bytes(), &[1]).unwrap();
    for other in [
        text.replace('\n', "\r\n"),
        text.replace('\n', " \t\n"),
        format!("\u{feff}{text}"),
        format!("\u{feff}#---\n{text}").replace('\n', "\r\n"),
    ] {
        assert_eq!(Outline::read(other.as_bytes()).unwrap(), expected, "{other:?}");
        assert_eq!(trees(other.as_bytes(), &[1]).unwrap(), same, "{other:?}");
    }
    let seconds = text.replace("time_unit: B\n", "time_unit: s\r\n");
    assert_eq!(Outline::read(seconds.as_bytes()).unwrap().snapshots[1].time, 1_000_000);
    assert!(Outline::read(text.replace("cmd:", "\u{feff}cmd:").as_bytes()).is_err(), "a mark stands first");
}

#[test]
fn folded_lines_hold_no_control_characters() {
    let text = String::from_utf8(whole()).unwrap().replace("my_malloc (my", "my\x1b]0;own\x07\u{9b}2J (my");
    let mut written = Vec::new();
    heap::folded::write(&trees(text.as_bytes(), &[1]).unwrap()[0], &mut written).unwrap();
    let written = String::from_utf8(written).unwrap();
    assert!(written.contains("my\u{fffd}]0:own\u{fffd}\u{fffd}2J;malloc 800\n"), "{written}");
}

/// `hash_create` is a function of both servers.
#[test]
fn memory_of_postgresql_is_not_innodbs() {
    let tree = |callers: [&str; 2]| {
        format!(
            "n1: 900 (heap allocation functions) malloc\n n1: 900 0x1: hash_create (dynahash.c:1)\n  n1: 900 0x2: {} (a.c:1)\n   n0: 900 0x3: {} (b.c:1)\n",
            callers[0], callers[1]
        )
    };
    let part = |callers| {
        let text = format!("{HEADER}{}", snapshot(0, 900, &tree(callers)));
        let held = Holdings::of(&trees(text.as_bytes(), &[0]).unwrap()[0]);
        (held.functions[0].function.clone(), held.functions[0].subsystem)
    };
    let of_caches = part(["RelationCacheInitialize", "PostmasterMain"]);
    assert_eq!(of_caches, ("hash_create".to_owned(), Some("tables and dictionary")));
    assert_eq!(part(["btr_search_sys_create", "main"]).1, Some("InnoDB"));
}

#[test]
fn numbers_that_are_too_large_are_damage() {
    for (from, to) in
        [("mem_heap_B=900", "mem_heap_B=99999999999999999999"), ("mem_heap_B=900", "mem_heap_B=18446744073709551615")]
    {
        let text = String::from_utf8(whole()).unwrap().replace(from, to);
        let outline = Outline::read(text.as_bytes()).unwrap();
        assert_eq!((outline.snapshots.len(), outline.damage.is_some()), (1, true), "{to}");
    }
    let children = String::from_utf8(whole()).unwrap().replace("n2: 900", "n18446744073709551615: 900");
    assert!(Outline::read(children.as_bytes()).unwrap().damage.is_some());
}

#[test]
fn a_tree_of_a_hundred_thousand_callers_is_read() {
    use std::fmt::Write as _;
    let depth = 100_000;
    let mut tree = "n1: 5 (heap allocation functions) malloc\n".to_owned();
    for nth in 1..=depth {
        writeln!(tree, " n{}: 5 0x{nth:X}: f{nth} (f.c:1)", u8::from(nth < depth)).unwrap();
    }
    let text = format!("{HEADER}{}", snapshot(0, 5, &tree));
    let outline = Outline::read(text.as_bytes()).unwrap();
    assert_eq!((outline.snapshots.len(), outline.damage), (1, None));
    let holdings = Holdings::of(&trees(text.as_bytes(), &[0]).unwrap()[0]);
    assert_eq!(holdings.functions[0].function, "f1");
}

/// A small packed file may have any number of nodes.
struct Endless(usize);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        for byte in &mut *buffer {
            *byte = b"n1:1\n"[self.0 % 5];
            self.0 += 1;
        }
        Ok(buffer.len())
    }
}

#[test]
fn a_tree_without_an_end_is_damage() {
    let begin = format!("{HEADER}{}{}", snapshot(0, 7, TREE), snapshot(1, 5, "n1:1\n"));
    let outline = Outline::read(begin.as_bytes().chain(Endless(0))).unwrap();
    let damage = outline.damage.unwrap();
    assert!(damage.what.contains("more than 512 MiB of memory"), "{damage}");
    assert_eq!(outline.snapshots.len(), 1, "the one before it");
}

#[test]
fn a_line_without_an_end_is_damage() {
    let text = format!("{HEADER}{}", "x".repeat(heap::MOST_BYTES + 1));
    let damage = Outline::read(text.as_bytes()).unwrap().damage.unwrap();
    assert!(damage.what.contains("1048576 bytes"), "{damage}");
}

#[test]
fn what_is_no_profile_is_told() {
    for text in ["", "\n\n", "MZ\0\0", "desc: a\n", "desc: a\ncmd: b\ntime_unit: fortnights\n"] {
        assert!(matches!(Outline::read(text.as_bytes()), Err(Error::Damage(_))), "{text:?}");
    }
}

#[test]
fn of_what_is_no_text_nothing_is_repeated() {
    let said = |bytes: &[u8]| Outline::read(bytes).unwrap_err().to_string();
    assert!(said(b"[1]\nmore\n").contains("it begins as no heap profile does: \"[1]\""), "{}", said(b"[1]\n"));
    for bytes in [&b"MZ\x90\0\x03"[..], b"\x1b]0;own\x07\n", b"\xff\xfed\0e\0", "\u{9b}2J".as_bytes()] {
        assert!(said(bytes).ends_with("it begins as no heap profile does, and as no text does"), "{}", said(bytes));
    }
    for magic in [[4, 0x22, 0x4d, 0x18], [2, 0x21, 0x4c, 0x18]] {
        assert!(said(&magic).ends_with("it is compressed by lz4: `lz4 -d` it first"), "{}", said(&magic));
    }
}

proptest! {
    #[test]
    fn no_change_of_some_bytes_makes_it_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = whole();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = read_all(&bytes);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), behind in any::<bool>()) {
        let bytes = if behind { [HEADER.as_bytes(), &bytes].concat() } else { bytes };
        let _ = read_all(&bytes);
    }
}
