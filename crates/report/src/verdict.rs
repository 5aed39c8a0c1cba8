// SPDX-License-Identifier: Apache-2.0
//! The findings that come first: those that answer the reader's question.

use crate::{ArmView, Context};
use evidence::ENDED_EARLY;
use explain::{Doubt, Finding, FindingEvidence, Growth};

/// The reason, if the run did not get to its end. Then the answer: the comparison of the arms, the assertions, the limit of each arm.
/// The humps of the histograms come first where the experiment asks for them, and not at all where it does not.
pub(crate) fn sentences(context: &Context<'_>) -> Vec<String> {
    let mut sentences: Vec<String> = ended_early(context).into_iter().collect();
    let mut asserted = asserted(context);
    for finding in told(context) {
        if rank(context, finding) >= LIMITS {
            sentences.extend(asserted.take());
        }
        sentences.extend(each(context, finding));
    }
    sentences.extend(asserted);
    sentences
}

/// The findings whose sentences are in the verdict.
pub(crate) fn told<'c>(context: &'c Context<'_>) -> Vec<&'c Finding> {
    let mut limits = Vec::new();
    let mut told = ranked(context);
    told.retain(|finding| match &finding.evidence {
        FindingEvidence::LatencyModes(_) => context.asks_for_reads,
        FindingEvidence::ObserveCost(_) => !finding.doubts.is_empty(),
        FindingEvidence::MemoryGrowth(found) => is_asked(context, finding) || is_news(found.verdict),
        // for repeated arms, only a finding that says something new
        FindingEvidence::LimitBy(found) => {
            let limit = (cell(context, finding), found.limited_by);
            let is_new = !limits.contains(&limit);
            limits.push(limit);
            is_new
        }
        _ => true,
    });
    told
}

/// Whether the server of this arm was only observed: then it is also an answer that its memory does not grow.
fn is_asked(context: &Context<'_>, finding: &Finding) -> bool {
    context.arms.iter().any(|view| view.arm.is_observed() && Some(&view.arm.name) == finding.arm.as_ref())
}

fn is_news(growth: Growth) -> bool {
    !matches!(growth, Growth::None | Growth::TooFew | Growth::Filling)
}

/// The cell of the finding's arm; the arm's name itself if there is no such arm.
fn cell<'c>(context: &'c Context<'_>, finding: &'c Finding) -> &'c str {
    let name = finding.arm.as_deref().unwrap_or_default();
    context.arms.iter().find(|view| view.arm.name == name).map_or(name, |view| &view.arm.cell)
}

/// A comparison has one sentence for each arm. For an article's figures, those that were measured stand before those that hold on any machine.
fn each(context: &Context<'_>, finding: &Finding) -> Vec<String> {
    match &finding.evidence {
        FindingEvidence::ArmsCompare(compared) => compared.arms.iter().map(|arm| arm.statement.clone()).collect(),
        FindingEvidence::ArticleFigures(found) if !found.told.is_empty() => {
            let rest = finding.statement.strip_prefix(&found.told).unwrap_or(&finding.statement);
            vec![found.told.clone(), rest.trim_start().to_owned()]
        }
        _ => vec![of_its_arm(context, finding)],
    }
}

/// The statement, with the arm that it is about where it does not name it and there are others.
fn of_its_arm(context: &Context<'_>, finding: &Finding) -> String {
    let statement = &finding.statement;
    match &finding.arm {
        Some(arm) if context.arms.len() > 1 && !names(statement, arm) => {
            format!("In \"{arm}\": {statement}")
        }
        _ => statement.clone(),
    }
}

/// A name alone may be a number or a word of the sentence.
fn names(statement: &str, arm: &str) -> bool {
    [format!("\"{arm}\""), format!("“{arm}”")].iter().any(|quoted| statement.contains(quoted.as_str()))
}

/// The assertions: all of them hold, or the ones that do not.
fn asserted(context: &Context<'_>) -> Option<String> {
    let all = context.arms.iter().flat_map(|view| view.arm.verdicts.iter().map(move |verdict| (view, verdict)));
    let all: Vec<_> = all.collect();
    let failed: Vec<String> = all
        .iter()
        .filter(|(_, verdict)| !verdict.passed)
        .map(|(view, verdict)| {
            let (asked, measured) = (&verdict.assertion, verdict.measured_text());
            format!("{asked} in “{}” (measured {measured})", view.arm.name)
        })
        .collect();
    let count = units::counted(all.len() as u64, "assertion");
    // an arm that broke off before its assertions could be judged holds none
    let unjudged = context.arms.iter().filter(|view| view.arm.verdicts.is_empty() && view.arm.broke_off.is_some());
    let unjudged: Vec<String> = unjudged.map(|view| format!("“{}”", view.arm.name)).collect();
    match (all.len(), failed.len()) {
        (1.., 0) if !unjudged.is_empty() => {
            let held = if all.len() == 1 { "holds" } else { "hold" };
            Some(format!(
                "{count} {held} of the arms that ran to their ends. Nothing was judged of {}.",
                unjudged.join(", ")
            ))
        }
        (0, _) => None,
        (1, 0) => Some("What was asserted holds.".to_owned()),
        (_, 0) => Some(format!("All {count} hold.")),
        (_, wrong) => Some(format!("{wrong} of {count} failed: {}.", failed.join("; "))),
    }
}

/// The reason in one line: the end of a log that may follow it is in the list of events.
pub(crate) fn ended_early(context: &Context<'_>) -> Option<String> {
    let why = context.events.iter().find_map(|event| event.text.strip_prefix(ENDED_EARLY))?;
    let line = why.lines().next().unwrap_or_default();
    let line = line.split("; the end of its log:").next().unwrap_or(line);
    Some(format!("The run ended early: {line}."))
}

