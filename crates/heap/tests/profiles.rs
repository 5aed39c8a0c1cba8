// SPDX-License-Identifier: Apache-2.0
//! Files of each profiler, as they are, compressed, cut off, damaged, and meant to do harm: they are read up to the damage, in bounded memory, without a panic.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use flate2::Compression;
use flate2::write::GzEncoder;
use heap::{Damage, Error, Format, Frame, Growth, Holdings, Kind, Mapping, NoSymbols, Outline, Symbols, TimeUnit};
use proptest::prelude::*;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/heap").join(name)).unwrap()
}

/// The text before compression.
fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    heap::plain(bytes).unwrap().read_to_end(&mut all).unwrap();
    all
}

const ALL: [&str; 6] = [
    "dhat.out",
    "heaptrack.growing.zst",
    "gperftools.1.heap",
    "gperftools.2.heap",
    "jemalloc.2.heap",
    "jemalloc.sampled.heap",
];

const PACKED: [&str; 2] = ["gperftools.2.heap.xz", "gperftools.2.heap.bz2"];

/// Asks for everything that a file can tell.
fn read_all(bytes: &[u8]) -> Result<(Outline, Vec<Holdings>), Error> {
    let outline = Outline::read(heap::plain(bytes)?)?;
    let places: Vec<usize> = outline.with_trees().collect();
    let mut holdings = Vec::new();
    heap::each_tree(heap::plain(bytes)?, &outline, &places, &mut NoSymbols, &mut |_, tree| {
        heap::folded::write(&tree, &mut std::io::sink()).unwrap();
        heap::flame::flames(&tree, 0);
        holdings.push(Holdings::of(&tree));
        holdings.iter().for_each(|it| drop(it.subsystems()));
    })?;
    holdings.windows(2).for_each(|pair| drop(heap::growth(&pair[0], &pair[1])));
    Ok((outline, holdings))
}

#[test]
fn dhat_tells_the_peak_and_the_end() {
    let bytes = fixture("dhat.out");
    let (outline, holdings) = read_all(&bytes).unwrap();
    assert_eq!((outline.format, outline.damage.as_ref()), (Format::Dhat, None));
    assert_eq!(outline.command.as_deref(), Some(b"./growing".as_slice()));
    assert_eq!(outline.time_unit, Some(TimeUnit::Instructions));
    let kinds: Vec<Kind> = outline.snapshots.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [Kind::Detailed, Kind::Peak, Kind::Detailed]);
    assert!(outline.snapshots[1].time > 100_000 && outline.snapshots[2].time > outline.snapshots[1].time);
    let held = |nth: usize, name: &str| {
        holdings[nth].functions.iter().find(|it| it.function.starts_with(name)).map_or(0, |it| it.bytes)
    };
    assert_eq!([held(0, "hold3"), held(1, "hold3"), held(2, "hold3")], [0, 65_536, 65_536]);
    assert_eq!(held(2, "Log_event::read_log_event"), 40_960);
    let log_event = holdings[2].functions.iter().find(|it| it.function.starts_with("Log_event")).unwrap();
    assert_eq!((log_event.subsystem, log_event.path.len()), (Some("replication"), 2), "{log_event:?}");
    assert_eq!(holdings[2].hidden_bytes, 0);
}

#[test]
fn heaptrack_tells_all_times() {
    let bytes = fixture("heaptrack.growing.zst");
    let (outline, holdings) = read_all(&bytes).unwrap();
    assert_eq!((outline.format, outline.damage.as_ref()), (Format::Heaptrack, None));
    assert_eq!(outline.time_unit, Some(TimeUnit::Milliseconds));
    assert_eq!(outline.snapshots.len(), holdings.len());
    assert!(outline.snapshots.len() > 15, "one each 10 ms of some 250: {}", outline.snapshots.len());
    assert!(outline.snapshots.is_sorted_by_key(|it| it.time));
    assert_eq!(outline.snapshots.iter().filter(|it| it.kind == Kind::Peak).count(), 1);
    for (snapshot, held) in outline.snapshots.iter().zip(&holdings) {
        let sum: u64 = held.functions.iter().map(|it| it.bytes).sum();
        assert_eq!((snapshot.heap_bytes, held.hidden_bytes), (sum, 0), "snapshot {}", snapshot.number);
    }
    // a program that was launched held nothing at its start
    let first = &outline.snapshots[0];
    assert_eq!((first.time, first.heap_bytes, holdings[0].functions.len()), (0, 0, 0));
    let of = |grown: &[Growth], name: &str| {
        grown.iter().find(|it| it.function.starts_with(name)).and_then(|it| it.growth_bytes).unwrap_or(0)
    };
    let all = heap::growth(&holdings[0], holdings.last().unwrap());
    assert_eq!((of(&all, "hold7"), of(&all, "Log_event::read_log_event")), (65_536, 40_960));
    let later = heap::growth(&holdings[1], holdings.last().unwrap());
    assert_eq!(later[0].function, "Log_event::read_log_event(char const*)");
    assert!(later[1..].iter().all(|it| it.growth_bytes <= Some(100)), "{later:#?}");
}

