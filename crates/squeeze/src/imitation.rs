// SPDX-License-Identifier: Apache-2.0
//! Compares a slow layer with its disk model: what the model predicts for a probe on this host, and what the probe got, at depth 1 and deeper.
//!
//! The prediction runs the model in virtual time, with the latency of a read on this host without the model, the probe's number of
//! reads, and the same seed. So any difference is caused by the layer and the host.

use crate::Error;
use crate::looks::{LOOKS, Looked, Pace, spread};
use crate::probe::{self, Reads, Task};
use diskmodel::{Class, ClosedLoop, Counts, Model, Of, closed_loop};
use evidence::{DelayMode, DiskMechanism, LatencyHistogram, Measured, Quantity, Unit};
use slowfs::control::Client;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// Readers at once in a deep look: cloud disks are specified at this depth.
const DEEP: u32 = 32;
/// The length of one deep look.
const DEEP_SECONDS: f64 = 0.8;
/// If fewer than two reads for each reader come back in this time, there is no deep look.
const DEEP_AT_MOST_SECONDS: f64 = 2.0;
const BLOCK: u64 = 4096;
/// The tolerance of the median at depth 1. Wider than for a constant delay: no disk's own figures are known to 2 %, and after a
/// long wait every thread wakes from a deeper sleep.
const TOLERANCE: f64 = 0.1;
const TOLERANCE_FLOOR_US: f64 = 50.0;
const TOLERANCE_IOPS: f64 = 0.05;
/// A larger rate is limited by the processors, not by the model.
const MOST_PROMISED_IOPS: f64 = 20_000.0;
/// Every host carries this many reads a second, so a slower model is not checked.
const SURELY_CARRIED: f64 = 5_000.0;
/// What a slow layer may add to the median read when its delay is 0, in microseconds.
const LAYER_COST_US: f64 = 20.0;
/// The share of the bare reads that the layer can carry at depth 32.
const LAYER_CARRIES: f64 = 0.5;

/// A layer that takes a model, and that a probe can read through.
pub(crate) trait Imitator {
    /// Sets the model; credits and queues start anew.
    fn set(&mut self, model: &Model) -> Result<(), Error>;
    fn read(&mut self, task: Task) -> Result<Reads, Error>;
    /// How long the files below took for all reads so far. Empty: it is not known.
    ///
    /// # Errors
    /// The layer is gone.
    fn below(&mut self) -> Result<Below, Error> {
        Ok(Below::default())
    }
    /// The mechanism's name in results.
    fn mechanism(&self) -> &'static str {
        DiskMechanism::Fuse.in_results()
    }
}

/// What a layer itself has seen of the reads that passed through it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Below {
    /// How long the files below took, without the delay.
    pub(crate) took: LatencyHistogram,
    /// What the layer subtracts from a short delay for the kernel's way to it and back; 0: nothing.
    pub(crate) way_us: f64,
}

impl Below {
    pub(crate) fn of(client: &mut Client) -> Result<Self, Error> {
        let stats = client.stats()?;
        let way = stats.way.and_then(|way| way.lengths.first().map(|shortest| shortest.taken_off_ns() as f64 / 1000.0));
        Ok(Self { took: stats.read_latency.own, way_us: way.unwrap_or_default() })
    }
}

/// A layer with its control socket, and a file or device that is read through it.
pub(crate) struct Probed<'a> {
    pub(crate) client: &'a mut Client,
    pub(crate) file: &'a File,
    pub(crate) path: &'a Path,
}

impl Imitator for Probed<'_> {
    fn set(&mut self, model: &Model) -> Result<(), Error> {
        Ok(self.client.set_model(model)?)
    }

    fn read(&mut self, task: Task) -> Result<Reads, Error> {
        probe::read(self.file, self.path, task)
    }

    fn below(&mut self) -> Result<Below, Error> {
        Below::of(self.client)
    }
}

/// The speed of this host without any delay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach {
    /// The median read at depth 1, in microseconds.
    pub read_us: f64,
    /// Reads a second at depth 32.
    pub per_second: f64,
}