/// The rank, from [`rank`], of a finding about an arm's limit.
const LIMITS: u8 = 2;

fn rank(context: &Context<'_>, finding: &Finding) -> u8 {
    match &finding.evidence {
        FindingEvidence::LatencyModes(_) if context.asks_for_reads => 0,
        FindingEvidence::ArticleFigures(_) => 0,
        FindingEvidence::ArmsCompare(_) => 1,
        FindingEvidence::LimitBy(_) => LIMITS,
        FindingEvidence::LatencyModes(_) => 8,
        // that nothing leaks is seldom the question
        FindingEvidence::MemoryGrowth(found) if !is_news(found.verdict) => 6,
        FindingEvidence::HostBusy(_) => 7,
        // the cost of the observation is no answer to the question
        FindingEvidence::ObserveCost(_) => 9,
        _ => 3,
    }
}

/// The answer first. Within a kind, findings about the whole run come first, then those about arms: limits in the order of the arms, all others with
/// the arms with the slowest reads first.
pub(crate) fn ranked<'c>(context: &'c Context<'_>) -> Vec<&'c Finding> {
    let delay = |name: &str| {
        let view = context.arms.iter().find(|view| view.arm.name == name);
        view.and_then(|view| view.arm.delay).map_or(0, |delay| delay.read_us)
    };
    let mut ranked: Vec<&Finding> = context.findings.iter().collect();
    ranked.sort_by_key(|finding| {
        let slow = match (rank(context, finding), finding.arm.as_deref()) {
            (LIMITS, _) | (_, None) => u64::MAX,
            (_, Some(arm)) => delay(arm),
        };
        (rank(context, finding), std::cmp::Reverse(slow))
    });
    ranked
}

/// Facts that a reader must know before believing the result: arms that did not finish, squeezes out of tolerance, a run without arms.
pub(crate) fn warnings(context: &Context<'_>) -> Vec<String> {
    let mut warnings: Vec<String> = cut_off(context).into_iter().collect();
    if context.arms.is_empty() {
        warnings.push("The run ended before its first arm was measured: there is nothing to compare.".to_owned());
    }
    warnings.extend(context.arms.iter().filter_map(|view| broke_off(&view.arm.name, view)));
    let silent = |view: &&ArmView<'_>| view.arm.load.is_none() && view.arm.broke_off.is_none();
    for view in context.arms.iter().filter(silent).filter(|view| !view.arm.is_observed()) {
        let name = &view.arm.name;
        warnings.push(match &view.arm.driven {
            Some(driven) if driven.exit_code == 0 => format!(
                "Arm “{name}” has no figures: Wringer does not know the form of what {} printed. Its output is kept.",
                driven.driver
            ),
            _ => format!("Arm “{name}” did not get as far as the end of its load: it has no latencies."),
        });
    }
    // a finding says this better
    let found = |is: fn(&FindingEvidence) -> bool| context.findings.iter().any(|finding| is(&finding.evidence));
    let errors_are_found = found(|evidence| matches!(evidence, FindingEvidence::LoadErrors(_)));
    for view in context.arms.iter().filter(|_| !errors_are_found) {
        let errors: u64 = view.measured().map_or(0, |phase| phase.errors.values().sum());
        if errors > 0 {
            warnings.push(format!("Arm “{}” saw {} errors.", view.arm.name, crate::show::count(errors)));
        }
    }
    let outside = context.evidence.measured.iter().filter(|measured| measured.within_tolerance == Some(false));
    let squeezes_are_found =
        found(|evidence| matches!(evidence, FindingEvidence::SqueezeGot(_) | FindingEvidence::SqueezeForeignCache(_)));
    for measured in outside.filter(|_| !squeezes_are_found) {
        let arm = measured.arm.as_ref().map_or_else(String::new, |arm| format!(" in arm “{arm}”"));
        warnings.push(format!("{}{arm} is out of tolerance: see asked and got.", measured.what));
    }
    warnings
}

fn cut_off(context: &Context<'_>) -> Option<String> {
    let after = crate::show::micros(context.evidence.elapsed_us as f64);
    let why = "its writer was killed, could not write any more, or still writes";
    context.evidence.is_cut_off.then(|| format!("The recording was cut off after {after}: {why}."))
}

/// An arm that is not complete: the reason, and the part of the arm that is in the result.
fn broke_off(name: &str, view: &ArmView<'_>) -> Option<String> {
    let why = crate::redact::text(view.arm.broke_off.as_deref()?);
    let phase = view.measured().filter(|phase| phase.transactions > 0);
    let kept = match (phase, &view.arm.driven) {
        (Some(phase), _) => {
            let (count, took) = (crate::show::count(phase.transactions), crate::show::micros(phase.elapsed_us as f64));
            format!("its figures are of the {count} transactions in the {took} before")
        }
        (None, Some(_)) => "the output of its load is kept, without figures".to_owned(),
        (None, None) => "it had measured nothing of its load yet".to_owned(),
    };
    Some(format!("Arm “{name}” broke off: {why}; {kept}."))
}

/// The doubts of the findings that are told: first that the host was busy, then that a squeeze is not as asked, then the others.
pub(crate) fn doubts<'c>(context: &'c Context<'_>) -> Vec<&'c Doubt> {
    let all = told(context).into_iter().flat_map(|finding| &finding.doubts);
    let mut doubts: Vec<&Doubt> = all.filter(|doubt| !doubt.text.is_empty()).collect();
    let rank = |id: &str| match id.split('.').next() {
        Some("host") => 0,
        Some("squeeze") => 1,
        _ => 2,
    };
    doubts.sort_by_key(|doubt| rank(&doubt.id));
    doubts
}