/// Growth counts what was allocated before the first note of the time, unless heaptrack came later.
#[test]
fn only_a_launched_program_of_heaptrack_begins_with_nothing() {
    let text = "v 10400 3\nX ./a\ns 1 f\ni 10 0 1 0 0\nt 1 0\na 100000 1\na 10 1\n+ 0\nc 1\n+ 1\nc 2\n";
    let held = |text: &str| {
        let (outline, holdings) = read_all(text.as_bytes()).unwrap();
        let sizes: Vec<u64> = outline.snapshots.iter().map(|it| it.heap_bytes).collect();
        assert_eq!(sizes, holdings.iter().map(|it| it.total_bytes).collect::<Vec<_>>());
        sizes
    };
    // two notes of the time, and the end
    assert_eq!(held(text), [0, 0x10_0000, 0x10_0010, 0x10_0010]);
    assert_eq!(held(&text.replace("a 10 1\n", "a 10 1\nA\n")), [0x10_0000, 0x10_0010, 0x10_0010]);
    assert_eq!(held(&format!("\n\n{text}")).len(), 4, "blank lines ahead of the version");
}

#[test]
fn heaptrack_tells_any_time() {
    let text = unpacked(&fixture("heaptrack.growing.zst"));
    let outline = Outline::read(&*text).unwrap();
    let all = heap::trees(&*text, &outline, &outline.with_trees().collect::<Vec<_>>(), &mut NoSymbols).unwrap();
    // the file's own moments are the last ones before a note of the time; a millisecond later is behind that note
    let detailed: Vec<_> = all.iter().filter(|it| it.snapshot.kind == Kind::Detailed).collect();
    let (early, last) = (detailed[5], detailed[detailed.len() - 1]);
    let found = heap::at_times(&*text, &[0, early.snapshot.time + 1, 1 << 40]).unwrap();
    assert_eq!(found.iter().map(|it| it.snapshot.number).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(found[1].snapshot.heap_bytes >= early.snapshot.heap_bytes, "{:?}", found[1].snapshot);
    assert!(found[1].snapshot.heap_bytes <= detailed[6].snapshot.heap_bytes, "{:?}", found[1].snapshot);
    assert_eq!((&found[2].nodes, found[2].snapshot.time), (&last.nodes, 1 << 40));
    assert!(heap::at_times(&b"desc: x\n"[..], &[0]).is_err());
}

#[test]
fn its_export_without_names_is_refused_in_words() {
    let error = read_all(&fixture("heaptrack.massif")).unwrap_err().to_string();
    assert!(error.contains("heaptrack_print 1.4"), "{error}");
    // as later versions write it
    let text = "desc: heaptrack\ncmd: ./a\ntime_unit: s\n#-\nsnapshot=0\n#-\ntime=0.063\nmem_heap_B=8\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=detailed\n\
                n1: 8 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n n0: 8 0x5: f (a.c:1)\n";
    let (outline, holdings) = read_all(text.as_bytes()).unwrap();
    assert_eq!((outline.time_unit, outline.snapshots[0].time), (Some(TimeUnit::Milliseconds), 63));
    assert_eq!(holdings[0].functions[0].bytes, 8);
}

/// Names an address by its file and its place in the file.
struct ByOffset;

impl Symbols for ByOffset {
    fn functions(&mut self, mapping: &Mapping, address: u64) -> Vec<Frame> {
        let name = mapping.path.rsplit('/').next().unwrap();
        let function = format!("{name}+{:x}", address - mapping.start + mapping.offset);
        if name == "growing" { vec![Frame { function, place: None }] } else { Vec::new() }
    }
}

#[test]
fn addresses_are_looked_up_where_they_were_mapped() {
    for (name, bytes_at_end) in [("gperftools.2.heap", 655_360 + 40_960), ("jemalloc.2.heap", 655_360 + 40_960)] {
        let bytes = fixture(name);
        let outline = Outline::read(bytes.as_slice()).unwrap();
        assert_eq!(
            (outline.time_unit, outline.command.as_ref(), outline.damage.as_ref()),
            (None, None, None),
            "{name}"
        );
        let trees = heap::trees(bytes.as_slice(), &outline, &[0], &mut ByOffset).unwrap();
        let holdings = Holdings::of(&trees[0]);
        // all paths go through my_malloc at one place: without its name, nothing tells that it only passes allocations on
        let own: Vec<_> = holdings.functions.iter().filter(|it| it.function.starts_with("growing+")).collect();
        assert_eq!(own[0].function, "growing+11d7", "{name}: the call, one byte ahead of where it returns to");
        assert_eq!(own[0].bytes, bytes_at_end, "{name}");
        assert!(own[0].path.last().unwrap().contains("growing+10a0"), "from my_malloc to _start: {:?}", own[0].path);
    }
}

#[test]
fn samples_stand_for_what_was_not_seen() {
    let bytes = fixture("jemalloc.sampled.heap");
    let (outline, holdings) = read_all(&bytes).unwrap();
    assert_eq!(outline.sampled_every_bytes, Some(4096));
    // 655,360 in ten blocks, all of them seen; some of forty blocks of 1024; jemalloc's own and the loader's
    let total = holdings[0].total_bytes;
    assert!((655_360..900_000).contains(&total), "{total}");
}

/// One moment of a program: for each place that allocated, how many of its blocks were seen, and their bytes.
fn sampled(places: &[(u32, u32, u64)]) -> Holdings {
    let entry = |(place, count, bytes): &(u32, u32, u64)| format!("@ 0x{place:x}\n  t*: {count}: {bytes} [0: 0]\n");
    let entries: String = places.iter().map(entry).collect();
    let mapped = "MAPPED_LIBRARIES:\n1000-9000 r-xp 00000000 fe:00 1 /bin/growing\n";
    let text = format!("heap_v2/524288\n  t*: 1: 1 [0: 0]\n{entries}\n{mapped}");
    let outline = Outline::read(text.as_bytes()).unwrap();
    assert_eq!(outline.damage, None);
    Holdings::of(&heap::trees(text.as_bytes(), &outline, &[0], &mut ByOffset).unwrap()[0])
}

/// A program that always holds 3000 blocks of 4 KiB: eight of its profiles saw 23 to 31 of them.
#[test]
fn what_a_sample_cannot_tell_is_within_its_bounds() {
    for (before, after) in [(23, 26), (26, 23), (31, 23), (23, 31)] {
        let of = |count: u32| sampled(&[(0x1101, count, u64::from(count) * 4096), (0x1201, 1, 64 << 20)]);
        let (first, last) = (of(before), of(after));
        let held = last.bounds(&|name| name == "growing+100");
        assert!(held.at_least_bytes < 12_288_000 && held.at_most_bytes > 12_288_000, "{held:?}");
        assert!(held.at_least_bytes > 5 << 20 && held.at_most_bytes < 26 << 20, "and no wider than needed: {held:?}");
        let grown = heap::growth(&first, &last);
        let many = grown.iter().find(|it| it.function == "growing+100").unwrap();
        assert!(many.growth_bytes.is_none() && many.low_bytes < 0 && many.high_bytes > 0, "{many:?}");
        // a block that is always seen; small ones that were not seen may have come beside it
        let large = last.bounds(&|name| name == "growing+200");
        assert_eq!((large.bytes, large.at_least_bytes, large.at_most_bytes), (64 << 20, 64 << 20, 66 << 20));
    }
}

/// A function of which nothing was seen may hold something.
#[test]
fn what_is_not_in_the_sample_is_not_0() {
    let (first, last) =
        (sampled(&[(0x1201, 1, 4096)]), sampled(&[(0x1201, 1, 4096), (0x1101, 2, 8192), (0x1301, 200, 819_200)]));
    let grown = heap::growth(&first, &last);
    assert_eq!((grown[0].function.as_str(), grown[0].before_bytes), ("growing+300", None), "{grown:?}");
    assert!(grown[0].low_bytes > 50 << 20 && grown[0].growth_bytes > Some(100 << 20), "it surely grew: {grown:?}");
    let two = grown.iter().find(|it| it.function == "growing+100").unwrap();
    assert_eq!((two.growth_bytes, two.before_bytes, two.absent()), (None, None, "not in the sample"));
    let same = grown.iter().find(|it| it.function == "growing+200").unwrap();
    assert_eq!(same.growth_bytes, Some(0), "the same sample");
    let never = last.bounds(&|_| false);
    assert_eq!((never.bytes, never.at_most_bytes), (0, 4 * 524_288), "exp(-4): in 2 of 100 cases");
}

#[test]
fn compressed_files_are_the_same() {
    for name in ALL {
        let plain = unpacked(&fixture(name));
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&plain).unwrap();
        let gzip = gzip.finish().unwrap();
        let expected = read_all(&plain).unwrap();
        assert_eq!(read_all(&gzip).unwrap(), expected, "{name}");
        // half of the compressed file: everything in it is read, then comes the damage
        match read_all(&gzip[..gzip.len() / 2]) {
            Ok((outline, _)) => assert!(outline.damage.is_some_and(|it| it.is_end), "{name}"),
            Err(error) => assert!(matches!(error, Error::Damage(Damage { is_end: true, .. })), "{name}: {error}"),
        }
    }
    for name in PACKED {
        let packed = fixture(name);
        assert_eq!(unpacked(&packed), fixture("gperftools.2.heap"), "{name}");
        let twice = [packed.clone(), packed.clone()].concat();
        assert_eq!(unpacked(&twice).len(), 2 * unpacked(&packed).len(), "{name}");
    }
    let zstd = fixture("heaptrack.growing.zst");
    let twice = [zstd.clone(), zstd.clone()].concat();
    assert_eq!(unpacked(&twice).len(), 2 * unpacked(&zstd).len(), "frame after frame");
    let half = Outline::read(heap::plain(&zstd[..zstd.len() / 2]).unwrap());
    assert!(matches!(half, Err(Error::Damage(_))) || half.unwrap().damage.is_some());
}

