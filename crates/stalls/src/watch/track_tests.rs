// SPDX-License-Identifier: Apache-2.0
use super::super::sample::Written;
use super::*;
use proptest::prelude::*;

const STEP_US: u64 = 10_000;

fn sample(doing: Doing, sched: Option<Sched>) -> Sample {
    Sample { thread: 7, doing, sched, stop: None }
}

/// Samples every 10 ms, of a thread that has turns as they are given; idle before and behind.
fn waits(of: &[(Doing, u64)]) -> Vec<Wait> {
    let mut tracker = Tracker::new(7);
    let around = [(Doing::Idle, 0)];
    let mut ended = Vec::new();
    for (nth, (doing, turns)) in around.iter().chain(of).chain(&around).enumerate() {
        let sched = Sched { turns: *turns, cpu_ns: nth as u64 * 9_000_000, queued_ns: 0 };
        ended.extend(tracker.sample(nth as u64 * STEP_US, &sample(*doing, Some(sched))));
    }
    assert_eq!(tracker.open(), None);
    ended
}

fn lengths(of: &[(Doing, u64)]) -> Vec<(Way, u64, u32)> {
    waits(of).into_iter().map(|wait| (wait.way, wait.length_us() / 1000, wait.samples)).collect()
}

#[test]
fn a_run_of_samples_is_a_wait_and_what_is_between_two_samples_is_halved() {
    assert_eq!(lengths(&[(Doing::Asleep, 0); 10]), [(Way::Asleep, 100, 10)]);
    assert_eq!(lengths(&[(Doing::Running, 0); 3]), []);
}

#[test]
fn a_thread_that_sleeps_is_awake_now_and_then_and_not_for_long() {
    let (asleep, awake) = ((Doing::Asleep, 0), (Doing::Blocked, 0));
    let two = [[asleep; 5].as_slice(), &[awake; 2], &[asleep; 5]].concat();
    assert_eq!(lengths(&two), [(Way::Asleep, 120, 10)]);
    let three = [[asleep; 5].as_slice(), &[awake; 3], &[asleep; 5]].concat();
    assert_eq!(lengths(&three), [(Way::Asleep, 50, 5), (Way::Blocked, 30, 3), (Way::Asleep, 50, 5)]);
}

#[test]
fn an_answer_ends_a_wait_at_once() {
    let asleep = (Doing::Asleep, 0);
    let two = [[asleep; 5].as_slice(), &[(Doing::Idle, 0)], &[asleep; 5]].concat();
    assert_eq!(lengths(&two), [(Way::Asleep, 50, 5), (Way::Asleep, 50, 5)]);
}

#[test]
fn many_short_waits_are_not_one_long_wait() {
    let each = |per_sample: u64| (0..30).map(|nth| (Doing::Blocked, nth * per_sample)).collect::<Vec<_>>();
    assert_eq!(lengths(&each(0)), [(Way::Blocked, 300, 30)], "no turn: one wait");
    let longest = |of: &[(Doing, u64)]| lengths(of).into_iter().map(|(_, ms, _)| ms).max();
    assert!(longest(&each(1)) < Some(40), "{:?}", lengths(&each(1)));
    assert!(longest(&each(5)) < Some(20));
    // a deadlock check, a second after the begin
    let timed: Vec<_> = (0..150).map(|nth| (Doing::Blocked, u64::from(nth > 100))).collect();
    assert_eq!(lengths(&timed), [(Way::Blocked, 1500, 150)]);
}

#[test]
fn a_long_read_stands_out_from_quick_ones_before_and_behind_it() {
    let quick = |from: u64| (0..8).map(move |nth| (Doing::Reading, from + nth * 20));
    let all: Vec<_> = quick(0).chain((0..27).map(|_| (Doing::Reading, 180))).chain(quick(200)).collect();
    let long: Vec<_> = waits(&all).into_iter().filter(|wait| wait.samples >= LEAST_SAMPLES).collect();
    let [wait] = long.as_slice() else { panic!("{long:?}") };
    assert_eq!((wait.way, wait.length_us() / 1000, wait.turns), (Way::Reading, 270, Some(0)));
    // a slow disk: each read of one statement takes 20 ms
    let slow: Vec<_> = (0..30).map(|nth| (Doing::Reading, nth / 2)).collect();
    assert_eq!(lengths(&slow), [(Way::Reading, 300, 30)]);
}

