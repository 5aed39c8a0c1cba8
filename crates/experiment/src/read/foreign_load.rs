// SPDX-License-Identifier: Apache-2.0
//! What all loads have whose statements Wringer does not choose: those of another program, and those of a log.

use super::load_keys::cpuset;
use super::{around, beside, loads_beside, moments};
use crate::model::Load;
use crate::section::Section;
use evidence::Arrivals;
use units::Span;
use workload::distribution;

/// Reads the keys that such a load shares with Wringer's own; the other fields have a value without a meaning.
pub(super) fn load(section: &Section<'_>) -> Load {
    Load {
        workload: String::new(),
        threads: 1,
        arrivals: Arrivals::Closed,
        time: None,
        events: None,
        warmup: Span::ZERO,
        preheat: None,
        distribution: distribution::Options::default(),
        distribution_written: false,
        seed: 1,
        prepared: false,
        cpuset: cpuset(section),
        options: workload::Options::default(),
        driver: None,
        replay: None,
        beside: beside::read(section),
        loads_beside: loads_beside::read(section),
        before: beside::before(section),
        pause: moments::pause(section),
        probe: around::probe(section),
        idle: around::idle(section),
        at: Vec::new(),
        stay: false,
        slow_statements: None,
    }
}