/// Wherever a compressed file is cut or changed, what can be read comes first, and then always the same error.
#[test]
fn damage_of_compressed_data_comes_after_what_can_be_read() {
    for name in PACKED {
        let (packed, whole) = (fixture(name), fixture("gperftools.2.heap"));
        let failed = |bytes: &[u8]| {
            let (mut got, mut input) = (Vec::new(), heap::plain(bytes).unwrap());
            let error = input.read_to_end(&mut got).expect_err("damaged");
            assert_eq!(input.read(&mut [0; 16]).expect_err("still").kind(), error.kind(), "{name}");
            assert!(whole.starts_with(&got), "{name}");
            (error.kind(), got.len())
        };
        let kinds: Vec<_> = (8..packed.len()).map(|end| failed(&packed[..end])).collect();
        assert!(kinds.iter().all(|(kind, _)| *kind == ErrorKind::UnexpectedEof), "{name}: {kinds:?}");
        let mut changed = packed.clone();
        changed[packed.len() / 2] ^= 0x55;
        assert_eq!(failed(&changed).0, ErrorKind::InvalidData, "{name}");
        if name.ends_with("xz") {
            let (_, half) = failed(&packed[..packed.len() / 2]);
            assert!(half > whole.len() / 5, "{half} of {}", whole.len());
        }
    }
}

