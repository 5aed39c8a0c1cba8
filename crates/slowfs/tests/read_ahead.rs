// SPDX-License-Identifier: Apache-2.0
//! Reads that somebody waits for, and read-ahead, told apart on the real kernel.

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)] // tests make their own files

mod common;

use common::{Mounted, delay};
use rustix::io::{IoSliceMut, ReadWriteFlags, pread, preadv, preadv2};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
/// So far apart that the kernel takes no read for the next of a sequence.
const STRIDE: u64 = 1 << 20;
const STRIDES: u64 = 16;

const PATIENCE: Duration = Duration::from_secs(60);

/// How many reads, `least` or more, arrived while `body` ran with the file, and how many of them were ahead. Nothing of the file is cached before.
fn counted(mounted: &Mounted, least: u64, body: impl FnOnce(&mut File) + Send) -> (u64, u64) {
    let before = mounted.client().stats().unwrap();
    let answered_before = before.read_latency.got.count();
    let (reads, ahead, unseen) = mounted.inside(|folder: &Path| {
        // Before all others that want the processor between its request and its sleep, and after the layer, as ever.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), -5);
        let path = folder.join("file");
        let mut file = File::options().read(true).write(true).open(&path).unwrap();
        let is_cold = || probe::evict::evict(&file, &path).unwrap().cached_pages == 0;
        assert!(testkit::wait_until(PATIENCE, is_cold), "it stays in the page cache");
        body(&mut file);
        // This thread stays until the layer has looked at it: the kernel's own reads may come later, and a thread that has ended is unseen.
        let end = Instant::now() + PATIENCE;
        loop {
            std::thread::sleep(Duration::from_millis(5));
            let after = mounted.client().stats().unwrap();
            let reads = after.reads - before.reads;
            let answered = after.read_latency.got.count() - answered_before;
            if (reads >= least && answered >= reads) || Instant::now() > end {
                break (reads, after.read_ahead - before.read_ahead, after.unseen_reads);
            }
        }
    });
    assert_eq!(unseen, 0);
    (reads, ahead)
}

fn mounted() -> Mounted {
    let mounted = Mounted::new(common::options());
    File::create(mounted.directory().join("file")).unwrap().set_len(STRIDE * (STRIDES + 1)).unwrap();
    mounted
}

/// Of so many reads that are waited for, one may be taken for read-ahead: a thread that loses its processor between its request and its sleep looks like
/// one that has its data. On a busy machine that happens to several reads of one moment, so the mistakes of all trials are counted together.
const ONE_MISTAKE_IN: u64 = 4;

/// Every way to ask for a block in the middle of nowhere: one request each, and the asker waits.
#[test]
fn scattered_reads_are_waited_for() {
    if let Some(why) = common::obstacle() {
        testkit::skip!("{why}");
    }
    let mounted = mounted();
    let (mut reads, mut mistakes) = (0, Vec::new());
    for read_us in [0, 2_000] {
        mounted.client().set(delay(read_us, 0, 0)).unwrap();
        let mut all = |read: fn(&mut File, &mut [u8], u64)| {
            let counted = counted(&mounted, STRIDES, |file| {
                (1..=STRIDES).for_each(|stride| read(file, &mut [0; 2 * PAGE], stride * STRIDE));
            });
            assert!(counted.0 == STRIDES && counted.1 <= STRIDES * 3 / 4, "{counted:?} with {read_us} us");
            reads += counted.0;
            mistakes.push(counted.1);
        };
        all(|file, into, at| assert_eq!(pread(&*file, into, at).unwrap(), 2 * PAGE));
        all(|file, into, at| {
            file.seek(SeekFrom::Start(at)).unwrap();
            file.read_exact(into).unwrap();
        });
        all(|file, into, at| {
            let (first, second) = into.split_at_mut(PAGE);
            let mut buffers = [IoSliceMut::new(first), IoSliceMut::new(second)];
            assert_eq!(preadv(&*file, &mut buffers, at).unwrap(), 2 * PAGE);
        });
        all(|file, into, at| {
            let mut buffers = [IoSliceMut::new(into)];
            assert_eq!(preadv2(&*file, &mut buffers, at, ReadWriteFlags::empty()).unwrap(), 2 * PAGE);
        });
    }
    println!("{mistakes:?} of {reads} reads are taken for read-ahead");
    assert!(mistakes.iter().sum::<u64>() * ONE_MISTAKE_IN <= reads, "{mistakes:?} of {reads}");
}

/// The asker has what it wants and does something else while the kernel fetches what may be wanted next.
#[test]
fn what_the_kernel_reads_ahead_of_a_sequence_is_not_waited_for() {
    if let Some(why) = common::obstacle() {
        testkit::skip!("{why}");
    }
    let mounted = mounted();
    mounted.client().set(delay(20_000, 0, 0)).unwrap();
    let (reads, ahead) = counted(&mounted, 2, |file| {
        let mut page = [0; PAGE];
        // the start of a file is taken for the start of a sequence: more than was asked for comes, with a mark in it
        for number in 0..4 {
            pread(&*file, &mut page, number * PAGE as u64).unwrap();
        }
    });
    // the first one is waited for, unless it is mistaken
    assert!(ahead >= 1 && reads >= 2 && reads - ahead <= 1, "{reads} reads, {ahead} ahead");
}

/// The case of a database: a block is missing whose neighbours are cached, and the kernel fills the gaps behind it too.
#[test]
fn gaps_behind_a_missing_block_are_read_ahead() {
    if let Some(why) = common::obstacle() {
        testkit::skip!("{why}");
    }
    let mounted = mounted();
    mounted.client().set(delay(20_000, 0, 0)).unwrap();
    let scenes = [1, 5, 9, 13].map(|stride| {
        let block = |file: &File, number: u64| {
            let mut block = [0; 2 * PAGE];
            pread(file, &mut block, stride * STRIDE + number * 2 * PAGE as u64).unwrap();
        };
        let (reads, ahead) = counted(&mounted, 6, |file| {
            // backwards and with gaps, so that no sequence shows: 6, 4, 2 and 1 are cached then
            [6, 4, 2, 1].into_iter().for_each(|number| block(file, number));
            block(file, 3);
        });
        assert!(ahead >= 1 && reads >= 6 && reads - ahead <= 5, "{reads} reads, {ahead} ahead");
        (reads, ahead)
    });
    // five of each scene are waited for
    let mistakes: u64 = scenes.iter().map(|(reads, ahead)| 5 - (reads - ahead)).sum();
    println!("{mistakes} of {} reads are taken for read-ahead: {scenes:?}", 5 * scenes.len());
    assert!(mistakes * ONE_MISTAKE_IN <= 5 * scenes.len() as u64, "{scenes:?}");
}