impl Reach {
    /// Measured on the bare file, and corrected for the layer's cost.
    pub(crate) fn below_the_layer(mut read: impl FnMut(Task) -> Result<Reads, Error>) -> Result<Self, Error> {
        let shallow = read(Task::short(1000, 1, Duration::from_secs(1)))?;
        let deep = read(Task::short(10_000, DEEP, Duration::from_secs(1)))?;
        Ok(Self { read_us: shallow.quantile_us(0.5) + LAYER_COST_US, per_second: deep.per_second() * LAYER_CARRIES })
    }

    /// A row for each figure in which this host is slower than the disk of a profile. A profile states how long a whole request takes, so only a faster host can
    /// imitate that disk.
    pub(crate) fn beyond(&self, model: &Model) -> Vec<Measured> {
        if model.profile.is_none() || model.mode != DelayMode::Total {
            return Vec::new();
        }
        let asked_us = model.read.takes.quantile(0.5);
        let per_second = predicted(model, DEEP, 20_000, 0.0).per_second;
        let row = |what: &str, asked: f64, got: f64, unit: Unit, witness: String, tolerance: &str| Measured {
            at_us: 0,
            arm: None,
            what: what.into(),
            mechanism: "this host".into(),
            asked: Some(Quantity { value: asked, unit }),
            predicted: None,
            got: Some(Quantity { value: got, unit }),
            witness,
            within_tolerance: Some(false),
            tolerance: Some(tolerance.into()),
            looks: None,
            came_on: Some(got / asked),
        };
        let slow = (asked_us < self.read_us).then(|| {
            let witness = "direct reads of 4 KiB at depth 1 without any delay, the layer's own cost included".into();
            row("disk.floor.median", asked_us, self.read_us, Unit::Microseconds, witness, "no more than asked")
        });
        let few = (per_second > self.per_second).then(|| {
            let witness = format!("direct reads of 4 KiB at depth {DEEP} without any delay");
            let what = format!("disk.floor.iops.depth{DEEP}");
            row(&what, per_second, self.per_second, Unit::PerSecond, witness, "no less than asked")
        });
        slow.into_iter().chain(few).collect()
    }

    /// Refuses a model that this host misses; with `strict`, a model for which this host is slower at all.
    pub(crate) fn refuse(&self, model: &Model, strict: bool) -> Result<(), Error> {
        let refused = |it: &Measured| it.is_missed() || strict;
        let Some(beyond) = self.beyond(model).into_iter().find(refused) else { return Ok(()) };
        let profile = model.profile.as_deref().unwrap_or("the disk");
        let asked = beyond.asked.map_or(0.0, |asked| asked.value);
        let deep = match self.per_second {
            rate if rate.is_finite() => format!(" and makes {rate:.0} reads a second with {DEEP} readers"),
            _ => String::new(),
        };
        let floor = format!(
            "without any delay, and with the layer's own cost, this host takes {:.0} us for one read{deep}",
            self.read_us
        );
        let (what, hint) = match beyond.asked.map(|asked| asked.unit) {
            Some(Unit::PerSecond) => (
                format!("{profile} makes {asked:.0} reads a second, and this host is too slow to imitate that"),
                "choose a slower disk, or limit it: --iops",
            ),
            _ => (
                format!("{profile} answers a read in {asked:.0} us, and this host is too slow to imitate that"),
                "choose a slower disk, or longer times: --read, --write",
            ),
        };
        Err(Error::Refused { what: format!("{what}; {floor}"), hint: hint.into() })
    }
}

fn predicted(model: &Model, depth: u32, reads: u32, undelayed_us: f64) -> ClosedLoop {
    closed_loop(model, Class::Read, depth, reads, BLOCK, undelayed_us)
}

/// The results for a model, and the speed of this host without it.
#[derive(Debug)]
pub(crate) struct Held {
    /// The figures in which this host is too slow come first.
    pub(crate) measured: Vec<Measured>,
    pub(crate) reach: Reach,
}

impl Held {
    /// # Errors
    /// [`Error::Refused`]: this host cannot imitate such a disk. [`Error::OutOfTolerance`].
    pub(crate) fn accept(self, model: &Model, strict: bool) -> Result<Vec<Measured>, Error> {
        self.reach.refuse(model, strict)?;
        crate::accept(self.measured, strict)
    }
}