/// A window of 1.5 GiB, which a small file may ask for.
#[test]
fn a_window_that_is_too_large_is_damage() {
    let mut packed = fixture("gperftools.2.heap.xz");
    let header = &mut packed[12..24];
    assert_eq!(header[..4], [2, 0, 0x21, 1], "one filter, LZMA2, with one byte of properties");
    header[4] = 37;
    let mut crc = flate2::Crc::new();
    crc.update(&header[..8]);
    header[8..].copy_from_slice(&crc.sum().to_le_bytes());
    let error = heap::plain(packed.as_slice()).unwrap().read_to_end(&mut Vec::new()).unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidData && error.to_string().contains("memory"), "{error}");
}

#[test]
fn a_file_that_broke_off_is_read_up_to_there() {
    for name in ALL {
        let whole = unpacked(&fixture(name));
        let (expected, _) = read_all(&whole).unwrap();
        let largest = expected.snapshots.iter().map(|it| it.heap_bytes).max().unwrap();
        let (mut read, mut damaged) = (0, 0);
        for end in (0..whole.len()).step_by(11) {
            match read_all(&whole[..end]) {
                Ok((outline, holdings)) => {
                    read += 1;
                    damaged += u32::from(outline.damage.is_some());
                    let at = outline.damage.map_or(end as u64, |it| it.at_byte);
                    assert!(at <= end as u64, "{name}, {end} bytes");
                    assert!(holdings.iter().all(|it| it.total_bytes <= largest), "{name}, {end} bytes");
                }
                Err(error) => assert!(matches!(error, Error::Damage(_)), "{name}, {end} bytes: {error}"),
            }
        }
        assert!(read > 200, "{name}: {read} of the beginnings can be read");
        // a file of heaptrack that ends behind a line cannot be told from a whole one
        assert!(damaged * 20 >= read * 17, "{name}: {damaged} of {read}");
    }
}

