// SPDX-License-Identifier: Apache-2.0
//! Assertions on what the run recorded besides the results of its loads. They are judged when all arms have ended, because a figure may be of the whole
//! run; and when everything was given back, because to read a long recording takes seconds.

use crate::cell::Phase;
use crate::error::Error;
use crate::notes::Notes;
use assertion::{Assertion, Source};
use evidence::{Arm, ArmOutcome, Evidence, Verdict};
use explain::{Explained, figure_of_arm, figure_of_article};
use recording::Recording;

/// Judges the arms that were measured, and adds the verdicts to them in the recording. All that the arms recorded is in the recording already.
pub(crate) fn judge_recorded(notes: &Notes<'_>, phases: &[Phase]) -> Result<(), Error> {
    let is_recorded = |assertion: &Assertion| assertion.recorded().is_some();
    if !phases.iter().any(|phase| phase.assertions.iter().any(is_recorded)) {
        return Ok(());
    }
    let evidence = Recording::read_reduced(notes.recording.path(), explain::needs, explain::with_figures_alone)?;
    let explained = explain::explain(&evidence);
    for (position, phase) in (0..).zip(phases) {
        let Some(arm) = evidence.arms.iter().find(|arm| arm.name == phase.name) else { continue };
        if arm.outcome != ArmOutcome::Measured || !phase.assertions.iter().any(is_recorded) {
            continue;
        }
        let verdicts = verdicts(&phase.assertions, arm, &evidence, &explained);
        for (assertion, verdict) in phase.assertions.iter().zip(&verdicts).filter(|(it, _)| is_recorded(it)) {
            debug_assert_eq!(assertion.to_string(), verdict.assertion);
            tell(notes, &arm.name, verdict)?;
        }
        notes.recording.arm(position, &Arm { verdicts, ..arm.clone() })?;
    }
    Ok(())
}

/// In the order of the file: those on the load are there already.
fn verdicts(assertions: &[Assertion], arm: &Arm, evidence: &Evidence, explained: &Explained) -> Vec<Verdict> {
    let mut of_load = arm.verdicts.iter().cloned();
    let judge = |assertion: &Assertion| match assertion.recorded() {
        None => of_load.next(),
        Some(figure) => {
            let value = match figure.source() {
                Source::Article => figure_of_article(explained, figure.name()),
                _ => figure_of_arm(evidence, explained, &arm.name, figure.name()),
            };
            Some(assertion.judge_recorded(value))
        }
    };
    assertions.iter().filter_map(judge).collect()
}

/// Tells the caller, and records the sentence.
pub(crate) fn tell(notes: &Notes<'_>, arm: &str, verdict: &Verdict) -> Result<(), Error> {
    let word = if verdict.passed { "met" } else { "FAILED" };
    notes.event("load", format!("{arm}: {}: {word}, measured {}", verdict.assertion, verdict.measured_text()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::{Measured, Quantity};

    fn assertions(texts: &[&str]) -> Vec<Assertion> {
        texts.iter().map(|text| Assertion::of_run(text).unwrap()).collect()
    }

    #[test]
    fn what_was_recorded_is_judged_in_its_place_in_the_file() {
        let asserted = assertions(&["load.rss<64M", "errors=0", "idle.rss.end>1G", "memory.explained>0.9"]);
        let got = |what: &str, arm: &str, bytes: u64| Measured {
            arm: Some(arm.into()),
            got: Some(Quantity::bytes(bytes)),
            ..Measured::of(what, "test", "test")
        };
        let load = Verdict { passed: true, ..asserted[1].judge_nothing() };
        let arm = Arm { verdicts: vec![load.clone()], ..Arm::begun("a", 0) };
        let measured = vec![got("load.rss", "b", 1 << 40), got("load.rss", "a", 1 << 20), got("idle.rss.end", "a", 2)];
        let evidence = Evidence { arms: vec![arm.clone()], measured, ..Evidence::default() };
        let seen = verdicts(&asserted, &arm, &evidence, &explain::explain(&evidence));
        let told: Vec<(&str, bool, String)> =
            seen.iter().map(|it| (it.assertion.as_str(), it.passed, it.measured_text())).collect();
        let expected = [
            ("load.rss<64M", true, "1 MiB".to_owned()),
            ("errors=0", true, load.measured_text()),
            ("idle.rss.end>1G", false, "2 B".into()),
            ("memory.explained>0.9", false, "nothing".into()),
        ];
        assert_eq!(told, expected);
    }
}
