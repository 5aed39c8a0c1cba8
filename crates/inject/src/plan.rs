// SPDX-License-Identifier: Apache-2.0
//! A plan: which stalls happen, when, and for how long. No I/O: the same seed and the same numbers give the same plan.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use serde::{Serialize, Serializer};
use stalls::Cause;

/// One stall of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Injection {
    #[serde(serialize_with = "by_name")]
    pub cause: Cause,
    /// Counted from the moment when everything is ready.
    pub at_us: u64,
    pub length_us: u64,
}

fn by_name<S: Serializer>(cause: &Cause, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(cause.name())
}

impl Injection {
    /// The moment at which it must be over, counted as [`Injection::at_us`].
    pub fn ends_us(&self) -> u64 {
        self.at_us.saturating_add(self.length_us)
    }
}

/// What a random plan is drawn from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random {
    pub seed: u64,
    pub count: u32,
    /// Each length is drawn between these two, evenly by its logarithm: lengths from 20 to 40 ms are as likely as lengths from 40 to 80 ms, so
    /// that short stalls are as common as long ones. 1 or more.
    pub shortest_us: u64,
    pub longest_us: u64,
    /// Each cause is drawn as often as the others, or once more.
    pub causes: Vec<Cause>,
    /// The time after which the whole plan is over.
    pub lasts_us: u64,
    /// The shortest time before the first stall, between two stalls, and after the last one.
    pub gap_us: u64,
    /// Each moment is drawn independently, so that two stalls may overlap.
    pub may_overlap: bool,
}

/// Why such a plan is impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Impossible {
    #[error("a plan needs one cause, one injection and one microsecond at least")]
    Empty,
    #[error("the shortest length ({shortest_us} us) is above the longest ({longest_us} us)")]
    Lengths { shortest_us: u64, longest_us: u64 },
    #[error(
        "{count} injections take {} ms together with the pauses beside them, and there are {} ms: fewer, shorter, or for longer",
        .needed_us.div_ceil(1000), .lasts_us / 1000
    )]
    TooLong { count: u32, needed_us: u64, lasts_us: u64 },
}

/// Sorted by moment.
///
/// # Errors
/// The numbers contradict each other, or the stalls do not fit into the time.
pub fn random(asked: &Random) -> Result<Vec<Injection>, Impossible> {
    let Random { shortest_us, longest_us, lasts_us, gap_us, count, .. } = *asked;
    if asked.causes.is_empty() || count == 0 || shortest_us == 0 {
        return Err(Impossible::Empty);
    }
    if shortest_us > longest_us {
        return Err(Impossible::Lengths { shortest_us, longest_us });
    }
    let mut draws = Draws(Xoshiro256PlusPlus::seed_from_u64(asked.seed));
    let lengths: Vec<u64> = (0..count).map(|_| draws.length_us(shortest_us, longest_us)).collect();
    let causes = draws.causes(&asked.causes, lengths.len());
    let moments =
        if asked.may_overlap { alone(asked, &lengths, &mut draws) } else { apart(asked, &lengths, &mut draws) };
    let (moments, needed_us) = moments;
    let moments = moments.ok_or(Impossible::TooLong { count, needed_us, lasts_us })?;
    let all = causes.into_iter().zip(moments).zip(lengths);
    let mut plan: Vec<Injection> =
        all.map(|((cause, at_us), length_us)| Injection { cause, at_us, length_us }).collect();
    plan.sort_by_key(|it| it.at_us);
    debug_assert!(plan.iter().all(|it| it.ends_us() <= lasts_us && it.at_us >= gap_us.min(lasts_us)));
    Ok(plan)
}

/// The begin of each stall, `None` when they do not fit; and the time that they need.
type Moments = (Option<Vec<u64>>, u64);

fn alone(asked: &Random, lengths: &[u64], draws: &mut Draws) -> Moments {
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let needed_us = longest.saturating_add(asked.gap_us.saturating_mul(2));
    let of = |draws: &mut Draws, length: u64| {
        let free = asked.lasts_us.checked_sub(length.saturating_add(asked.gap_us.saturating_mul(2)))?;
        Some(asked.gap_us + draws.up_to(free))
    };
    (lengths.iter().map(|length| of(draws, *length)).collect(), needed_us)
}