#[test]
fn a_thread_without_a_cpu_waits_for_one() {
    let mut tracker = Tracker::new(7);
    let mut ended = tracker.sample(0, &sample(Doing::Idle, None));
    for nth in 1..=20 {
        // it gets 1 ms of each 10
        let sched = Sched { cpu_ns: nth * 1_000_000, queued_ns: 0, turns: 3 };
        ended.extend(tracker.sample(nth * STEP_US, &sample(Doing::Running, Some(sched))));
    }
    ended.extend(tracker.close(21 * STEP_US));
    let [wait] = ended.as_slice() else { panic!("{ended:?}") };
    assert_eq!((wait.way, wait.samples), (Way::Queued, 19), "the first sample has none to be compared with");
    let mut tracker = Tracker::new(7);
    let runs = (0..20).flat_map(|nth| {
        let sched = Sched { cpu_ns: nth * 9_000_000, queued_ns: 0, turns: 3 };
        tracker.sample(nth * STEP_US, &sample(Doing::Running, Some(sched)))
    });
    assert_eq!(runs.count(), 0, "it runs");
}

/// A thread that is not known as a client's is looked at seldom, and has many turns between two looks.
#[test]
fn turns_between_two_looks_are_evenly_spread() {
    let mut tracker = Tracker::new(7);
    let sched = |turns| Some(Sched { turns, queued_ns: turns * 20_000_000, cpu_ns: turns });
    let mut woke = Vec::new();
    for (at_us, turns) in [(0, 0), (20_000, 0), (40_000, 1), (200_000, 9)] {
        tracker.sample(at_us, &sample(Doing::Running, sched(turns)));
        woke.push(tracker.woke());
    }
    let eight: Vec<u64> = (0..8).map(|nth| 50_000 + 20_000 * nth).collect();
    let at = |of: &Vec<Woke>| of.iter().map(|it| it.at_us).collect::<Vec<_>>();
    assert_eq!(woke.iter().map(at).collect::<Vec<_>>(), [vec![], vec![], vec![30_000], eight]);
    let errors = |of: &Vec<Woke>| of.iter().map(|it| it.error_us / 1000).collect::<Vec<_>>();
    assert_eq!(errors(&woke[2]), [10], "half the time between two looks");
    assert_eq!(errors(&woke[3]), [150, 130, 110, 90, 90, 110, 130, 150], "it may be any of the eight");
}

fn any_doing() -> impl Strategy<Value = Doing> {
    prop_oneof![
        Just(Doing::Idle),
        Just(Doing::Running),
        Just(Doing::Asleep),
        Just(Doing::Blocked),
        Just(Doing::Reading),
        Just(Doing::Syncing(Written::Unknown)),
        any::<u64>().prop_map(Doing::Polling),
    ]
}

/// The length of a stall, and an interval that is a fifth of it at most: then four samples of it are asleep, also where one is awake.
fn planted() -> impl Strategy<Value = (u64, u64)> {
    (50_000_u64..2_000_000).prop_flat_map(|length_us| (Just(length_us), 2_000..=(length_us / 5).min(11_999)))
}

proptest! {
    /// Whatever the kernel shows: waits follow each other, within the time that was watched, and none has more samples than there were.
    #[test]
    fn waits_of_any_samples_do_not_overlap(
        seen in prop::collection::vec((any_doing(), 0_u64..50_000, prop::option::of((any::<u64>(), any::<u64>(), any::<u64>()))), 0..200)
    ) {
        let mut tracker = Tracker::new(1);
        let (mut at_us, mut ended) = (0, Vec::new());
        for (doing, later, sched) in &seen {
            at_us += later;
            let sched = sched.map(|(cpu_ns, queued_ns, turns)| Sched { cpu_ns, queued_ns, turns });
            ended.extend(tracker.sample(at_us, &sample(*doing, sched)));
        }
        ended.extend(tracker.close(at_us));
        let mut until_us = 0;
        for wait in &ended {
            prop_assert!(wait.from_us >= until_us && wait.to_us >= wait.from_us && wait.to_us <= at_us, "{ended:?}");
            until_us = wait.to_us;
        }
        prop_assert!(ended.iter().map(|wait| wait.samples as usize).sum::<usize>() <= seen.len());
    }

    /// A stall of any length, sampled at any interval and phase, with up to 6 % of its samples awake: found as one, within an interval and a half.
    #[test]
    fn a_planted_sleep_is_found_within_the_interval(
        (length_us, step_us) in planted(), phase in 0_u64..12_000, awake in 16_u64..40
    ) {
        let (begin, end) = (200_000 + phase, 200_000 + phase + length_us);
        let mut tracker = Tracker::new(1);
        let mut ended = Vec::new();
        for (nth, at_us) in (0..end + 100_000).step_by(usize::try_from(step_us).unwrap_or(1)).enumerate() {
            let doing = match at_us {
                at if at < begin || at >= end => Doing::Idle,
                _ if (nth as u64).is_multiple_of(awake) => Doing::Running,
                _ => Doing::Asleep,
            };
            ended.extend(tracker.sample(at_us, &sample(doing, None)));
        }
        let [wait] = ended.as_slice() else { panic!("{ended:?}") };
        // a sample awake at an end hides one more
        prop_assert!(wait.length_us().abs_diff(length_us) <= 3 * step_us, "{wait:?} of {length_us}");
        prop_assert!(wait.samples >= LEAST_SAMPLES);
    }
}

