// SPDX-License-Identifier: Apache-2.0
//! The slow statements that are in no stall, and what is told of them.

use crate::cause::ms;
use crate::needs::Parts;
use logs::Figures;

/// Slow statements that are in no stall, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct NoStall {
    /// Of statements that took long because of their own work, or because they asked to wait.
    pub(crate) own_work_us: u64,
    /// Of statements whose class has no quick one, or few, and that count as usual; and where it went, by the log's own fields.
    pub(crate) usual_us: u64,
    pub(crate) usual: Parts,
    /// Of statements that are not far above the known median of their class.
    pub(crate) as_class_us: u64,
}

impl NoStall {
    pub(crate) fn usual(&mut self, figures: &Figures, took_us: u64) {
        self.usual_us = self.usual_us.saturating_add(took_us);
        self.usual.add(&Parts::of(figures, took_us));
    }

    pub(crate) fn as_class(&mut self, took_us: u64) {
        self.as_class_us = self.as_class_us.saturating_add(took_us);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.own_work_us = self.own_work_us.saturating_add(other.own_work_us);
        self.usual_us = self.usual_us.saturating_add(other.usual_us);
        self.usual.add(&other.usual);
        self.as_class_us = self.as_class_us.saturating_add(other.as_class_us);
    }

    /// All of it beside the statements' own work.
    pub(crate) fn not_judged_us(&self) -> u64 {
        self.usual_us.saturating_add(self.as_class_us)
    }

    /// The statements of which nothing shows that they are usual, and what the log's fields tell of them, where that is more than a tenth of their time.
    /// `is_of_slow`: the log has only slow statements.
    pub(crate) fn note(&self, is_of_slow: bool) -> Option<String> {
        let slow_us = self.usual_us;
        let Parts { row_locks, locks, reads, queue, .. } = self.usual;
        let parts = [
            (row_locks.saturating_add(locks), "waits for locks"),
            (reads, "reads from disk"),
            (queue, "InnoDB's queue"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(us, _)| *us >= slow_us / 10 && *us > 0)
            .map(|(us, what)| format!("{} of {what}", ms(*us)))
            .collect();
        let (slow, what) = (ms(slow_us), parts.join(", "));
        if slow_us == 0 {
            return None;
        }
        if parts.is_empty() {
            return Some(format!(
                "{slow} in slow statements whose class has no quick one, or few: they are in no stall, because nothing shows whether that is usual for them"
            ));
        }
        let why = if is_of_slow {
            "A statement of which they tell a tenth or more is in no stall here, because this log does not show whether that is usual for it"
        } else {
            "They are in no stall here, because too few quick statements of their class show whether that is usual for them"
        };
        Some(format!(
            "of {slow} in slow statements whose class has no quick one, or few, the log's own fields tell {what}. {why}"
        ))
    }

    /// The statements that are as slow as their class.
    pub(crate) fn note_of_class(&self) -> Option<String> {
        let told = || {
            format!(
                "{} in slow statements that are not far above the median of their class: they are in no stall, because their class usually takes so long",
                ms(self.as_class_us)
            )
        };
        (self.as_class_us > 0).then(told)
    }
}
