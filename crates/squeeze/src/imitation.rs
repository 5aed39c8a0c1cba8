// SPDX-License-Identifier: Apache-2.0
//! A slow layer held to its disk model: what the model is to give a probe on this host, and what the probe got, at depth 1 and deeper.
//!
//! The prediction is the model itself in virtual time with what a read takes here without it, over as many reads as the probe makes
//! and from the same seed: what differs is the layer's and the host's doing.

use crate::Error;
use crate::disk::{LAYER_COST_US, Mechanism};
use crate::probe::{self, Reads};
use diskmodel::{Class, Counts, Model, Of, Seen, closed_loop};
use evidence::{DelayMode, Measured, Quantity, Unit};
use slowfs::control::Client;
use std::fs::File;
use std::path::Path;

/// Readers at once: what cloud disks are specified at.
const DEEP: u32 = 32;
const PROBE_SECONDS: f64 = 1.5;
const LOOKS: u32 = 3;
const BLOCK: u64 = 4096;
/// Of the median at depth 1. Wider than for a constant delay: no disk's own figures are known to a fiftieth, and after a long wait
/// everybody wakes from a deeper sleep.
const TOLERANCE: f64 = 0.1;
const TOLERANCE_FLOOR_US: f64 = 50.0;
/// Of the operations a second.
const TOLERANCE_IOPS: f64 = 0.05;
/// More than this is the processors' limit, not the model's.
const MOST_PROMISED_IOPS: f64 = 20_000.0;
/// No host needs to be asked whether it carries so much.
const SURELY_CARRIED: f64 = 5_000.0;
/// The part of the reads below that the layer can carry at depth 32.
const LAYER_CARRIES: f64 = 0.5;

/// A layer that can be told a model, and read through.
pub(crate) trait Imitator {
    /// Credits and queues start anew.
    fn set(&mut self, model: &Model) -> Result<(), Error>;
    fn read(&mut self, reads: u32, depth: u32) -> Result<Reads, Error>;
    /// As it is named in a result.
    fn mechanism(&self) -> &'static str {
        Mechanism::Fuse.in_results()
    }
}

/// What serves a disk model by its control socket, and a file or device that is read through it.
pub(crate) struct Probed<'a> {
    pub(crate) client: &'a mut Client,
    pub(crate) file: &'a File,
    pub(crate) path: &'a Path,
}

impl Imitator for Probed<'_> {
    fn set(&mut self, model: &Model) -> Result<(), Error> {
        Ok(self.client.set_model(model)?)
    }

    fn read(&mut self, reads: u32, depth: u32) -> Result<Reads, Error> {
        probe::read_at(self.file, self.path, reads, depth)
    }
}

/// What this host needs without any delay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach {
    /// At depth 1, at the median.
    pub read_us: f64,
    /// At depth 32.
    pub per_second: f64,
}

impl Reach {
    /// Of the bare file, taken for what the layer will make of it.
    pub(crate) fn below_the_layer(mut read: impl FnMut(u32, u32) -> Result<Reads, Error>) -> Result<Self, Error> {
        let shallow = read(1000, 1)?;
        let deep = read(10_000, DEEP)?;
        Ok(Self { read_us: shallow.quantile_us(0.5) + LAYER_COST_US, per_second: deep.per_second() * LAYER_CARRIES })
    }

    /// A disk that is imitated must be slower than what imitates it.
    pub(crate) fn refuse_faster(&self, model: &Model) -> Result<(), Error> {
        let (Some(profile), DelayMode::Total) = (&model.profile, model.mode) else { return Ok(()) };
        let asked_us = model.read.takes.quantile(0.5);
        let per_second = predicted(model, DEEP, 20_000, 0.0).per_second;
        let deep = match self.per_second {
            rate if rate.is_finite() => format!(" and {rate:.0} reads/s at depth {DEEP}"),
            _ => String::new(),
        };
        let floor = format!(
            "the floor measured here is {:.0} us a read at depth 1{deep}, the layer's own cost included",
            self.read_us
        );
        let refused =
            |what: String, hint: &str| Err(Error::Refused { what: format!("{what}; {floor}"), hint: hint.into() });
        if asked_us < self.read_us {
            let what = format!("{profile} answers a read in {asked_us:.0} us, which this host cannot");
            return refused(what, "choose a slower disk, or longer times: --read, --write");
        }
        if per_second > self.per_second {
            let what = format!("{profile} carries {per_second:.0} reads/s, which this host cannot");
            return refused(what, "choose a slower disk, or limit it: --iops");
        }
        Ok(())
    }
}

