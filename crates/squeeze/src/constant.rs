// SPDX-License-Identifier: Apache-2.0
//! Measures a delay that is the same for each read: direct reads at depth 1, with the delay and without it, in turns.

use crate::Error;
use crate::imitation::{Below, Imitator};
use crate::looks::{LOOKS, Looked, Pace};
use crate::probe::Task;
use evidence::{Delay, DelayMode, Measured, Quantity};

const TOLERANCE: f64 = 0.02;
/// A smaller tolerance would only measure the timer's own jitter.
const TOLERANCE_FLOOR_US: f64 = 15.0;

/// Sets the delay, measures it, and leaves it in force. Each look also reads without the delay, so that disturbances by the host hit both.
///
/// # Errors
/// The layer is gone, or the file cannot be read; a read does not come back.
pub(crate) fn hold(layer: &mut dyn Imitator, delay: Delay, by_whom: &str) -> Result<Measured, Error> {
    let pace = Pace::of(delay.read_us as f64);
    let (mut bare, mut got) = (Reading::default(), Reading::default());
    for look in 0..LOOKS {
        layer.set(&Delay { read_us: 0, ..delay }.into())?;
        bare.look(layer, pace.bare())?;
        if delay.read_us > 0 {
            layer.set(&delay.into())?;
            got.look(layer, pace.look(look))?;
        }
    }
    layer.set(&delay.into())?;
    let measured = compare(delay, &bare, &got, by_whom);
    Ok(Measured { mechanism: layer.mechanism().into(), ..measured })
}

/// The looks with the delay, or those without it.
#[derive(Debug, Default)]
struct Reading {
    looked: Looked,
    /// The same reads as the layer saw them.
    below: Below,
}

impl Reading {
    fn look(&mut self, layer: &mut dyn Imitator, task: Task) -> Result<(), Error> {
        let before = layer.below()?.took;
        self.looked.add(&layer.read(task)?.histogram);
        let after = layer.below()?;
        self.below.took.merge(&after.took.since(&before));
        self.below.way_us = after.way_us;
        Ok(())
    }
}

/// Without an asked delay nothing can be missed: the bare latency is the result.
fn compare(delay: Delay, bare: &Reading, got: &Reading, by_whom: &str) -> Measured {
    let (asked, bare_us) = (delay.read_us as f64, bare.looked.median_us());
    let promised = delay.read_us > 0;
    let looked = if promised { &got.looked } else { &bare.looked };
    let median = looked.median_us();
    let undelayed_us = undelayed_us(bare, got);
    let predicted = match delay.mode {
        DelayMode::Add => asked + undelayed_us,
        DelayMode::Total => asked.max(bare_us),
    };
    let came_on = match delay.mode {
        DelayMode::Add => (median - undelayed_us) / asked,
        DelayMode::Total => median / predicted,
    };
    let tolerance = (predicted * TOLERANCE).max(TOLERANCE_FLOOR_US);
    let beside = if promised {
        format!(
            "; {} in turns with them without the delay ({bare_us:.0} us){}",
            bare.looked.all.count(),
            below(bare, got)
        )
    } else {
        String::new()
    };
    Measured {
        at_us: 0,
        arm: None,
        what: "disk.read.median".into(),
        mechanism: String::new(),
        asked: Some(Quantity::micros(asked)),
        predicted: promised.then(|| Quantity::micros(predicted)),
        got: Some(Quantity::micros(median)),
        witness: format!("{} direct reads of 4 KiB at depth 1 in {LOOKS} looks, {by_whom}{beside}", looked.all.count()),
        within_tolerance: promised.then(|| (median - predicted).abs() <= tolerance),
        tolerance: promised.then(|| format!("2 % more or less, at least {TOLERANCE_FLOOR_US} us")),
        looks: Some(looked.looks()),
        came_on: promised.then_some(came_on),
    }
}

/// What a read takes beside the delay: what the disk below took for the delayed reads, which is more than for reads one after the other when the
/// disk takes longer after a rest; and what the reads without a delay took beyond the disk and the way that the layer subtracts from each delay.
fn undelayed_us(bare: &Reading, got: &Reading) -> f64 {
    let bare_us = bare.looked.median_us();
    let Some([with, without]) = took_us(bare, got) else { return bare_us };
    with + (bare_us - without - bare.below.way_us).max(0.0)
}

/// Names what the disk below took, where the layer knows it.
fn below(bare: &Reading, got: &Reading) -> String {
    took_us(bare, got).map_or_else(String::new, |[with, without]| {
        format!("; of these times the disk below took {with:.0} us with the delay, and {without:.0} us without it")
    })
}

