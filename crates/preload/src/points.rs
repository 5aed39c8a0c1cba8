// SPDX-License-Identifier: Apache-2.0
//! A disk model, written into shared memory.

use crate::shared_model::{BYTES, Bank, LIMITS, Limit, OPERATIONS, Operation, POINTS, Points, QUEUE};
use diskmodel::{Counts, Distribution, Model, Of, Waited};
use evidence::DelayMode;
use std::sync::atomic::Ordering::Relaxed;

/// The largest distance between the distribution and a straight line between two points.
const TOLERANCE: f64 = 0.002;
const LEAST_NS: f64 = 10.0;
/// Parts of a distribution below this share are not divided further.
const LEAST_PART: f64 = 1e-7;

impl Bank {
    /// Writes the model with fresh credits, queues and draws. No process may read it meanwhile. The caller refuses more limits than fit.
    pub(crate) fn write(&self, model: &Model) {
        self.total.store(u32::from(model.mode == DelayMode::Total), Relaxed);
        self.depth.store(model.depth.unwrap_or(0), Relaxed);
        self.seed.store(model.seed, Relaxed);
        let stalls = model.stalls.map_or((0, 0, 1.0), |it| (whole_us(it.every_us), whole_us(it.lasting_us), it.factor));
        self.stall_every_ns.store(stalls.0, Relaxed);
        self.stall_lasting_ns.store(stalls.1, Relaxed);
        self.stall_factor.set(stalls.2);
        for (operation, from) in self.operations.iter().zip([&model.read, &model.write, &model.sync]) {
            operation.write(from);
        }
        let limits = model.limits.iter().take(LIMITS);
        self.limits.store(u32::try_from(limits.len()).unwrap_or(0), Relaxed);
        self.limit.iter().zip(limits).for_each(|(limit, from)| limit.write(from));
        let waits = self.waits.iter().flat_map(|waits| [&waits.waited_ns, &waits.until_ns]);
        let start_anew = [&self.started_ns, &self.head].into_iter().chain(&self.server_free_ns).chain(waits);
        start_anew.for_each(|word| word.store(0, Relaxed));
    }

    /// How long requests have waited for the limits, since the model was written.
    pub(crate) fn waited(&self) -> Waited {
        let of = |cause: usize| self.waits[cause].waited_ns.load(Relaxed);
        Waited { operations_ns: of(OPERATIONS), bytes_ns: of(BYTES), queue_ns: of(QUEUE) }
    }
}

impl Operation {
    fn write(&self, from: &diskmodel::Operation) {
        self.takes.write(Some(&from.takes));
        self.sequential.write(from.sequential.as_ref());
        self.ns_per_byte.set(from.us_per_kib * 1000.0 / 1024.0);
        self.draws.store(0, Relaxed);
    }
}

impl Limit {
    fn write(&self, from: &diskmodel::Limit) {
        let ns_per_token = 1e9 / from.rate_per_second;
        let tokens = |tokens: f64| whole_us(tokens * ns_per_token / 1000.0);
        self.operations.store(u32::from(from.counts == Counts::Operations), Relaxed);
        self.of.store(from.of as u32, Relaxed);
        self.merge.store(u32::from(from.merge), Relaxed);
        self.unit_bytes.store(from.unit_bytes.unwrap_or(u64::MAX), Relaxed);
        self.ns_per_token.set(ns_per_token);
        self.burst_ns_per_token.set(from.burst_per_second.map_or(0.0, |rate| 1e9 / rate));
        self.capacity_ns.store(tokens(from.capacity), Relaxed);
        self.credits_ns.store(tokens(from.credits.min(from.capacity)), Relaxed);
        [&self.empty_at_ns, &self.next_ns, &self.run_bytes].iter().for_each(|word| word.store(0, Relaxed));
    }
}

const _: () = assert!(Of::Both as u32 == 0 && Of::Reads as u32 == 1 && Of::Writes as u32 == 2);

impl Points {
    fn write(&self, from: Option<&Distribution>) {
        let points = from.map(points).unwrap_or_default();
        for ((fraction, ns), point) in self.fraction.iter().zip(&self.ns).zip(&points) {
            fraction.set(point.0);
            ns.set(point.1);
        }
        self.len.store(u32::try_from(points.len()).unwrap_or(0), Relaxed);
    }
}

/// Points so dense that a straight line between two neighbours follows the distribution.
fn points(of: &Distribution) -> Vec<(f64, f64)> {
    let at = |p: f64| (p, of.quantile(p) * 1000.0);
    if of.is_constant() {
        return vec![at(1.0)];
    }
    const PARTS: u32 = 64;
    let mut points = vec![at(0.0)];
    for part in 1..=PARTS {
        let end = at(f64::from(part) / f64::from(PARTS));
        divide(&at, *points.last().unwrap_or(&end), end, &mut points);
    }
    points.truncate(POINTS);
    points
}

