// SPDX-License-Identifier: Apache-2.0
//! Compares with glibc's own figures: a child process runs this test program, allocates and frees in several threads, and prints its `mallinfo2`.

use super::*;
use crate::memory::{Options, target};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;

const VARIABLE: &str = "WRINGER_TEST_MALLOC_CHILD";

/// Blocks of sizes that belong to fast bins or to other bins, or that fill more than one heap; some are freed and some are kept.
fn churn(seed: u64) -> Vec<Vec<u8>> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let (count, most) = [(30_000, 100), (3_000, 6_000), (2_400, 60_000)][usize::try_from(seed % 3).unwrap()];
    let blocks: Vec<Vec<u8>> = (0..count).map(|_| vec![1; usize::try_from(24 + next() % most).unwrap()]).collect();
    blocks.into_iter().filter(|_| next() % 3 == 0).collect()
}

/// Not a test: the work of the child process.
#[test]
fn child() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let (ready, end) = (Barrier::new(7), Barrier::new(7));
    std::thread::scope(|scope| {
        for seed in 1..=6 {
            let (ready, end) = (&ready, &end);
            scope.spawn(move || {
                let kept = churn(seed);
                ready.wait();
                end.wait();
                drop(kept);
            });
        }
        let kept = (churn(99), [300_000, 1 << 20, 5 << 20].map(|size| vec![1_u8; size]));
        ready.wait();
        tell();
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        drop(kept);
        end.wait();
    });
}

fn tell() {
    // SAFETY: the function has no arguments, and only reads malloc's own data.
    let info = unsafe { libc::mallinfo2() };
    println!("\nmallinfo2 {} {} {}", info.uordblks, info.fordblks, info.hblkhd);
    std::io::stdout().flush().unwrap();
}

/// The child, and by its own account its held and free bytes, and the bytes in mappings of their own.
#[allow(clippy::disallowed_methods)]
fn start() -> (Child, u64, u64, u64) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["memory::glibc::tests::child", "--exact", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let line = lines.map_while(Result::ok).find(|line| line.starts_with("mallinfo2 ")).unwrap();
    let figures: Vec<u64> = line.split(' ').skip(1).map(|word| word.parse().unwrap()).collect();
    (child, figures[0], figures[1], figures[2])
}

#[test]
fn a_walk_from_outside_equals_mallinfo2() {
    let (mut child, used, free, mapped) = start();
    let mut reading = Reading::begin(Options { deep: true, ..Options::default() });
    let mut target = target::of(child.id(), &mut reading);
    let mappings = target.maps(&mut reading).unwrap();
    let allocator = malloc::serving(child.id()).name;
    let walk = walk(&target, &mappings, &allocator, &mut reading);
    let counted = crate::memory::arenas_of_glibc(child.id(), &allocator);
    let held = crate::memory::held_of_glibc(child.id(), &allocator);
    child.stdin.take();
    child.wait().unwrap();
    let missing = reading.end().2;
    if Layout::of(&allocator).is_none() {
        assert!(walk.is_none() && !missing.is_empty());
        return;
    }
    let walk = walk.unwrap();
    assert_eq!(counted, Ok(walk.arenas as usize));
    assert!(missing.is_empty() && walk.arenas >= 7 && walk.layout == allocator, "{missing:?} {walk:?}");
    let told = held.unwrap() - walk.used;
    assert!(mapped > 6 << 20 && told == mapped, "in mappings of their own: {told}, mallinfo2: {mapped}");
    let near = |got: u64, told: u64| got.abs_diff(told) <= told / 100;
    assert!(near(walk.used, used) && near(walk.free, free), "{walk:?}, mallinfo2: {used} {free}");
    assert!(walk.free_resident <= walk.free && walk.free_resident > 0 && walk.resident <= walk.used + walk.free);
    assert!(walk.walked.len() >= 7);
}