fn predicted(model: &Model, depth: u32, reads: u32, undelayed_us: f64) -> Seen {
    closed_loop(model, Class::Read, depth, reads, BLOCK, undelayed_us)
}

/// Sets the model, and measures it until it is within its tolerance or has been looked at often enough. Leaves it in force with fresh
/// credits.
pub(crate) fn hold(layer: &mut dyn Imitator, model: &Model) -> Result<Vec<Measured>, Error> {
    let mut measured = Vec::new();
    for look in 1..=LOOKS {
        layer.set(&Model::none(model.mode))?;
        let undelayed_us = layer.read(1000, 1)?.quantile_us(0.5);
        let carries = predicted(model, DEEP, 20_000, 0.0).per_second;
        let per_second = match model.profile {
            Some(_) if carries > SURELY_CARRIED => layer.read(DEEP * 300, DEEP)?.per_second(),
            _ => f64::INFINITY,
        };
        Reach { read_us: undelayed_us, per_second }.refuse_faster(model)?;
        measured = look_once(layer, model, undelayed_us, look)?;
        if measured.iter().all(|it| it.within_tolerance != Some(false)) {
            break;
        }
    }
    layer.set(model)?;
    Ok(measured)
}

fn look_once(layer: &mut dyn Imitator, model: &Model, undelayed_us: f64, look: u32) -> Result<Vec<Measured>, Error> {
    let mut found = Vec::new();
    for depth in [1, DEEP] {
        let reads = reads_in_time(model, depth, undelayed_us);
        let seen = predicted(model, depth, reads, undelayed_us);
        layer.set(model)?;
        let got = layer.read(reads, depth)?;
        let mechanism = layer.mechanism();
        let compared = compare(model, depth, &seen, &got, look);
        found.extend(compared.into_iter().map(|it| Measured { mechanism: mechanism.into(), ..it }));
    }
    Ok(found)
}

/// So many as take about a second and a half.
#[allow(clippy::cast_possible_truncation)] // clamped
fn reads_in_time(model: &Model, depth: u32, undelayed_us: f64) -> u32 {
    let rate = predicted(model, depth, 100 * depth, undelayed_us).per_second;
    (rate * PROBE_SECONDS).clamp(f64::from(50.max(4 * depth)), f64::from(2000 * depth)) as u32
}