/// What the disk below took with the delay, and without it. `None`: the layer does not know it.
fn took_us(bare: &Reading, got: &Reading) -> Option<[f64; 2]> {
    let took = [&got.below.took, &bare.below.took];
    took.iter().all(|it| !it.is_empty()).then(|| took.map(|it| it.median_us()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Reads;
    use diskmodel::Model;
    use evidence::LatencyHistogram;

    fn looked(us: &[u64]) -> Looked {
        let mut looked = Looked::default();
        for us in us {
            let mut look = LatencyHistogram::new();
            look.record_n(us * 1000, 100);
            looked.add(&look);
        }
        looked
    }

    fn delay(read_us: u64, mode: DelayMode) -> Delay {
        Delay { read_us, write_us: 0, sync_us: 0, mode, varies: false }
    }

    /// Readings of which the layer saw nothing.
    fn unseen(us: u64) -> Reading {
        Reading { looked: looked(&[us]), ..Reading::default() }
    }

    fn measured(mode: DelayMode, bare_us: u64, got_us: u64) -> Measured {
        compare(delay(10_000, mode), &unseen(bare_us), &unseen(got_us), "by a test")
    }

    #[test]
    fn add_is_held_to_asked_plus_undelayed() {
        let within = |got| measured(DelayMode::Add, 60, got).within_tolerance;
        assert_eq!([10_060, 10_250, 10_300, 9_800].map(within), [Some(true), Some(true), Some(false), Some(false)]);
    }

    #[test]
    fn total_is_held_to_asked() {
        assert_eq!(measured(DelayMode::Total, 60, 10_000).predicted, Some(Quantity::micros(10_000.0)));
        assert_eq!(measured(DelayMode::Total, 60, 10_060).within_tolerance, Some(true));
    }

    /// Others read on the same disk, and a read takes 30 ms without any delay.
    #[test]
    fn a_disk_that_others_make_slow_is_no_miss() {
        for (mode, got_us) in [(DelayMode::Add, 40_100), (DelayMode::Total, 30_200)] {
            let measured = measured(mode, 30_000, got_us);
            assert_eq!(measured.within_tolerance, Some(true), "{measured:?}");
            assert!((measured.came_on.unwrap() - 1.0).abs() < 0.02, "{measured:?}");
        }
    }

    /// A read takes 70 us of which 32 are the disk's; after a rest of 10 ms the disk takes 285.
    #[test]
    fn a_disk_that_takes_longer_after_a_rest_is_predicted_so() {
        let reading = |us: u64, took_us: u64, way_us: f64| {
            let took = looked(&[took_us]).all;
            Reading { looked: looked(&[us]), below: Below { took, way_us } }
        };
        let predicted = |way_us: f64, got_us: u64| {
            let bare = reading(70, 32, way_us);
            compare(delay(10_000, DelayMode::Add), &bare, &reading(got_us, 285, way_us), "by a test")
        };
        let near = |measured: &Measured, us: f64| (measured.predicted.unwrap().value - us).abs() < 12.0;
        // all of what is not the disk's is subtracted from the delay; nothing of it is
        let (with_way, without) = (predicted(38.0, 10_290), predicted(0.0, 10_325));
        assert!(near(&with_way, 10_285.0) && with_way.within_tolerance == Some(true), "{with_way:?}");
        assert!(near(&without, 10_323.0) && without.within_tolerance == Some(true), "{without:?}");
        assert!((with_way.came_on.unwrap() - 1.0).abs() < 0.01, "{with_way:?}");
        assert!(with_way.witness.contains("285 us with the delay, and 32 us without it"), "{}", with_way.witness);
        // a longer way than what was measured is subtracted once only
        assert!(near(&predicted(60.0, 10_290), 10_285.0));
    }

    #[test]
    fn out_of_tolerance_is_noted_and_less_than_half_is_missed() {
        let got = |us| measured(DelayMode::Add, 60, us);
        let both = |us| (got(us).is_outside(), got(us).is_missed());
        assert_eq!(both(10_100), (false, false));
        // a busy host adds to each read, and the delay is in force
        assert_eq!([7_000, 13_000, 25_000].map(both), [(true, false); 3]);
        assert_eq!([60, 4_000].map(both), [(true, true); 2]);
    }

    /// A layer that delays as it is told; without a delay a read takes 60 us.
    #[derive(Default)]
    struct Obeys {
        delay_us: u64,
        reads: Vec<(u64, u32)>,
    }

    impl Imitator for Obeys {
        fn set(&mut self, model: &Model) -> Result<(), Error> {
            self.delay_us = model.delay().read_us;
            Ok(())
        }

        fn read(&mut self, task: Task) -> Result<Reads, Error> {
            self.reads.push((self.delay_us, task.reads));
            let mut histogram = LatencyHistogram::new();
            histogram.record_n((60 + self.delay_us) * 1000, task.reads.into());
            Ok(Reads { histogram, elapsed_us: 1 })
        }
    }

    #[test]
    fn it_looks_three_times_with_the_delay_and_without_in_turns() {
        let mut layer = Obeys::default();
        let measured = hold(&mut layer, delay(10_000, DelayMode::Add), "by a test").unwrap();
        let delays: Vec<u64> = layer.reads.iter().map(|(delay, _)| *delay).collect();
        assert_eq!((delays, layer.delay_us), (vec![0, 10_000, 0, 10_000, 0, 10_000], 10_000));
        let looks = measured.looks.unwrap();
        assert_eq!((looks.number, looks.readings, measured.within_tolerance), (3, 240, Some(true)));

        let mut layer = Obeys::default();
        hold(&mut layer, delay(10_000_000, DelayMode::Add), "by a test").unwrap();
        let delayed: u32 = layer.reads.iter().filter(|(delay, _)| *delay > 0).map(|(_, reads)| reads).sum();
        assert_eq!(delayed, 5, "{:?}", layer.reads);
    }

    #[test]
    fn no_delay_cannot_miss() {
        let mut layer = Obeys::default();
        let measured = hold(&mut layer, delay(0, DelayMode::Add), "by a test").unwrap();
        assert_eq!((measured.within_tolerance, measured.came_on, measured.is_missed()), (None, None, false));
        assert!((measured.got.unwrap().value - 60.0).abs() < 1.0 && layer.reads.iter().all(|(delay, _)| *delay == 0));
    }
}