/// At 4 ms a look of 16 ms is four samples; at 10 ms it is two.
#[test]
fn a_sleeper_that_has_to_wait_for_a_cpu_before_it_looks_is_in_one_wait_however_often_it_is_sampled() {
    let lengths = |step_us: u64, awake: u64| {
        let mut tracker = Tracker::new(7);
        let mut ended = Vec::new();
        for nth in 0..30 + awake {
            let doing = if (10..10 + awake).contains(&nth) { Doing::Running } else { Doing::Asleep };
            ended.extend(tracker.sample(nth * step_us, &sample(doing, None)));
        }
        ended.extend(tracker.close((30 + awake) * step_us));
        ended.len()
    };
    assert_eq!((lengths(4_000, 4), lengths(4_000, 8)), (1, 2));
    assert_eq!((lengths(10_000, 2), lengths(10_000, 3)), (1, 2));
}

#[test]
fn a_sleeper_that_gets_no_cpu_for_long_is_in_one_wait_as_far_as_it_sleeps_again() {
    let ended = |queued: u64, sleeps_again: bool| {
        let mut tracker = Tracker::new(7);
        let mut waits = Vec::new();
        for nth in 0..60 {
            let is_queued = (20..20 + queued).contains(&nth);
            let is_asleep = nth < 20 || (sleeps_again && !is_queued);
            let doing = if is_asleep { Doing::Asleep } else { Doing::Running };
            // it runs all the time when it neither sleeps nor waits for a CPU
            let cpu_ns = if is_asleep || is_queued { 0 } else { nth * 4_000_000 };
            let sched = Sched { turns: 3, cpu_ns, queued_ns: nth * 4_000_000 };
            waits.extend(tracker.sample(nth * 4_000, &sample(doing, Some(sched))));
        }
        waits.extend(tracker.close(240_000));
        waits.into_iter().map(|wait| (wait.way, wait.length_us() / 1000)).collect::<Vec<_>>()
    };
    assert_eq!(ended(15, true), [(Way::Asleep, 238)], "half a step before its first look");
    assert_eq!(ended(15, false).first(), Some(&(Way::Asleep, 78)), "it did not sleep again");
    assert_eq!(ended(15, false).get(1), Some(&(Way::Queued, 60)));
}

/// Looks 20 ms apart; two of them find the thread awake. Each case: turns, and microseconds on a CPU, within these 60 ms.
#[test]
fn statements_between_two_waits_of_a_sleeper_part_them() {
    let ended = |turns: u64, ran_us: u64| {
        let mut tracker = Tracker::new(7);
        let mut waits = Vec::new();
        let mut sched = Sched::default();
        for nth in 0..30_u64 {
            let is_between = (11..14).contains(&nth);
            sched.turns += if is_between { turns / 3 } else { 2 };
            sched.cpu_ns += if is_between { ran_us * 1000 / 3 } else { 20_000 };
            let doing = if nth == 11 || nth == 12 { Doing::Running } else { Doing::Asleep };
            waits.extend(tracker.sample(nth * 20_000, &sample(doing, Some(sched))));
        }
        waits.extend(tracker.close(600_000));
        waits.iter().filter(|wait| wait.way == Way::Asleep).count()
    };
    assert_eq!(ended(300, 15_000), 2, "300 statements, one after another");
    assert_eq!(ended(6, 15_000), 1, "it searched a long list");
    assert_eq!(ended(300, 1_500), 1, "it slept for a tenth of a millisecond each time");
    assert_eq!(ended(30, 100), 1, "the sleeps began at 1 us again");
}