fn compare(model: &Model, depth: u32, seen: &Seen, got: &Reads, look: u32) -> Vec<Measured> {
    let named =
        |what: &str| if depth == 1 { format!("disk.read.{what}") } else { format!("disk.read.{what}.depth{depth}") };
    let again = if look == 1 { String::new() } else { format!("; look {look} of at most {LOOKS}") };
    let witness = format!("{} direct reads of 4 KiB at depth {depth}{again}", got.histogram.count());
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
    };
    let quantile = |what: &str, p: f64| {
        let asked = (depth == 1).then(|| model.read.takes.quantile(p));
        row(what, asked, seen.quantile_us(p), got.quantile_us(p), Unit::Microseconds)
    };
    let (mut median, p99) = (quantile("median", 0.5), quantile("p99", 0.99));
    if depth == 1 {
        let off = (got.quantile_us(0.5) - seen.quantile_us(0.5)).abs();
        median.within_tolerance = Some(off <= (seen.quantile_us(0.5) * TOLERANCE).max(TOLERANCE_FLOOR_US));
        median.tolerance = Some(format!("10 % of predicted, at least {TOLERANCE_FLOOR_US} us"));
        return vec![median, p99];
    }
    let mut rate = row("iops", cap(model), seen.per_second, got.per_second(), Unit::PerSecond);
    if (cap(model).is_some() || model.depth.is_some()) && seen.per_second <= MOST_PROMISED_IOPS {
        rate.within_tolerance = Some((got.per_second() / seen.per_second - 1.0).abs() <= TOLERANCE_IOPS);
        rate.tolerance = Some("5 % of predicted".into());
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
    use evidence::LatencyHistogram;

    fn model(profile: &str) -> Model {
        let asked = diskmodel::Asked { profile: profile.parse().ok(), ..Default::default() };
        asked.model(&mut |_| Err(String::new())).expect("a profile")
    }

    #[test]
    fn a_disk_that_is_faster_than_the_host_is_refused_with_the_floor() {
        let reach = Reach { read_us: 70.0, per_second: 40_000.0 };
        assert!(reach.refuse_faster(&model("gp3")).is_ok());
        let said = reach.refuse_faster(&model("nvme")).expect_err("too many").to_string();
        assert!(said.contains("reads/s, which this host cannot") && said.contains("70 us a read"), "{said}");
        let slow = Reach { read_us: 700.0, ..reach };
        let said = slow.refuse_faster(&model("gp3")).expect_err("too fast").to_string();
        assert!(said.contains("gp3 answers a read in 550 us"), "{said}");
        assert!(slow.refuse_faster(&Model { profile: None, ..model("gp3") }).is_ok(), "only what claims to be a disk");
    }

    /// Answers by the model, but so much slower.
    struct Imitated {
        model: Model,
        factor: f64,
        sets: u32,
    }

    impl Imitator for Imitated {
        fn set(&mut self, model: &Model) -> Result<(), Error> {
            self.sets += 1;
            self.model = model.clone();
            Ok(())
        }

        fn read(&mut self, reads: u32, depth: u32) -> Result<Reads, Error> {
            let factor = if self.model.is_constant() { 1.0 } else { self.factor };
            let seen = predicted(&self.model, depth, reads, 60.0);
            let mut histogram = LatencyHistogram::new();
            #[allow(clippy::cast_possible_truncation)]
            (0..reads).for_each(|at| {
                let p = f64::from(at) / f64::from(reads.max(2) - 1);
                histogram.record((seen.quantile_us(p) * factor * 1000.0) as u64);
            });
            #[allow(clippy::cast_possible_truncation)]
            let elapsed_us = (f64::from(reads) / seen.per_second * 1e6 * factor) as u64;
            Ok(Reads { histogram, elapsed_us })
        }
    }

    #[test]
    fn what_does_as_the_model_says_is_within_tolerance_and_what_does_not_is_looked_at_again() {
        let held = |factor| {
            let mut layer = Imitated { model: Model::none(DelayMode::Add), factor, sets: 0 };
            let measured = hold(&mut layer, &model("gp2:100G,credits=0")).expect("measured");
            assert_eq!(layer.model.profile.as_deref(), Some("gp2:100G,credits=0"), "left in force");
            (measured, layer.sets)
        };
        let (good, sets) = held(1.0);
        let of = |what: &str| good.iter().find(|it| it.what == what).cloned().expect(what);
        assert_eq!(of("disk.read.median").within_tolerance, Some(true));
        // with 300 IOPS and no credits even one reader at a time is held back
        assert!((of("disk.read.median").got.expect("got").value - 3333.0).abs() < 40.0);
        let iops = of("disk.read.iops.depth32");
        assert_eq!((iops.within_tolerance, iops.asked.expect("asked").value), (Some(true), 300.0));
        assert_eq!(of("disk.read.p99").within_tolerance, None);
        assert_eq!(sets, 4);
        let (bad, sets) = held(1.2);
        assert_eq!(bad.iter().filter(|it| it.within_tolerance == Some(false)).count(), 2);
        assert_eq!(sets, 10, "three looks");
    }
}
