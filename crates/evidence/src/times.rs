// SPDX-License-Identifier: Apache-2.0
//! The times of a phase, with those of the transactions that had not ended when the phase did: of each of them only the least is known, the time for
//! which it had waited.

use crate::{Latencies, LatencyHistogram, Phase};
use std::borrow::Cow;

/// From where a time counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// From the intended start.
    Response,
    /// From the actual start.
    Service,
}

impl Clock {
    pub fn of(self, latencies: &Latencies) -> &LatencyHistogram {
        match self {
            Self::Response => &latencies.response,
            Self::Service => &latencies.service,
        }
    }
}

/// A distribution of times, a part of which may be known only by lower bounds.
#[derive(Debug, Clone)]
pub struct Times<'a> {
    ended: &'a LatencyHistogram,
    /// `None`: all ended.
    unended: Option<Unended>,
}

#[derive(Debug, Clone)]
struct Unended {
    /// The ended ones, and the others as if they had ended at once when the phase did.
    least: LatencyHistogram,
    /// The ended ones, and the others as if they never ended.
    most: LatencyHistogram,
    /// Nobody knows how many of the unended ones belong to this distribution.
    is_part: bool,
}

/// A point of a distribution, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Time {
    /// The value; if [`Time::is_at_least`], the least that it can be.
    pub ns: f64,
    /// The most that it can be; infinite if there is no bound.
    pub most_ns: f64,
}

/// A value is known if the most that it can be is no more than this above the least.
const KNOWN_WITHIN: f64 = 0.01;

impl Time {
    fn exact(ns: f64) -> Self {
        Self { ns, most_ns: ns }
    }

    /// Whether `ns` is only a lower bound.
    pub fn is_at_least(&self) -> bool {
        self.most_ns > self.ns * (1.0 + KNOWN_WITHIN)
    }

    pub fn us(&self) -> f64 {
        self.ns / 1e3
    }

    /// `12.345`, in milliseconds; `>=12.345` for a lower bound.
    pub fn ms_text(&self) -> String {
        let ms = self.ns / 1e6;
        if self.is_at_least() { format!(">={ms:.3}") } else { format!("{ms:.3}") }
    }
}

impl Phase {
    /// The times of the transactions.
    pub fn times(&self, clock: Clock) -> Times<'_> {
        let bounds = self.unended.as_ref().map(|unended| clock.of(unended));
        Times::new(clock.of(&self.transaction), bounds, false)
    }

    /// The times of a class of statements. `None`: the load had no such class.
    pub fn times_of_class(&self, class: &str, clock: Clock) -> Option<Times<'_>> {
        Some(self.times_of_statement(self.statements.get(class)?, clock))
    }

    /// The times of one of the `statements`. A transaction that had not ended waits for one of its statements, and it is not known for which; a
    /// transaction that had not started waits for the first. So this counts only for classes that come first, whose response time has waits.
    pub fn times_of_statement<'a>(&'a self, class: &'a Latencies, clock: Clock) -> Times<'a> {
        let ended = clock.of(class);
        if self.statements.len() == 1 && self.queries() == self.transactions {
            return Times { ended, ..self.times(clock) };
        }
        let comes_first = class.response != class.service;
        let has_waited = if comes_first { clock } else { Clock::Service };
        Times::new(ended, self.unended.as_ref().map(|unended| has_waited.of(unended)), true)
    }

    /// The response times of the transactions; those that had not ended count with the time for which they had waited.
    pub fn response_at_least(&self) -> Cow<'_, LatencyHistogram> {
        match self.times(Clock::Response).unended {
            None => Cow::Borrowed(&self.transaction.response),
            Some(unended) => Cow::Owned(unended.least),
        }
    }

    /// The number of transactions that had not ended when the phase did, and had waited for longer than a moment.
    pub fn unended_count(&self) -> u64 {
        self.unended.as_ref().map_or(0, |unended| unended.response.count())
    }
}

/// Any load ends while a few transactions wait. At most one in a thousand, none of which had waited for longer than the slowest one that ended, tell
/// nothing of the server that the ended ones do not tell. They do not count. So it is where none waits.
fn are_usual(bounds: &LatencyHistogram, ended: &LatencyHistogram) -> bool {
    bounds.count() <= ended.count() / 1000 && bounds.max_ns() <= ended.max_ns()
}

impl<'a> Times<'a> {
    fn new(ended: &'a LatencyHistogram, bounds: Option<&'a LatencyHistogram>, is_part: bool) -> Self {
        let unended = bounds.filter(|bounds| !are_usual(bounds, ended)).map(|bounds| {
            let (mut least, mut most) = (ended.clone(), ended.clone());
            least.merge(bounds);
            most.record_n(LatencyHistogram::HIGHEST_NS, bounds.count());
            Unended { least, most, is_part }
        });
        Self { ended, unended }
    }

    /// Times all of which are known.
    pub fn known(ended: &'a LatencyHistogram) -> Self {
        Self::new(ended, None, false)
    }

    /// The number of times that ended.
    pub fn count(&self) -> u64 {
        self.ended.count()
    }

    /// Whether nothing is known: not even that something had waited.
    pub fn is_empty(&self) -> bool {
        self.ended.is_empty() && self.unended.as_ref().is_none_or(|unended| unended.is_part)
    }

