// SPDX-License-Identifier: Apache-2.0
use super::*;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The function that is probed, in this test program itself.
#[inline(never)]
extern "C" fn waits(ms: u64) -> u64 {
    std::thread::sleep(Duration::from_millis(black_box(ms)));
    black_box(7)
}

/// The place of the function in the program's file.
fn offset_of(address: u64) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("our own");
    let found = maps.lines().find_map(|line| {
        let line = units::MapsLine::parse(line)?;
        (line.start..line.end).contains(&address).then_some(address - line.start + line.offset)
    });
    found.expect("it is mapped")
}

#[test]
fn calls_of_a_function_are_seen_with_their_threads_and_lengths_until_the_probe_is_dropped() {
    let offset = offset_of((waits as extern "C" fn(u64) -> u64) as usize as u64);
    let open = || Uprobe::open(std::process::id(), Path::new("/proc/self/exe"), offset);
    let mut probe = match open() {
        Ok(probe) => probe,
        Err(error @ Error::NoPmu) => testkit::skip!("no uprobe PMU: {error}"),
        Err(error @ Error::NotPermitted { .. }) => {
            assert!(error.remedy().is_some_and(|it| it.contains("root")), "{error}");
            testkit::skip!("needs root")
        }
        Err(error) => panic!("{}", crate::chain(&error)),
    };
    let threads: Vec<_> = [200, 400]
        .map(|ms| {
            std::thread::spawn(move || {
                let began = Instant::now();
                waits(ms);
                (rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs(), began.elapsed())
            })
        })
        .into_iter()
        .map(|it| it.join().expect("it ends"))
        .collect();
    let hits = probe.take_all();
    assert_eq!((hits.len(), probe.lost()), (4, 0), "{hits:?}");
    for (thread, took) in threads {
        let of: Vec<&Hit> = hits.iter().filter(|hit| hit.thread == thread).collect();
        let [enter, leave] = of.as_slice() else { panic!("{hits:?}") };
        assert!(!enter.is_return && leave.is_return, "{of:?}");
        let length = Duration::from_nanos(leave.at_ns - enter.at_ns);
        assert!(length <= took && length * 2 >= took, "{length:?} of {took:?}");
    }
    waits(0);
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!(probe.take().len(), 2, "older than a millisecond");
    drop(probe);
    let mut again = open().expect("as before");
    assert_eq!(again.take_all(), []);
}

#[test]
fn a_place_where_no_instruction_is_gets_no_probe() {
    let Err(error) = Uprobe::open(1, Path::new("/proc/self/exe"), u64::MAX / 2) else { panic!("a probe nowhere") };
    assert!(matches!(error, Error::NoPmu | Error::NotPermitted { .. } | Error::Refused { .. }), "{error}");
}
