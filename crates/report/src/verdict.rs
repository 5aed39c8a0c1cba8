// SPDX-License-Identifier: Apache-2.0
//! Which findings come first: the ones a reader came for.

use crate::{ArmView, Context};
use evidence::{ENDED_EARLY, Finding};

/// Why the run did not get to its end, where it did not; then the findings' own sentences, the most telling first.
pub(crate) fn sentences(context: &Context<'_>) -> Vec<String> {
    let findings = ranked(context).into_iter().map(|finding| finding.statement.clone());
    ended_early(context).into_iter().chain(findings).collect()
}

/// In one line: the end of a log that may follow stands in the list of events.
fn ended_early(context: &Context<'_>) -> Option<String> {
    let why = context.events.iter().find_map(|event| event.text.strip_prefix(ENDED_EARLY))?;
    let line = why.lines().next().unwrap_or_default();
    let line = line.split("; the end of its log:").next().unwrap_or(line);
    Some(format!("The run ended early: {line}."))
}

/// What speaks of the whole run, then of the arms, those that read most slowly first.
pub(crate) fn ranked<'c>(context: &'c Context<'_>) -> Vec<&'c Finding> {
    let mut arms: Vec<&ArmView<'_>> = context.arms.iter().collect();
    arms.sort_by_key(|view| std::cmp::Reverse(view.arm.delay.map_or(0, |delay| delay.read_us)));
    // what looking on took is no answer to what was asked
    let (aside, mut ranked): (Vec<_>, Vec<_>) =
        context.findings_of(None).partition(|finding| finding.id == "observe.cost");
    for view in arms {
        ranked.extend(context.findings_of(Some(&view.arm.name)));
    }
    ranked.extend(aside);
    let others = context.findings.iter().filter(|finding| !ranked.iter().any(|known| std::ptr::eq(*known, *finding)));
    let others: Vec<&Finding> = others.collect();
    ranked.extend(others);
    ranked
}

/// What a reader must know before believing anything: arms that did not finish, squeezes out of tolerance, a run without arms.
pub(crate) fn warnings(context: &Context<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    for view in &context.arms {
        for verdict in view.arm.verdicts.iter().filter(|verdict| !verdict.passed) {
            let (asked, measured) = (&verdict.assertion, verdict.measured_text());
            warnings.push(format!("The assertion {asked} failed in arm “{}”: measured {measured}.", view.arm.name));
        }
    }
    if context.arms.is_empty() {
        warnings.push("The run ended before its first arm: there is nothing to compare.".to_owned());
    }
    for view in context.arms.iter().filter(|view| view.arm.load.is_none() && !view.arm.is_observed()) {
        let name = &view.arm.name;
        warnings.push(match &view.arm.driven {
            Some(driven) if driven.exit_code == 0 => format!(
                "What {} printed in arm “{name}” is in no form that is known: the arm has its output, and no figures of its load.",
                driven.driver
            ),
            _ => format!("Arm “{name}” did not get as far as the end of its load: it has no latencies."),
        });
    }
    // a finding says it better
    let found = |id: &str| context.findings.iter().any(|finding| finding.id == id);
    for view in context.arms.iter().filter(|_| !found("load.errors")) {
        let errors: u64 = view.measured().map_or(0, |phase| phase.errors.values().sum());
        if errors > 0 {
            warnings.push(format!("Arm “{}” saw {} errors.", view.arm.name, crate::show::count(errors)));
        }
    }
    let outside = context.evidence.measured.iter().filter(|measured| measured.within_tolerance == Some(false));
    for measured in outside.filter(|_| !found("squeeze.got") && !found("squeeze.foreign_cache")) {
        let arm = measured.arm.as_ref().map_or_else(String::new, |arm| format!(" in arm “{arm}”"));
        warnings.push(format!("{}{arm} is out of tolerance: see asked and got.", measured.what));
    }
    warnings
}
