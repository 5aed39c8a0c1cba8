// SPDX-License-Identifier: Apache-2.0
//! Whether the slow layers of a run answer. A layer whose processes are stopped or frozen does not hang: it continues when they continue. A layer
//! hangs when it could run and does not answer.

use super::LayerProbe;
use super::inquiry::Inquiry;
use super::limits::Limits;
use host::clock::boot_time;
use host::looks::{Silence, looks_in};
use host::process::{Identity, Standstill, descendants, standstill};
use journal::{Role, State, Step};
use std::path::PathBuf;
use std::time::Duration;

/// For tests, in a build with `failpoints`: a watchdog that goes by the clock, and kills (`WRINGER_FORGET=standstill`).
pub(super) const FORGET_STANDSTILL: &str = "standstill";

/// The result of a look at the layers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Well,
    /// A layer stands still for longer than a layer may be silent: its users wait. Reported once.
    StandsStill(Identity, Standstill),
    /// The layer continues, after its standstill was reported.
    GoesOn,
    /// The layer could run, and has not answered for this many looks.
    Hangs(u32),
}

pub(super) struct LayerWatch {
    /// A layer without an answer for this many looks in a row hangs.
    deadline: u32,
    question: Question,
    silence: Silence,
    standstill: Silence,
    /// The standstill was reported.
    told: bool,
    /// The time of the last answer: for the watchdog that goes by the clock alone.
    answered: Duration,
    patience: Duration,
}

enum Question {
    /// No layer has served yet.
    NotYet(PathBuf, LayerProbe),
    Asked(Inquiry<bool>),
    /// No thread could be started: the layers are not watched.
    None,
}

impl LayerWatch {
    pub(super) fn new(folder: PathBuf, answers: LayerProbe, limits: &Limits) -> Self {
        let deadline = looks_in(limits.layer_deadline(), limits.look());
        Self {
            deadline,
            question: Question::NotYet(folder, answers),
            silence: Silence::of(deadline),
            standstill: Silence::of(deadline),
            told: false,
            answered: boot_time(),
            patience: limits.layer_deadline(),
        }
    }

    /// To be called at each look; `counts`: the watchdog itself did not stand still before this look.
    pub(super) fn look(&mut self, layers: &[Identity], counts: bool) -> Found {
        if layers.is_empty() {
            self.silence.end();
            self.standstill.end();
            return Found::Well;
        }
        let answered = self.answered(self.standstill.is_over());
        if answered {
            self.answered = boot_time();
        } else if journal::forgets_kind(FORGET_STANDSTILL) && boot_time() > self.answered + self.patience {
            return Found::Hangs(self.deadline);
        }
        let still = if answered { None } else { standing_still(layers) };
        self.judge(answered, still, counts)
    }

    fn judge(&mut self, answered: bool, still: Option<(Identity, Standstill)>, counts: bool) -> Found {
        if let Some((layer, why)) = still {
            self.silence.end();
            if self.standstill.look(counts).is_some() && !self.told {
                self.told = true;
                return Found::StandsStill(layer, why);
            }
            return Found::Well;
        }
        self.standstill.end();
        if !answered {
            return self.silence.look(counts).map_or(Found::Well, Found::Hangs);
        }
        self.silence.end();
        if std::mem::take(&mut self.told) { Found::GoesOn } else { Found::Well }
    }

    /// Whether an answer has come since the last look. A layer that stood still is not asked: the questions would pile up.
    fn answered(&mut self, ask: bool) -> bool {
        if let Question::NotYet(folder, answers) = &self.question {
            let (folder, answers) = (folder.clone(), *answers);
            let inquiry = Inquiry::start("ask the layer", move || answers(&folder));
            self.question = inquiry.map_or(Question::None, Question::Asked);
        }
        match &mut self.question {
            Question::Asked(inquiry) => inquiry.answer(ask) == Some(true),
            _ => true,
        }
    }
}

/// Looks at the layers and the processes that they started: the worker of a slow disk serves instead of its keeper.
fn standing_still(layers: &[Identity]) -> Option<(Identity, Standstill)> {
    descendants(layers).into_iter().find_map(|process| Some((process, standstill(process.pid)?)))
}

/// The layers that have started completely, and live.
pub(super) fn serving(state: &State) -> Vec<Identity> {
    let layers = state.steps.iter().filter(|step| {
        step.is_open() && step.completed && matches!(step.change, Step::Process { role: Role::SlowLayer, .. })
    });
    layers.flat_map(|step| step.processes.clone()).filter(Identity::is_alive).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYER: Identity = Identity { pid: 7, start_time: 1 };

    fn watch() -> LayerWatch {
        LayerWatch::new(PathBuf::new(), |_| true, &Limits::default())
    }

    fn stopped() -> Option<(Identity, Standstill)> {
        Some((LAYER, Standstill::Stopped))
    }

    /// The results of this many looks in a row.
    fn found(watch: &mut LayerWatch, looks: u32, answered: bool, still: bool, counts: bool) -> Vec<Found> {
        let all = (0..looks).map(|_| watch.judge(answered, stopped().filter(|_| still), counts));
        all.filter(|found| *found != Found::Well).collect()
    }

    #[test]
    fn one_that_could_run_and_answers_nobody_hangs() {
        let mut watch = watch();
        assert_eq!(found(&mut watch, 30, false, false, true), []);
        assert_eq!(found(&mut watch, 1, false, false, true), [Found::Hangs(31)]);
        assert_eq!(found(&mut watch, 1, true, false, true), []);
        assert_eq!(found(&mut watch, 30, false, false, true), [], "from the last answer on");
    }

    #[test]
    fn one_that_stands_still_does_not_hang_and_is_told_once() {
        let mut watch = watch();
        assert_eq!(found(&mut watch, 25, false, false, true), []);
        assert_eq!(found(&mut watch, 200, false, true, true), [Found::StandsStill(LAYER, Standstill::Stopped)]);
        assert_eq!(found(&mut watch, 30, false, false, true), [], "woken, it has all its time");
        assert_eq!(found(&mut watch, 2, true, false, true), [Found::GoesOn]);
    }

    #[test]
    fn looks_after_a_jump_do_not_count() {
        let mut watch = watch();
        assert_eq!(found(&mut watch, 30, false, false, true), []);
        assert_eq!(found(&mut watch, 5, false, false, false), []);
        assert_eq!(found(&mut watch, 200, false, true, false), []);
    }
}