/// The results at one depth, over all looks.
struct Depth {
    depth: u32,
    task: [Task; LOOKS as usize],
    got: Looked,
    rates: Vec<f64>,
}

impl Depth {
    fn new(depth: u32, task: impl Fn(u32) -> Task) -> Self {
        Self { depth, task: [0, 1, 2].map(task), got: Looked::default(), rates: Vec::new() }
    }

    fn look(&mut self, layer: &mut dyn Imitator, number: usize) -> Result<(), Error> {
        let reads = layer.read(self.task[number])?;
        self.got.add(&reads.histogram);
        self.rates.push(reads.per_second());
        Ok(())
    }

    /// The median of the looks: a machine that stands still for seconds in one of them does not change it.
    fn per_second(&self) -> f64 {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().unwrap_or(0.0)
    }

    /// The prediction for one look: each look begins with fresh credits and the same draws.
    fn predicted(&self, model: &Model, undelayed_us: f64) -> ClosedLoop {
        let reads = self.got.all.count() / u64::from(LOOKS);
        predicted(model, self.depth, u32::try_from(reads).unwrap_or(u32::MAX).max(1), undelayed_us)
    }
}

/// Sets the model and measures it, in turns with looks without it. Leaves it in force with fresh credits.
///
/// # Errors
/// The layer is gone, or the file cannot be read; a read does not come back.
pub(crate) fn hold(layer: &mut dyn Imitator, model: &Model) -> Result<Held, Error> {
    let none = Model::none(model.mode);
    let carries = predicted(model, DEEP, 20_000, 0.0).per_second;
    let pace = Pace::of(1e6 / predicted(model, 1, 100, 0.0).per_second);
    let mut bare = Depth::new(1, |_| pace.bare());
    let mut bare_deep = Depth::new(DEEP, |_| Task::short(DEEP * 300, DEEP, Duration::from_millis(150)));
    let mut depths = vec![Depth::new(1, |look| pace.look(look))];
    depths.extend(deep_task(model).map(|task| Depth::new(DEEP, |_| task)));
    for number in 0..LOOKS as usize {
        layer.set(&none)?;
        bare.look(layer, number)?;
        bare_deep.look(layer, number)?;
        for depth in &mut depths {
            layer.set(model)?;
            depth.look(layer, number)?;
        }
    }
    layer.set(model)?;
    let per_second = if carries > SURELY_CARRIED { bare_deep.per_second() } else { f64::INFINITY };
    let reach = Reach { read_us: bare.got.median_us(), per_second };
    let rows = depths.iter().flat_map(|depth| compare(model, depth, reach.read_us, bare_deep.per_second()));
    let named = rows.map(|it| Measured { mechanism: layer.mechanism().into(), ..it });
    let measured = reach.beyond(model).into_iter().chain(named.collect::<Vec<_>>()).collect();
    Ok(Held { measured, reach })
}

/// `None`: a disk with so few answers a second is only measured at depth 1.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // clamped
fn deep_task(model: &Model) -> Option<Task> {
    let rate = predicted(model, DEEP, 100 * DEEP, 0.0).per_second;
    let least = 2 * DEEP;
    let time = Duration::from_secs_f64(DEEP_AT_MOST_SECONDS * 1.2);
    (f64::from(least) / rate <= DEEP_AT_MOST_SECONDS).then(|| Task {
        reads: (rate * DEEP_SECONDS).clamp(least.into(), f64::from(1000 * DEEP)) as u32,
        depth: DEEP,
        least: DEEP,
        time,
        deadline: Duration::from_secs(80),
    })
}

