// SPDX-License-Identifier: Apache-2.0
//! The disk model in force. The engine asks it when a request must be answered.

use crate::clock::MonotonicNs;
use crate::way::Way;
use diskmodel::{Class, Law, Model, Operation, Request, Waited};
use evidence::{Delay, DelayMode};
use std::sync::{Mutex, PoisonError};

/// The place that a request reads or writes; the model of a disk with a moving head needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub file: u64,
    pub offset: u64,
    pub bytes: u64,
}

/// When the kernel must get a reply, and when the client must have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    pub at: MonotonicNs,
    pub asked: MonotonicNs,
}

/// One model in force. Each change of the delay makes a new rule.
#[derive(Debug)]
pub(crate) struct Rule {
    model: Model,
    delay: Delay,
    times: Times,
}

#[derive(Debug)]
enum Times {
    /// Constant delays by class: they need no memory and no lock.
    Constant([u64; 3]),
    Drawn(Box<Mutex<Law>>),
}

impl Rule {
    pub(crate) fn new(model: Model) -> Self {
        #[allow(clippy::cast_possible_truncation)] // times are not negative, and below an hour
        let ns = |operation: &Operation| (operation.takes.quantile(0.5) * 1000.0).round() as u64;
        let times = if model.is_constant() {
            Times::Constant([ns(&model.read), ns(&model.write), ns(&model.sync)])
        } else {
            Times::Drawn(Box::new(Mutex::new(Law::new(model.clone()))))
        };
        Self { delay: model.delay(), model, times }
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    pub(crate) fn delay(&self) -> Delay {
        self.delay
    }

    /// How long requests have waited for the limits of the model.
    pub(crate) fn waited(&self) -> Waited {
        match &self.times {
            Times::Constant(_) => Waited::default(),
            Times::Drawn(law) => law.lock().unwrap_or_else(PoisonError::into_inner).waited(),
        }
    }

    /// The due time of a request. Ask once for each request: a model with limits counts it. The reply leaves earlier by the time
    /// that the kernel needs to deliver it, which `way` tells.
    pub(crate) fn due(&self, class: Class, place: Place, arrived: MonotonicNs, done: MonotonicNs, way: &Way) -> Due {
        let start = match self.delay.mode {
            DelayMode::Add => done,
            DelayMode::Total => arrived,
        };
        let wait_ns = match &self.times {
            Times::Constant(ns) => ns[class as usize],
            Times::Drawn(law) => {
                let Place { file, offset, bytes } = place;
                let request = Request { class, file, offset, bytes };
                law.lock().unwrap_or_else(PoisonError::into_inner).takes_ns(&request, start)
            }
        };
        Due { at: start + wait_ns.saturating_sub(way.taken_off_ns(wait_ns)), asked: (start + wait_ns).max(done) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { file: 1, offset: 0, bytes: 4096 };

    fn reads(us: u64, mode: DelayMode) -> Rule {
        Rule::new(Delay { read_us: us, write_us: 0, sync_us: 0, mode, varies: false }.into())
    }

    #[test]
    fn add_counts_from_the_completion_and_total_from_the_arrival() {
        let due = |rule: Rule, done| rule.due(Class::Read, PLACE, 1_000_000, done, &Way::default());
        assert_eq!(due(reads(100, DelayMode::Add), 1_500_000).asked, 1_600_000);
        assert_eq!(due(reads(100, DelayMode::Total), 1_050_000).asked, 1_100_000);
        assert_eq!(due(reads(100, DelayMode::Total), 1_500_000).asked, 1_500_000, "never before the work is done");
        assert!(due(reads(0, DelayMode::Add), 1_500_000).at <= 1_500_000);
    }

    #[test]
    fn a_model_with_a_cap_spaces_what_arrives_at_once() {
        let mut model: Model =
            Delay { read_us: 0, write_us: 0, sync_us: 0, mode: DelayMode::Total, varies: false }.into();
        model.limits.push(diskmodel::Limit {
            counts: diskmodel::Counts::Operations,
            of: diskmodel::Of::Both,
            rate_per_second: 1000.0,
            burst_per_second: None,
            capacity: 0.0,
            credits: 0.0,
            unit_bytes: None,
            merge: false,
        });
        let (rule, way) = (Rule::new(model), Way::default());
        let asked: Vec<MonotonicNs> = (0..4).map(|_| rule.due(Class::Read, PLACE, 5_000, 5_000, &way).asked).collect();
        assert_eq!(asked, [5_000, 1_005_000, 2_005_000, 3_005_000]);
        assert!(rule.delay().varies);
    }
}
