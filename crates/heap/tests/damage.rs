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
    holdings.iter().for_each(|it| drop(it.subsystems()));
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

/// Massif ends each line: what is left of a line may be half of a name, or of a number.
#[test]
fn a_file_that_ends_within_a_line_is_damaged() {
    let whole = format!("{HEADER}{}{}", snapshot(0, 0, ""), snapshot(1, 900, TREE));
    for cut in 1..whole.lines().last().unwrap().len() {
        let text = &whole.as_bytes()[..whole.len() - cut];
        let outline = Outline::read(text).unwrap();
        let damage = outline.damage.unwrap();
        assert!(damage.is_end && damage.what == "the file ends within a line", "{cut}: {damage}");
        assert_eq!((outline.snapshots.len(), trees(text, &[1]).unwrap().len()), (1, 0), "{cut}: its tree is not whole");
    }
    let rule = format!("{whole}#----");
    assert!(Outline::read(rule.as_bytes()).unwrap().damage.is_some(), "a snapshot must follow");
    assert_eq!(Outline::read(format!("{whole}  ").as_bytes()).unwrap().damage, None, "blanks are nothing");
    let printed = |text: &str| {
        let mut written = Vec::new();
        let ended =
            ms_print::print(text.as_bytes(), || Ok(text.as_bytes()), &ms_print::Options::default(), &mut written);
        (ended.is_ok(), written)
    };
    assert_eq!(printed(whole.trim_end()), printed(&whole), "as ms_print, which needs no end of a line");
}

fn held(trees_of: &str) -> Holdings {
    let text = format!("{HEADER}{}", snapshot(0, 900, trees_of));
    Holdings::of(&trees(text.as_bytes(), &[0]).unwrap()[0])
}

fn parts(of: &[heap::PartHeld]) -> Vec<(Option<&'static str>, u64)> {
    of.iter().map(|it| (it.subsystem, it.bytes)).collect()
}

#[test]
fn the_bytes_of_a_function_are_of_its_callers_parts() {
    let of = |replication: u64, innodb: u64, rest: u64| {
        let all = replication + innodb + rest;
        held(&format!(
            "n1: {all} (heap allocation functions) malloc\n n3: {all} 0x1: copy_text (a.c:1)\n  \
             n0: {replication} 0x2: Log_event::read(char const*) (b.c:1)\n  n1: {innodb} 0x3: helper (c.c:1)\n   \
             n0: {innodb} 0x4: buf_pool_init (c.c:2)\n  n0: {rest} in 3 places, all below massif's threshold (1.00%)\n"
        ))
    };
    let even = of(500, 300, 100);
    let expected = [(Some("replication"), 500), (Some("InnoDB"), 300), (None, 100)];
    assert_eq!(parts(&even.subsystems()), expected);
    assert_eq!(parts(&even.functions[0].parts), expected);
    assert_eq!(even.functions[0].subsystem, Some("several parts"));
    let nearly_all = of(850, 30, 20);
    assert_eq!(nearly_all.functions[0].subsystem, Some("replication"));
    assert_eq!(parts(&nearly_all.subsystems())[1], (Some("InnoDB"), 30));
    assert_eq!(of(0, 5, 95).functions[0].subsystem, None);
}

/// As Valgrind 3.19 writes it with `--pages-as-heap=yes`: a buffer pool, a large block, a thread's stack and a malloc's arena.
#[test]
fn mappings_are_charged_to_who_asked_for_them() {
    let held = held(
        "n3: 900 (page allocation syscalls) mmap/mremap/brk, --alloc-fns, etc.
 n1: 500 0x1: __mmap64 (mmap64.c:58)
  n3: 500 0x1: mmap (mmap64.c:46)
   n1: 200 0x2: my_large_malloc (my_largepage.c:373)
    n0: 200 0x3: buf_pool_t::create() (buf0buf.cc:1250)
   n1: 200 0x4: sysmalloc_mmap.constprop.0 (malloc.c:2435)
    n1: 200 0x5: sysmalloc (malloc.c:2588)
     n1: 200 0x6: _int_malloc (malloc.c:4403)
      n1: 200 0x7: malloc (malloc.c:3315)
       n0: 200 0x8: Log_event_leak (pg.c:6)
   n1: 100 0x9: allocate_stack (allocatestack.c:366)
    n0: 100 0x9: pthread_create@@GLIBC_2.34 (pthread_create.c:650)
 n1: 300 0xA: brk (brk.c:37)
  n1: 300 0xB: sbrk (sbrk.c:74)
   n1: 300 0xC: __glibc_morecore (morecore.c:29)
    n1: 300 0xD: sysmalloc (malloc.c:2721)
     n0: 300 0x8: Small_rows (pg.c:7)
 n1: 100 0xE: alloc_new_heap (arena.c:518)
  n0: 100 0xF: my_thread_init (my_thr_init.c:292)
",
    );
    let told: Vec<_> = held.functions.iter().map(|it| (it.function.as_str(), it.bytes, it.subsystem)).collect();
    let expected = [
        ("Small_rows", 300, None),
        ("Log_event_leak", 200, Some("replication")),
        ("buf_pool_t::create()", 200, Some("InnoDB")),
        ("alloc_new_heap", 100, Some("malloc's arenas")),
        ("allocate_stack", 100, Some("stacks of threads")),
    ];
    assert_eq!(told, expected);
}

/// A function that the profile names at one of two times only may have held as much at the other.
#[test]
fn a_function_below_the_threshold_at_one_time_is_not_ranked() {
    let of = |functions: &[(&str, u64)], hidden: u64| {
        let all = functions.iter().map(|(_, bytes)| bytes).sum::<u64>() + hidden;
        let mut tree = format!("n{}: {all} (heap allocation functions) malloc\n", functions.len() + 1);
        for (name, bytes) in functions {
            tree += &format!(" n0: {bytes} 0x1: {name} (a.c:1)\n");
        }
        held(&format!("{tree} n0: {hidden} in 3 places, all below massif's threshold (1.00%)\n"))
    };
    let told = growth(&of(&[("f", 700), ("was", 11)], 50), &of(&[("f", 720), ("is", 12), ("leak", 100)], 60));
    let told: Vec<_> =
        told.iter().map(|it| (it.function.as_str(), it.growth_bytes, it.before_bytes, it.after_bytes)).collect();
    let expected = [
        ("leak", Some(100), None, Some(100)),
        ("f", Some(20), Some(700), Some(720)),
        ("is", None, None, Some(12)),
        ("was", None, Some(11), None),
    ];
    assert_eq!(told, expected, "a leak grew even if it had all that was hidden");
}

/// Two functions of one part, each with as many bytes as 64 bits can tell.
#[test]
fn sums_that_are_too_large_are_the_largest() {
    let most = u64::MAX;
    let held = held(&format!(
        "n2: {most} (heap allocation functions) malloc\n n0: {most} 0x1: buf_pool_a (a.c:1)\n n0: {most} 0x2: buf_pool_b (a.c:1)\n"
    ));
    assert_eq!(parts(&held.subsystems()), [(Some("InnoDB"), most)]);
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
    assert_eq!(part(["initialize_shell_variables", "main"]).1, None, "a shell has no InnoDB");
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