#[test]
fn numbers_that_are_too_large_are_damage_or_the_largest() {
    let dhat = String::from_utf8(fixture("dhat.out")).unwrap();
    let heaptrack = String::from_utf8(unpacked(&fixture("heaptrack.growing.zst"))).unwrap();
    let gperftools = String::from_utf8(fixture("gperftools.2.heap")).unwrap();
    let jemalloc = String::from_utf8(fixture("jemalloc.2.heap")).unwrap();
    let largest = u64::MAX.to_string();
    for text in [
        dhat.replace("65536", &largest),
        dhat.replace("\"fs\":[1,", "\"fs\":[4294967295,"),
        heaptrack.replace("a 10000 ", "a ffffffffffffffff "),
        gperftools.replace("65536", &largest),
        jemalloc.replace("65536", &largest),
    ] {
        let (_, holdings) = read_all(text.as_bytes()).unwrap();
        assert!(!holdings.is_empty());
    }
    for text in [
        dhat.replace("\"gb\":65536", "\"gb\":18446744073709551616"),
        dhat.replace("\"fs\":[1,", "\"fs\":[-1,"),
        heaptrack.replace("a 10000 ", "a 1ffffffffffffffff "),
        heaptrack.replace("t 2 1", "t 2 ffffff"),
        heaptrack.replace("\n+ 1\n", "\n+ ffffffff\n"),
        gperftools.replace("1:    65536", "1: 99999999999999999999"),
        jemalloc.replace("@ 0x", "@ 0x1ffffffffffffffff"),
    ] {
        let outline = Outline::read(text.as_bytes()).unwrap();
        assert!(outline.damage.as_ref().is_some_and(|it| it.line > 1 && !it.is_end), "{:?}", outline.damage);
    }
}

#[test]
fn names_that_are_no_utf_8() {
    let broken = |bytes: &[u8], from: &[u8]| {
        let at = bytes.windows(from.len()).rposition(|it| it == from).unwrap();
        let mut bytes = bytes.to_vec();
        bytes[at] = 0xff;
        bytes
    };
    let names = |bytes: &[u8]| {
        let (outline, holdings) = read_all(bytes).unwrap();
        assert_eq!(outline.damage, None);
        holdings.last().unwrap().functions.iter().map(|it| it.function.clone()).collect::<Vec<_>>()
    };
    assert!(names(&broken(&fixture("dhat.out"), b"hold7")).contains(&"\u{fffd}old7".to_owned()));
    let heaptrack = unpacked(&fixture("heaptrack.growing.zst"));
    assert!(names(&broken(&heaptrack, b"hold7")).contains(&"\u{fffd}old7".to_owned()));
}

/// The same bytes again and again.
struct Endless(Vec<u8>, usize);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0[self.1..].as_ref().read(buffer)?;
        self.1 = (self.1 + read) % self.0.len();
        Ok(read)
    }
}

