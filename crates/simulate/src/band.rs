// SPDX-License-Identifier: Apache-2.0
//! Facts about a running server that cannot be known: how far its refiller is in its sleep, whether the refiller's last batch found something to do,
//! the time between the wake-ups of its two refillers, and, for a version between two versions that were read, which of two clocks it has. The same
//! load is simulated from starts that are spread evenly over these facts.

use crate::outcome::Load;
use crate::settings::Settings;
use capability::{Clock, Evidence, Refiller};
use serde::Serialize;

/// Lowest and highest of each figure over all starts, including the load itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Band {
    /// What differs between the starts.
    pub unknown: Vec<&'static str>,
    /// The number of starts.
    pub starts: u32,
    pub queries_per_second: Range,
    pub max_us: Range,
    pub stalls: Range,
    pub stall_p50_us: Option<Range>,
    pub lost_query_us: Range,
    pub wait_free: Range,
    pub refiller_sleep_us: Option<Range>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Range {
    pub low: f64,
    pub high: f64,
}

impl Range {
    fn of(value: f64) -> Self {
        Self { low: value, high: value }
    }

    fn widen(&mut self, value: f64) {
        self.low = self.low.min(value);
        self.high = self.high.max(value);
    }
}

fn widen_or_begin(range: &mut Option<Range>, value: Option<f64>) {
    if let Some(value) = value {
        range.get_or_insert_with(|| Range::of(value)).widen(value);
    }
}

impl Band {
    pub(crate) fn new(unknown: Vec<&'static str>, load: &Load) -> Self {
        Self {
            unknown,
            starts: 1,
            queries_per_second: Range::of(load.queries_per_second),
            max_us: Range::of(load.max_us),
            stalls: Range::of(load.stalls as f64),
            stall_p50_us: load.stall_p50_us.map(Range::of),
            lost_query_us: Range::of(load.lost_query_us),
            wait_free: Range::of(load.wait_free as f64),
            refiller_sleep_us: load.refiller_sleep_us.map(|us| Range::of(us as f64)),
        }
    }

    pub(crate) fn widen(&mut self, load: &Load) {
        self.starts += 1;
        self.queries_per_second.widen(load.queries_per_second);
        self.max_us.widen(load.max_us);
        self.stalls.widen(load.stalls as f64);
        widen_or_begin(&mut self.stall_p50_us, load.stall_p50_us);
        self.lost_query_us.widen(load.lost_query_us);
        self.wait_free.widen(load.wait_free as f64);
        widen_or_begin(&mut self.refiller_sleep_us, load.refiller_sleep_us.map(|us| us as f64));
    }
}

/// The unknown facts for these settings, and `count` further starts that are spread evenly over them. The starts are the same for each depth,
/// algorithm and load.
pub fn starts(settings: &Settings, count: u32) -> (Vec<&'static str>, Vec<Settings>) {
    let mut unknown = Vec::new();
    let refillers = settings.server.refillers;
    let manager = refillers.iter().find_map(|it| match it {
        Refiller::Manager { adapt, .. } => Some(*adapt),
        Refiller::Cleaner { .. } => None,
    });
    let longest_ns = match (manager, refillers.first()) {
        (Some(_), _) => settings.initial_sleep_ms * 1_000_000,
        (None, Some(Refiller::Cleaner { only_if_active: true, .. })) if !settings.active => 0,
        (None, Some(Refiller::Cleaner { period_ms, .. })) => u64::from(*period_ms) * 1_000_000,
        (None, _) => 0,
    };
    let is_wake_unknown = settings.start.wake_offset_ns.is_none() && longest_ns > 0;
    let is_phase_unknown = settings.start.phase_ns.is_none() && manager.is_some() && refillers.len() > 1;
    let is_clock_unknown =
        settings.clock.is_none() && manager.is_some() && settings.server.evidence == Evidence::Between;
    let all = [(is_wake_unknown, "wake_offset"), (is_phase_unknown, "phase"), (is_clock_unknown, "clock")];
    unknown.extend(all.into_iter().filter(|(is_unknown, _)| *is_unknown).map(|(_, name)| name));
    if unknown.is_empty() {
        return (unknown, Vec::new());
    }
    let start = |index: u32| {
        let mut other = settings.clone();
        let share = (f64::from(index) + 0.5) / f64::from(count);
        let part = |whole: u64, share: f64| {
            #[allow(clippy::cast_possible_truncation)] // a part of whole
            let part = (whole as f64 * share) as u64;
            part
        };
        if is_wake_unknown {
            other.start.first_wake_ns = Some(part(longest_ns, share));
        }
        if is_phase_unknown {
            // the golden section: its multiples are spread evenly, and do not move together with the other unknown fact
            other.start.phase_ns = Some(part(1_000_000_000, (f64::from(index) * 0.618_034).fract()));
        }
        // changes with every second start, so that it does not move together with the clock
        other.start.had_work = is_wake_unknown && manager.is_some() && index / 2 % 2 == 1;
        if is_clock_unknown && index % 2 == 1 {
            let other_clock = match manager.map(|it| it.clock) {
                Some(Clock::IntegerMs) => Clock::TruncatedMs,
                _ => Clock::IntegerMs,
            };
            other.clock = Some(other_clock);
        }
        other
    };
    (unknown, (0..count).map(start).collect())
}