/// Adds the points between `from` and `to`, and then `to` itself; `from` was added before.
fn divide(at: &impl Fn(f64) -> (f64, f64), from: (f64, f64), to: (f64, f64), points: &mut Vec<(f64, f64)>) {
    let middle = at((from.0 + to.0) / 2.0);
    let straight = (from.1 + to.1) / 2.0;
    let follows = (middle.1 - straight).abs() <= (middle.1 * TOLERANCE).max(LEAST_NS);
    if to.0 - from.0 < LEAST_PART || follows && to.0 - from.0 < 0.01 {
        return points.push(to);
    }
    divide(at, from, middle, points);
    divide(at, middle, to, points);
}

#[allow(clippy::cast_possible_truncation)] // not negative; a float beyond u64 saturates
fn whole_us(us: f64) -> u64 {
    (us * 1000.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::shared::Shared;
    use crate::shared_model::Request;
    use diskmodel::{DiskRequest, Law};

    fn zeroed() -> Box<Shared> {
        let layout = std::alloc::Layout::new::<Shared>();
        // SAFETY: all zeros is a valid value, and the memory has the type's own layout.
        unsafe { Box::from_raw(std::alloc::alloc_zeroed(layout).cast()) }
    }

    fn model(profile: Option<&str>, read: Option<&str>) -> Model {
        let asked = DiskRequest {
            profile: profile.map(|it| it.parse().unwrap()),
            read: read.map(|it| it.parse().unwrap()),
            ..DiskRequest::default()
        };
        asked.model(&mut |_| Err(String::new())).unwrap()
    }

    fn times(bank: &Bank, count: u64, every_ns: u64) -> Vec<u64> {
        let request = |at: u64| Request { class: Class::Read, file: 1, offset: at % 7 * 1_000_000, bytes: 4096 };
        (0..count).map(|at| bank.takes_ns(request(at), 1_000 + at * every_ns)).collect()
    }

    #[test]
    fn what_is_drawn_is_what_was_asked_for() {
        for words in
            ["normal:10ms,2ms", "lognormal:p50=1ms,p99=10ms", "10ms", "tail:1ms,1/100:20ms", "tail:1ms,1/1000:80ms"]
        {
            let (shared, model) = (zeroed(), model(None, Some(words)));
            shared.banks[0].write(&model);
            let takes = &shared.banks[0].operations[0].takes;
            assert!((takes.len.load(Relaxed) as usize) < POINTS, "{words}");
            for p in [0.000_1, 0.01, 0.1, 0.5, 0.9, 0.989, 0.995, 0.9985, 0.9995] {
                let (got, asked) = (takes.quantile(p) / 1000.0, model.read.takes.quantile(p));
                assert!((got - asked).abs() <= asked * 0.005 + 0.01, "{words} p{p}: {got} of {asked}");
            }
            let mut drawn = times(&shared.banks[0], 20_000, 1_000_000_000);
            drawn.sort_unstable();
            let (got, asked) = (drawn[10_000] as f64 / 1000.0, model.read.takes.quantile(0.5));
            assert!((got / asked - 1.0).abs() < 0.02, "{words}: {got} of {asked}");
        }
    }

    /// Limits, depth and stalls need no draw: both models give the same times, up to a rounding of a nanosecond.
    #[test]
    fn limits_and_depth_do_as_the_law_that_has_a_lock() {
        for profile in ["gp2:100G,credits=0", "gp2:100G", "gp3", "hdd-7200", "nvme"] {
            for every_ns in [0, 100_000, 1_000_000] {
                let mut model = model(Some(profile), None);
                model.read = diskmodel::Operation::constant(500.0);
                let (shared, mut law) = (zeroed(), Law::new(model.clone()));
                shared.banks[0].write(&model);
                let ours = times(&shared.banks[0], 2000, every_ns);
                for (at, ours) in (0u64..).zip(ours) {
                    let request =
                        diskmodel::Request { class: Class::Read, file: 1, offset: at % 7 * 1_000_000, bytes: 4096 };
                    let theirs = law.takes_ns(&request, 1_000 + at * every_ns);
                    assert!(ours.abs_diff(theirs) <= 2 + at, "{profile} {every_ns} {at}: {ours} and {theirs}");
                }
                let (ours, theirs) = (shared.banks[0].waited(), law.waited());
                let pairs = [
                    (ours.operations_ns, theirs.operations_ns),
                    (ours.bytes_ns, theirs.bytes_ns),
                    (ours.queue_ns, theirs.queue_ns),
                ];
                let close = |(a, b): &(u64, u64)| a.abs_diff(*b) <= 10_000 + a / 1000;
                assert!(pairs.iter().all(close), "{profile} {every_ns}: {pairs:?}");
            }
        }
    }

    #[test]
    fn draws_are_repeated_after_a_change_of_the_model() {
        let (shared, model) = (zeroed(), model(None, Some("normal:10ms,2ms")));
        let drawn = |bank: usize| {
            shared.banks[bank].write(&model);
            times(&shared.banks[bank], 100, 1)
        };
        let first = drawn(0);
        assert_eq!(first, drawn(1));
        assert_eq!(first, drawn(0));
        assert!(first.windows(2).any(|two| two[0] != two[1]));
    }
}