/// `undelayed_us`: a read at depth 1 without the model. `undelayed_rate`: reads a second at depth 32 without it, so that a disk
/// that others slow down is no miss.
fn compare(model: &Model, depth: &Depth, undelayed_us: f64, undelayed_rate: f64) -> Vec<Measured> {
    let (seen, got, shallow) = (depth.predicted(model, undelayed_us), &depth.got, depth.depth == 1);
    let named = |what: &str| match shallow {
        true => format!("disk.read.{what}"),
        false => format!("disk.read.{what}.depth{}", depth.depth),
    };
    let witness = format!("{} direct reads of 4 KiB at depth {} in {LOOKS} looks", got.all.count(), depth.depth);
    let row = |what: &str, asked: Option<f64>, predicted: f64, got: f64, unit: Unit| Measured {
        at_us: 0,
        arm: None,
        what: named(what),
        mechanism: String::new(),
        asked: asked.map(|value| Quantity { value, unit }),
        predicted: Some(Quantity { value: predicted, unit }),
        got: Some(Quantity { value: got, unit }),
        witness: witness.clone(),
        within_tolerance: None,
        tolerance: None,
        looks: None,
        came_on: None,
    };
    let quantile = |what: &str, p: f64| {
        let asked = shallow.then(|| model.read.takes.quantile(p));
        let got_us = got.all.percentile_ns(p * 100.0) as f64 / 1000.0;
        row(what, asked, seen.quantile_us(p), got_us, Unit::Microseconds)
    };
    let (mut median, p99) = (quantile("median", 0.5), quantile("p99", 0.99));
    median.looks = Some(got.looks());
    if shallow {
        let (predicted, got_us) = (seen.quantile_us(0.5), got.median_us());
        let own = if model.mode == DelayMode::Add { undelayed_us } else { 0.0 };
        // A disk that does not delay the median read makes no promise for it.
        if predicted - own > TOLERANCE_FLOOR_US {
            let off = (got_us - predicted).abs();
            median.within_tolerance = Some(off <= (predicted * TOLERANCE).max(TOLERANCE_FLOOR_US));
            median.tolerance = Some(format!("10 % more or less, at least {TOLERANCE_FLOOR_US} us"));
            median.came_on = Some((got_us - own) / (predicted - own));
        }
        return vec![median, p99];
    }
    let predicted = seen.per_second.min(undelayed_rate);
    let mut rate = row("iops", cap(model), predicted, depth.per_second(), Unit::PerSecond);
    rate.looks = Some(spread(&depth.rates, got.all.count()));
    if (cap(model).is_some() || model.depth.is_some()) && predicted <= MOST_PROMISED_IOPS {
        let share = depth.per_second() / predicted;
        rate.within_tolerance = Some((share - 1.0).abs() <= TOLERANCE_IOPS);
        rate.tolerance = Some("5 % more or less".into());
        rate.came_on = Some(share);
    }
    vec![rate, median, p99]
}

