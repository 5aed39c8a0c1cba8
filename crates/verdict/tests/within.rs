// SPDX-License-Identifier: Apache-2.0
//! Arms of one run, by batches of their time.
#![allow(clippy::unwrap_used)]

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng as _};
use verdict::Verdict;
use verdict::within::{FEWEST_BATCHES, batches, compare, halves, halves_agree};

/// From -1 to 1.
fn noise(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

/// Each slot keeps `memory` of how far the one before was off.
fn slots(random: &mut Xoshiro256PlusPlus, count: usize, level: f64, memory: f64) -> Vec<f64> {
    let mut off = 0.0;
    let mut slot = || {
        off = memory * off + noise(random);
        level * (1.0 + 0.05 * off)
    };
    (0..count).map(|_| slot()).collect()
}

#[test]
fn slots_that_depend_on_each_other_are_joined_until_they_do_not() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut typical = |memory: f64| {
        let mut lengths: Vec<usize> =
            (0..101).filter_map(|_| Some(batches(&[&slots(&mut random, 600, 100.0, memory)])?.slots)).collect();
        lengths.sort_unstable();
        lengths[lengths.len() / 2]
    };
    let (alone, alike, very) = (typical(0.0), typical(0.7), typical(0.95));
    assert!(alone == 2 && alike >= 8 && very > alike, "{alone} {alike} {very}");
}

/// Slots taken for repeats would show a difference in most of these.
#[test]
fn equal_arms_whose_slots_depend_on_each_other_are_seldom_told_apart() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    let (mut shown, mut told) = (0, 0);
    for _ in 0..1000 {
        let mut arm = || batches(&[&slots(&mut random, 600, 100.0, 0.8)]);
        let (Some(a), Some(b)) = (arm(), arm()) else { continue };
        told += 1;
        shown += u32::from(compare(&a, &b, 0.05).unwrap().verdict != Verdict::NoDifferenceShown);
    }
    assert!(told > 900 && shown < 80, "{shown} of {told}");
}

#[test]
fn a_tenth_less_is_told_apart() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut told = Vec::new();
    for _ in 0..200 {
        let mut arm = |level| batches(&[&slots(&mut random, 300, level, 0.5)]);
        let (Some(a), Some(b)) = (arm(100.0), arm(90.0)) else { continue };
        told.push(compare(&a, &b, 0.05).unwrap());
    }
    let lower = told.iter().filter(|within| within.verdict == Verdict::Lower).count();
    let right = told.iter().filter(|within| within.low <= 0.9 && within.high >= 0.9).count();
    assert!(told.len() > 180 && lower * 100 >= told.len() * 95, "{lower} of {}", told.len());
    assert!(right * 100 >= told.len() * 88, "{right} of {}", told.len());
    assert!(told.iter().all(|within| within.detectable_ratio > 1.0), "{told:?}");
}

/// Turns that differ from each other are not made one by many slots: the batches become as long as they must.
#[test]
fn turns_that_differ_make_an_arm_too_short_or_its_interval_wide() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(4);
    let mut arm = |levels: [f64; 3]| {
        let turns = levels.map(|level| slots(&mut random, 100, level, 0.0));
        batches(&[&turns[0], &turns[1], &turns[2]])
    };
    assert!(arm([100.0; 3]).is_some_and(|arm| arm.slots == 2));
    assert!(arm([100.0, 150.0, 70.0]).is_none_or(|arm| arm.means.len() < 4 * FEWEST_BATCHES));
}

#[test]
fn what_is_too_short_or_did_nothing_is_not_compared() {
    assert_eq!(batches(&[]), None);
    assert_eq!(batches(&[&[1.0; FEWEST_BATCHES - 1]]), None);
    let (still, idle) = (batches(&[&[5.0; 20]]).unwrap(), batches(&[&[0.0; 20]]).unwrap());
    assert_eq!(compare(&still, &still, 0.05).unwrap().verdict, Verdict::NoDifferenceShown);
    assert_eq!(compare(&still, &idle, 0.05), None);
    assert_eq!((halves_agree(&[]), halves_agree(&[1.0; 6]), halves_agree(&[0.0; 60])), (None, None, None));
}

#[test]
fn halves_of_a_steady_arm_agree_and_those_of_one_that_sinks_do_not() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
    let mut agree = |fall: f64| {
        let mut told = 0;
        let mut agreed = 0;
        for _ in 0..300 {
            let mut arm = slots(&mut random, 300, 100.0, 0.3);
            arm.iter_mut().skip(150).for_each(|slot| *slot *= 1.0 - fall);
            let Some(halves) = halves_agree(&arm) else { continue };
            told += 1;
            agreed += u32::from(halves);
        }
        (told, agreed)
    };
    let (told, agreed) = agree(0.0);
    assert!(told > 290 && agreed * 100 >= told * 96, "{agreed} of {told}");
    let (told, agreed) = agree(0.1);
    assert!(told > 290 && agreed == 0, "{agreed} of {told}");
    let steps: Vec<f64> = (0..400).map(|slot| if slot < 200 { 100.0 } else { 80.0 + f64::from(slot % 3) }).collect();
    assert!((halves(&steps).unwrap().ratio - 0.81).abs() < 0.01);
}