/// Moments without overlap: the time that is left over is divided at random points into the pauses between stalls.
fn apart(asked: &Random, lengths: &[u64], draws: &mut Draws) -> Moments {
    let gaps = asked.gap_us.saturating_mul(lengths.len() as u64 + 1);
    let needed_us = lengths.iter().fold(gaps, |sum, length| sum.saturating_add(*length));
    let Some(free) = asked.lasts_us.checked_sub(needed_us) else { return (None, needed_us) };
    let mut points: Vec<u64> = lengths.iter().map(|_| draws.up_to(free)).collect();
    points.sort_unstable();
    let mut before = 0;
    let moment = |(point, length): (u64, &u64)| {
        before += asked.gap_us;
        let at = before + point;
        before += length;
        at
    };
    (Some(points.into_iter().zip(lengths).map(moment).collect()), needed_us)
}

struct Draws(Xoshiro256PlusPlus);

impl Draws {
    /// From 0 up to, and without, 1.
    fn share(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn up_to(&mut self, most: u64) -> u64 {
        #[allow(clippy::cast_possible_truncation)] // saturates, and is limited
        let drawn = (self.share() * (most as f64 + 1.0)) as u64;
        drawn.min(most)
    }

    fn length_us(&mut self, shortest: u64, longest: u64) -> u64 {
        #[allow(clippy::cast_possible_truncation)] // saturates, and is limited
        let drawn = (shortest as f64 * (longest as f64 / shortest as f64).powf(self.share())).round() as u64;
        drawn.clamp(shortest, longest)
    }

    /// The causes, each equally often, in a random order.
    fn causes(&mut self, causes: &[Cause], count: usize) -> Vec<Cause> {
        let mut all: Vec<Cause> = causes.iter().copied().cycle().take(count).collect();
        for last in (1..all.len()).rev() {
            #[allow(clippy::cast_possible_truncation)] // at most `last`
            let other = self.up_to(last as u64) as usize;
            all.swap(last, other);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND_US: u64 = 1_000_000;

    fn asked() -> impl Strategy<Value = Random> {
        let causes = proptest::sample::subsequence(vec![Cause::RowLock, Cause::MetadataLock, Cause::Sync], 1..=3);
        let lengths = (1..2 * SECOND_US, 1..2 * SECOND_US);
        (any::<u64>(), 1..60u32, lengths, causes, 1..120u64, 0..SECOND_US, any::<bool>()).prop_map(
            |(seed, count, (one, other), causes, seconds, gap_us, may_overlap)| Random {
                seed,
                count,
                shortest_us: one.min(other),
                longest_us: one.max(other),
                causes,
                lasts_us: seconds * SECOND_US,
                gap_us,
                may_overlap,
            },
        )
    }

    proptest! {
        #[test]
        fn a_plan_keeps_what_was_asked(asked in asked()) {
            let Ok(plan) = random(&asked) else {
                let shortest = asked.shortest_us * if asked.may_overlap { 1 } else { u64::from(asked.count) };
                let longest = shortest / asked.shortest_us * asked.longest_us;
                prop_assert!(longest + asked.gap_us * (u64::from(asked.count) + 1) > asked.lasts_us, "it would fit");
                return Ok(());
            };
            prop_assert_eq!(plan.len(), asked.count as usize);
            for it in &plan {
                prop_assert!((asked.shortest_us..=asked.longest_us).contains(&it.length_us));
                prop_assert!(it.at_us >= asked.gap_us && it.ends_us() + asked.gap_us <= asked.lasts_us, "{:?}", it);
            }
            for pair in plan.windows(2) {
                prop_assert!(pair[0].at_us <= pair[1].at_us);
                prop_assert!(asked.may_overlap || pair[0].ends_us() + asked.gap_us <= pair[1].at_us, "{:?}", pair);
            }
            let often = asked.causes.iter().map(|cause| plan.iter().filter(|it| it.cause == *cause).count());
            let (least, most) = often.fold((usize::MAX, 0), |(least, most), it| (least.min(it), most.max(it)));
            prop_assert!(most - least <= 1, "{} to {}", least, most);
            prop_assert_eq!(random(&asked), Ok(plan), "the same again");
        }
    }

    #[test]
    fn another_seed_is_another_plan() {
        let asked = |seed| Random {
            seed,
            count: 20,
            shortest_us: 20_000,
            longest_us: 2 * SECOND_US,
            causes: vec![Cause::RowLock, Cause::MetadataLock],
            lasts_us: 60 * SECOND_US,
            gap_us: 100_000,
            may_overlap: false,
        };
        assert_ne!(random(&asked(7)), random(&asked(8)));
        let plan = random(&asked(7)).expect("fits");
        assert!(
            plan.iter().any(|it| it.length_us < 200_000) && plan.iter().any(|it| it.length_us > SECOND_US / 2),
            "{plan:?}"
        );
    }
}