/// The reads a second that the model lets through when its credits are spent.
fn cap(model: &Model) -> Option<f64> {
    let counted = model.limits.iter().filter(|limit| limit.counts == Counts::Operations && limit.of != Of::Writes);
    counted.map(|limit| limit.rate_per_second).min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(profile: &str) -> Model {
        let asked = diskmodel::DiskRequest { profile: profile.parse().ok(), ..Default::default() };
        asked.model(&mut |_| Err(String::new())).expect("a profile")
    }

    #[test]
    fn a_disk_that_is_faster_than_the_host_is_refused_with_the_floor() {
        let reach = Reach { read_us: 70.0, per_second: 40_000.0 };
        assert!(reach.refuse(&model("gp3"), true).is_ok());
        let said = reach.refuse(&model("nvme"), false).expect_err("too many").to_string();
        assert!(
            said.contains("reads a second, and this host is too slow") && said.contains("takes 70 us for one read"),
            "{said}"
        );
        let slow = Reach { read_us: 1700.0, ..reach };
        let said = slow.refuse(&model("gp3"), false).expect_err("too fast").to_string();
        assert!(said.contains("gp3 answers a read in 550 us"), "{said}");
        assert!(slow.refuse(&Model { profile: None, ..model("gp3") }, true).is_ok(), "only what claims to be a disk");
    }

    #[test]
    fn a_disk_that_is_somewhat_faster_than_the_host_is_a_result_with_the_floor() {
        let slow = Reach { read_us: 700.0, per_second: 40_000.0 };
        assert!(slow.refuse(&model("gp3"), false).is_ok());
        assert!(slow.refuse(&model("gp3"), true).is_err());
        let [row] = slow.beyond(&model("gp3")).try_into().expect("one");
        assert_eq!((row.what.as_str(), row.asked.expect("asked").value), ("disk.floor.median", 550.0));
        assert!(row.is_outside() && !row.is_missed() && row.got.expect("got").value == 700.0, "{row:?}");
    }

    /// Answers by the model, slower by a factor.
    struct Imitated {
        model: Model,
        factor: f64,
        sets: u32,
        /// The number of deep looks of the model in which the machine stands still for a while.
        frozen: u32,
    }

    impl Imitator for Imitated {
        fn set(&mut self, model: &Model) -> Result<(), Error> {
            self.sets += 1;
            self.model = model.clone();
            Ok(())
        }

        fn read(&mut self, task: Task) -> Result<Reads, Error> {
            let factor = if self.model.is_constant() { 1.0 } else { self.factor };
            let seen = predicted(&self.model, task.depth, task.reads, 60.0);
            let mut histogram = LatencyHistogram::new();
            #[allow(clippy::cast_possible_truncation)]
            (0..task.reads).for_each(|at| {
                let p = f64::from(at) / f64::from(task.reads.max(2) - 1);
                histogram.record((seen.quantile_us(p) * factor * 1000.0) as u64);
            });
            #[allow(clippy::cast_possible_truncation)]
            let elapsed_us = (f64::from(task.reads) / seen.per_second * 1e6 * factor) as u64;
            let is_frozen = task.depth == DEEP && !self.model.is_constant() && self.frozen > 0;
            self.frozen -= u32::from(is_frozen);
            let elapsed_us = if is_frozen { 6 * elapsed_us } else { elapsed_us };
            Ok(Reads { histogram, elapsed_us })
        }
    }

    #[test]
    fn what_does_as_the_model_says_is_within_tolerance_and_all_looks_count() {
        let held = |factor| {
            let mut layer = Imitated { model: Model::none(DelayMode::Add), factor, sets: 0, frozen: 0 };
            let held = hold(&mut layer, &model("gp2:100G,credits=0")).expect("measured");
            assert_eq!(layer.model.profile.as_deref(), Some("gp2:100G,credits=0"), "left in force");
            assert_eq!(layer.sets, 10, "three looks, whatever they come to");
            held.measured
        };
        let good = held(1.0);
        let of = |what: &str| good.iter().find(|it| it.what == what).cloned().expect(what);
        let median = of("disk.read.median");
        assert_eq!((median.within_tolerance, median.looks.map(|looks| looks.number)), (Some(true), Some(3)));
        // With 300 IOPS and no credits even a single reader is held back.
        assert!((median.got.expect("got").value - 3333.0).abs() < 40.0);
        let iops = of("disk.read.iops.depth32");
        assert_eq!((iops.within_tolerance, iops.asked.expect("asked").value), (Some(true), 300.0));
        assert_eq!(of("disk.read.p99").within_tolerance, None);
        let outside = |rows: &[Measured]| rows.iter().filter(|it| it.is_outside()).count();
        let missed = |rows: &[Measured]| rows.iter().filter(|it| it.is_missed()).count();
        let noted = held(1.2);
        assert_eq!((outside(&noted), missed(&noted)), (2, 0));
        let slowed = held(2.5);
        assert_eq!((outside(&slowed), missed(&slowed)), (2, 0), "what a busy host adds is told");
        assert_eq!(missed(&held(0.3)), 2);
    }

    #[test]
    fn one_look_in_which_the_machine_stood_still_does_not_decide() {
        let outside = |frozen| {
            let mut layer = Imitated { model: Model::none(DelayMode::Add), factor: 1.0, sets: 0, frozen };
            let held = hold(&mut layer, &model("gp2:100G,credits=0")).expect("measured");
            held.measured.iter().filter(|it| it.is_outside()).count()
        };
        assert_eq!([0, 1, 2].map(outside), [0, 0, 1]);
    }

    #[test]
    fn what_answers_a_few_times_a_second_is_not_looked_at_deep() {
        let asked = |words: &str| {
            let asked = diskmodel::DiskRequest { read: words.parse().ok(), depth: Some(1), ..Default::default() };
            asked.model(&mut |_| Err(String::new())).expect("a model")
        };
        assert!(deep_task(&asked("20ms")).is_some() && deep_task(&asked("100ms")).is_none());
    }
}
