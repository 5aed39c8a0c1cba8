// SPDX-License-Identifier: Apache-2.0
//! Above a user's own directory (no write-back cache): the page cache is the one of a disk, and changes past the layer show.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // tests make their own files

mod common;

use rustix::mm::{MapFlags, ProtFlags, mlock, mmap};
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

const PAGE: usize = 4096;
const PAGES: usize = 64;
/// Longer than the kernel keeps attributes of such a mount.
const LONGER_THAN_ATTRIBUTES_LAST: Duration = Duration::from_millis(1_200);
/// Longer than a tick of the kernel's clock for times of files.
const TICK: Duration = Duration::from_millis(20);

/// A page that is written, and read again two seconds later, is no reason to read the other pages of the file from the disk.
#[test]
fn a_write_leaves_the_cached_pages_of_its_file() {
    let mounted = mount_or_skip!(|options| options.writeback_cache = false);
    fs::write(mounted.directory().join("file"), vec![7; PAGES * PAGE]).unwrap();
    mounted.inside(|folder| {
        let path = folder.join("file");
        let file = File::options().read(true).write(true).open(&path).unwrap();
        // The kernel drops no page that is locked because it wants the memory.
        // SAFETY: a fresh mapping through which nobody reads or writes, locked by its own length; it ends with the test's process.
        unsafe {
            let start = mmap(std::ptr::null_mut(), PAGES * PAGE, ProtFlags::READ, MapFlags::SHARED, &file, 0).unwrap();
            mlock(start, PAGES * PAGE).unwrap();
        }
        let reads = || mounted.client().stats().unwrap().reads;
        let before = reads();
        let mut into = vec![0; PAGES * PAGE];
        for page in [3_u8, 40] {
            file.write_all_at(&[page; PAGE], u64::from(page) * PAGE as u64).unwrap();
            std::thread::sleep(LONGER_THAN_ATTRIBUTES_LAST);
            file.read_exact_at(&mut into, 0).unwrap();
            assert_eq!(into[usize::from(page) * PAGE], page);
            assert_eq!(reads(), before, "after a write to page {page}");
        }
        // The file grows, another process opens it.
        file.write_all_at(&[9; PAGE], (PAGES * PAGE) as u64).unwrap();
        std::thread::sleep(LONGER_THAN_ATTRIBUTES_LAST);
        let other = File::open(&path).unwrap();
        other.read_exact_at(&mut into, 0).unwrap();
        assert_eq!(reads(), before, "after it grew, and was opened again");
    });
}

/// Written in place, appended to and cut past the layer, while a program above the layer has the file open.
#[test]
fn a_change_past_the_layer_is_seen() {
    let mounted = mount_or_skip!(|options| options.writeback_cache = false);
    let below = mounted.directory().join("file");
    fs::write(&below, "one").unwrap();
    let open = || mounted.inside(|folder| File::open(folder.join("file")).unwrap());
    let read = |file: &mut File| {
        let mut text = String::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    };
    let mut held = open();
    assert_eq!(read(&mut held), "one");
    for changed in ["two", "three, longer", "4"] {
        std::thread::sleep(TICK);
        fs::write(&below, changed).unwrap();
        assert_eq!(read(&mut open()), changed, "opened after the change");
        assert_eq!(read(&mut held), changed, "held open");
    }
    std::thread::sleep(TICK);
    File::options().append(true).open(&below).unwrap().write_all(b" and more").unwrap();
    std::thread::sleep(LONGER_THAN_ATTRIBUTES_LAST);
    assert_eq!(held.metadata().unwrap().len(), 10);
    assert_eq!(read(&mut held), "4 and more");
    File::options().write(true).open(&below).unwrap().write_all_at(b"5", 0).unwrap();
    std::thread::sleep(LONGER_THAN_ATTRIBUTES_LAST);
    assert_eq!(held.metadata().unwrap().len(), 10);
    assert_eq!(read(&mut held), "5 and more");
}

/// A write to a place (`RWF_NOAPPEND`, Linux 6.9) stays there, also in a file that is open for appending.
#[test]
fn a_write_to_a_place_is_none_to_the_end() {
    const RWF_NOAPPEND: u32 = 0x20;
    let mounted = mount_or_skip!(|options| options.writeback_cache = false);
    let below = mounted.directory().join("log");
    fs::write(&below, "0123456789").unwrap();
    let log = mounted.inside(|folder| File::options().append(true).open(folder.join("log")).unwrap());
    let flags = rustix::io::ReadWriteFlags::from_bits_retain(RWF_NOAPPEND);
    match rustix::io::pwritev2(&log, &[std::io::IoSlice::new(b"ab")], 3, flags) {
        Ok(2) => assert_eq!(fs::read_to_string(&below).unwrap(), "012ab56789"),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::INVAL) => {
            testkit::skip!("this kernel has no RWF_NOAPPEND");
        }
        other => panic!("{other:?}"),
    }
}

/// A large direct write comes in several requests at the same time.
#[test]
fn a_large_direct_append_keeps_its_order() {
    use std::os::unix::fs::OpenOptionsExt as _;
    const LARGE: usize = 8 << 20;
    let mounted = mount_or_skip!(|options| options.writeback_cache = false);
    let below = mounted.directory().join("file");
    let mut options = File::options();
    options.create(true).append(true).custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed());
    let mut file = mounted.inside(|folder| options.open(folder.join("file")).unwrap());
    // memory that O_DIRECT takes: of whole pages
    let mut memory = vec![0_u8; LARGE + PAGE];
    let from = memory.as_ptr().align_offset(PAGE);
    let bytes = &mut memory[from..from + LARGE];
    for (number, page) in bytes.chunks_mut(PAGE).enumerate() {
        page[..8].copy_from_slice(&(number as u64).to_le_bytes());
    }
    let bytes = &*bytes;
    assert_eq!(file.write(bytes).unwrap(), LARGE);
    assert!(fs::read(&below).unwrap() == bytes, "the pages are in another order");
}

/// Two programs append to one log, one of them past the layer: neither overwrites what the other has written.
#[test]
fn what_is_appended_past_the_layer_is_not_overwritten() {
    let mounted = mount_or_skip!(|options| options.writeback_cache = false);
    let below = mounted.directory().join("log");
    let append = |path: &Path| File::options().create(true).append(true).open(path).unwrap();
    let mut log = mounted.inside(|folder| append(&folder.join("log")));
    let mut past = append(&below);
    for _ in 0..3 {
        log.write_all(b"layer\n").unwrap();
        past.write_all(b"past\n").unwrap();
    }
    assert_eq!(fs::read_to_string(&below).unwrap(), "layer\npast\n".repeat(3));
}