#[test]
fn what_is_deep_or_endless_is_bounded() {
    // a call that comes from a call, a hundred thousand times
    let mut text = "v 10400 3\nX ./a\ns 1 f\ni 10 0 1 0 0\nt 1 0\n".to_owned();
    for call in 1..100_000 {
        text += &format!("t 1 {call:x}\n");
    }
    text += "a 10 186a0\n+ 0\nc 1\n";
    let (outline, holdings) = read_all(text.as_bytes()).unwrap();
    assert_eq!((outline.damage, holdings.last().unwrap().total_bytes), (None, 16));
    // JSON in JSON
    let deep = format!("{{\"dhatFileVersion\":2,\"x\":{}", "[".repeat(1_000_000));
    let outline = Outline::read(deep.as_bytes()).unwrap();
    assert!(outline.damage.unwrap().what.contains("100 deep"));
    // a string that does not end, also by escapes
    for letter in ["x", "\\\"", "\\u0041"] {
        let long = format!("{{\"dhatFileVersion\":2,\"cmd\":\"{}", letter.repeat(heap::MOST_BYTES + 1));
        let outline = Outline::read(long.as_bytes()).unwrap();
        assert!(outline.damage.unwrap().what.contains("1048576 bytes"));
    }
    // a table without an end
    let endless = "v 10400 3\n".as_bytes().chain(Endless(b"a 1 0\n".repeat(1 << 16), 0));
    let outline = Outline::read(endless).unwrap();
    assert!(outline.damage.unwrap().what.contains("512 MiB"));
}

#[test]
fn what_is_another_version_is_told() {
    let heaptrack = unpacked(&fixture("heaptrack.growing.zst"));
    let text = String::from_utf8(heaptrack).unwrap();
    let said = |text: &str| Outline::read(text.as_bytes()).unwrap_err().to_string();
    assert!(said(&text.replace("v 10400 3", "v 20000 4")).contains("version 4 of heaptrack's format"));
    assert!(said(&text.replace("v 10400 3", "v 10000 0")).contains("version 0"));
    let raw = Outline::read("v 10400 3\nx /bin/a\nm - 0\n".as_bytes()).unwrap();
    assert!(raw.damage.unwrap().what.contains("heaptrack_interpret"));
    let dhat = String::from_utf8(fixture("dhat.out")).unwrap();
    assert!(said(&dhat.replace("FileVersion\":2", "FileVersion\":3")).contains("version 3 of DHAT's format"));
    assert!(said(&dhat.replace("\"bklt\":true", "\"bklt\":false")).contains("--mode=heap"));
    assert!(said("heap profile: 1: 2 [3: 4] @ fortnights\n").contains("no kind of heap profile"));
}

/// Damage of each file: some bytes set, some cut out, some put twice.
fn damaged(bytes: &[u8], changes: &[(prop::sample::Index, u8, u8)]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (at, byte, kind) in changes {
        if bytes.is_empty() {
            break;
        }
        let at = at.index(bytes.len());
        let end = (at + usize::from(*byte)).min(bytes.len());
        match kind % 4 {
            0 => drop(bytes.drain(at..end)),
            1 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            2 => bytes[at] = b"0123456789abcdef:@[]{}\",\n \\-+ct"[usize::from(*byte) % 31],
            _ => bytes[at] = *byte,
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_damage_makes_it_panic(
        file in 0..ALL.len() + PACKED.len(),
        as_it_is in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<u8>()), 1..8),
    ) {
        let bytes = fixture([&ALL[..], &PACKED].concat()[file]);
        let bytes = if as_it_is { bytes } else { unpacked(&bytes) };
        match read_all(&damaged(&bytes, &changes)) {
            Ok(_) | Err(Error::Damage(_)) => {}
            Err(Error::Io(error)) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), begun in 0_usize..10) {
        let beginnings: [&[u8]; 10] = [
            b"", b"v 10400 3\n", b"heap_v2/1\n", b"heap profile: 1: 2 [3: 4] @ heap_v2/5\n", b"{\"dhatFileVersion\":2,",
            &[0x28, 0xb5, 0x2f, 0xfd], &[0x1f, 0x8b, 8, 0], b"BZh91AY&SY", &[0xfd, b'7', b'z', b'X', b'Z', 0, 0, 4, 0xe6, 0xd6, 0xb4, 0x46], b"desc: a\ncmd: b\ntime_unit: s\n",
        ];
        let _ = read_all(&[beginnings[begun], &bytes].concat());
    }
}