    /// `percentile` is in 0..=100.
    pub fn percentile(&self, percentile: f64) -> Time {
        self.time(|histogram| histogram.percentile_ns(percentile) as f64)
    }

    pub fn min(&self) -> Time {
        self.time(|histogram| histogram.min_ns() as f64)
    }

    pub fn max(&self) -> Time {
        self.time(|histogram| histogram.max_ns() as f64)
    }

    /// A mean has no upper bound as soon as one time has none.
    pub fn mean(&self) -> Time {
        let mean = self.time(LatencyHistogram::mean_ns);
        let most_ns = if self.unended.is_some() { f64::INFINITY } else { mean.most_ns };
        Time { most_ns, ..mean }
    }

    fn time(&self, of: impl Fn(&LatencyHistogram) -> f64) -> Time {
        let Some(unended) = &self.unended else { return Time::exact(of(self.ended)) };
        let least = of(&unended.least);
        let ns = if unended.is_part && !self.ended.is_empty() { least.min(of(self.ended)) } else { least };
        // the last bucket is that of the times without an end
        let most = of(&unended.most);
        let is_open = most >= LatencyHistogram::HIGHEST_NS as f64 * 0.999;
        Time { ns, most_ns: if is_open { f64::INFINITY } else { most.max(ns) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn phase(ended_ms: impl Iterator<Item = u64>, waited_ms: impl Iterator<Item = u64>) -> Phase {
        let mut phase = Phase::default();
        for ms in ended_ms {
            phase.transaction.response.record(ms * MS);
            phase.transaction.service.record(MS);
        }
        let mut unended = Latencies::default();
        waited_ms.for_each(|ms| unended.response.record(ms * MS));
        phase.unended = (!unended.response.is_empty()).then_some(unended);
        phase
    }

    fn text(time: Time) -> String {
        let ms = (time.ns / 1e6).round();
        if time.is_at_least() { format!(">={ms}") } else { ms.to_string() }
    }

    #[test]
    fn transactions_that_never_ended_move_the_percentiles() {
        // the server stood still for the second half
        let half = phase(std::iter::repeat_n(2, 100), (1..=100).map(|wait| wait * 10));
        let times = half.times(Clock::Response);
        let at = |percentile| text(times.percentile(percentile));
        assert_eq!([at(25.0), at(50.0), at(75.0), at(99.0)], ["2", "2", ">=500", ">=980"]);
        assert_eq!([text(times.min()), text(times.mean()), text(times.max())], ["2", ">=254", ">=1000"]);
        assert_eq!((times.count(), half.response_at_least().count()), (100, 200));
        let service = half.times(Clock::Service);
        assert_eq!(text(service.percentile(99.0)), "1", "what had not started has no service time");
    }

    #[test]
    fn a_few_that_waited_for_longer_than_all_others_move_only_the_tail() {
        let busy = phase((1..=10_000).map(|number| 1 + number / 1000), [20, 30].into_iter());
        let times = busy.times(Clock::Response);
        let at = |percentile| text(times.percentile(percentile));
        assert_eq!([at(50.0), at(95.0), at(99.9)], ["6", "10", "10"]);
        assert_eq!([at(99.99), text(times.max()), text(times.mean())], [">=20", ">=30", ">=6"]);
    }

    #[test]
    fn a_few_that_had_waited_for_a_usual_time_change_nothing() {
        let of_all = |waits: usize| {
            let load = phase((1..=10_000).map(|number| 1 + number / 1000), std::iter::repeat_n(11, waits));
            let times = load.times(Clock::Response);
            [times.percentile(99.99), times.max(), times.mean()].map(|time| time.is_at_least())
        };
        assert_eq!(of_all(10), [false; 3]);
        assert_eq!(of_all(11), [true; 3], "more than one in a thousand");
        let cut_off = phase((0..10_000).map(|number| 5 + number / 2000), [2].into_iter());
        assert_eq!(text(cut_off.times(Clock::Response).min()), "5", "nothing ended within 2 ms");
    }

    #[test]
    fn without_such_transactions_the_figures_are_the_histograms() {
        let all = phase(1..=100, std::iter::empty());
        let times = all.times(Clock::Response);
        assert_eq!(times.percentile(99.0).ns, all.transaction.response.percentile_ns(99.0) as f64);
        assert!(![times.min(), times.mean(), times.max()].iter().any(Time::is_at_least));
        assert!(Phase::default().times(Clock::Response).is_empty());
        assert!(!phase(std::iter::empty(), 5..=5).times(Clock::Response).is_empty(), "it waited for 5 ms");
    }

    #[test]
    fn only_a_class_that_comes_first_may_have_waited() {
        let mut phase = phase(1..=100, (1..=100).map(|wait| wait * 10));
        let class = |response_ms: u64| {
            let mut latencies = Latencies::default();
            latencies.response.record_n(response_ms * MS, 100);
            latencies.service.record_n(MS, 100);
            latencies
        };
        phase.statements.extend([("begin".to_owned(), class(9)), ("commit".to_owned(), class(1))]);
        let at =
            |name: &str, percentile| text(phase.times_of_class(name, Clock::Response).unwrap().percentile(percentile));
        assert_eq!([at("begin", 25.0), at("begin", 99.0), at("commit", 99.0)], ["9", ">=9", "1"]);
        assert!(phase.times_of_class("select", Clock::Response).is_none());
    }
}
