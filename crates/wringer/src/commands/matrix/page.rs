// SPDX-License-Identifier: Apache-2.0
//! The page of a sweep: turns its state into the report's plain data.

use super::headline::headline;
use super::show::time;
use super::unlike;
use crate::commands::run::REPORT;
use crate::exit::Outcome;
use report::{SweepCell, SweepFigure, SweepSetting, SweepVerdict, SweepView};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use sweep::{Cell, CellState, Comparison, Setting, State};
use verdict::{Compared, THROUGHPUT};

/// # Errors
/// The page cannot be written.
pub(super) fn write_page(state: &State, path: &Path) -> Outcome {
    let mut page = Vec::new();
    report::write_sweep_html(&view(state), &mut page)?;
    // a page of an earlier call stays where this one does not fit on the disk
    Ok(host::files::write_atomic(path, &page, 0o644)?)
}

fn view(state: &State) -> SweepView {
    let places: BTreeMap<&str, usize> =
        state.settings.iter().enumerate().map(|(place, setting)| (setting.id.as_str(), place)).collect();
    let place = |id: &str| places.get(id).copied();
    let (sentences, warnings) = (sentences(state), warnings(state));
    SweepView {
        version: env!("CARGO_PKG_VERSION").into(),
        name: state.name.clone(),
        description: state.description.clone(),
        sentences,
        warnings,
        keys: state.keys.clone(),
        settings: state.settings.iter().map(|one| setting(one, &state.keys)).collect(),
        cells: state.planned().filter_map(|one| Some(cell(one, place(&one.setting)?))).collect(),
        verdicts: state
            .comparisons
            .iter()
            .filter_map(|one| Some((one, place(&one.a)?, place(&one.b)?)))
            .flat_map(|(one, a, b)| verdicts(one, a, b))
            .collect(),
        planned: state.planned().count(),
    }
}

fn setting(one: &Setting, keys: &[String]) -> SweepSetting {
    let others = one.outcomes.iter().filter(|(outcome, _)| *outcome != "measured");
    SweepSetting {
        values: keys.iter().map(|key| one.settings.get(key).cloned().unwrap_or_default()).collect(),
        done: one.done,
        outcomes: others.map(|(outcome, count)| format!("{outcome} {count}x")).collect::<Vec<_>>().join(", "),
    }
}

fn cell(one: &Cell, setting: usize) -> SweepCell {
    let mut state: Vec<String> = match one.state {
        CellState::Done => {
            let mut outcomes: Vec<String> = one.outcomes.values().cloned().collect();
            outcomes.dedup();
            outcomes
        }
        CellState::Failed => vec!["failed".into()],
        CellState::Pending | CellState::Running => vec!["to be run".into()],
    };
    state.extend(one.disturbed.then(|| "disturbed".into()));
    state.extend(one.unsteady.then(|| "unsteady".into()));
    let figures = one.figures.iter().map(|of| SweepFigure {
        arm: of.arm.clone(),
        name: of.figure.name.clone(),
        unit: of.figure.unit.clone(),
        value: of.figure.value,
    });
    SweepCell {
        id: one.id.clone(),
        setting,
        block: one.block,
        state: state.join(", "),
        attempts: one.attempts.len(),
        elapsed_us: one.elapsed_us,
        link: one
            .recording
            .as_ref()
            .and_then(|path| Some(Path::new(path).parent()?.join(REPORT).display().to_string())),
        told: one.told.clone(),
        figures: figures.collect(),
    }
}

/// The verdicts on each figure; where the settings are not comparable, that alone.
fn verdicts(one: &Comparison, a: usize, b: usize) -> Vec<SweepVerdict> {
    match unlike::word(one) {
        Some(word) => vec![SweepVerdict {
            a,
            b,
            arm: one.arm.clone(),
            figure: THROUGHPUT.into(),
            ratio: None,
            low: None,
            high: None,
            verdict: word.into(),
            is_shown: false,
            detectable_ratio: None,
        }],
        None => one.figures.iter().map(|figure| verdict_of(one, figure, a, b)).collect(),
    }
}

fn verdict_of(one: &Comparison, figure: &Compared, a: usize, b: usize) -> SweepVerdict {
    let none = || figure.no_verdict.map_or_else(|| "no verdict".to_owned(), |why| format!("no verdict: {why:?}"));
    SweepVerdict {
        a,
        b,
        arm: one.arm.clone(),
        figure: figure.name.clone(),
        ratio: figure.ratio,
        low: figure.low,
        high: figure.high,
        verdict: figure.verdict.map_or_else(none, |verdict| verdict.to_string()),
        is_shown: figure.is_shown(),
        detectable_ratio: figure.detectable_ratio,
    }
}

/// Sentences: the setting with the most transactions first, then the differences to the first setting.
fn sentences(state: &State) -> Vec<String> {
    let mut told: Vec<String> = headline(state).into_iter().collect();
    let (done, all) = (state.count(CellState::Done), state.planned().count());
    let left = state.remaining.map(|left| format!("; about {} left", time(left.us))).unwrap_or_default();
    told.push(format!("{done} of {all} cells are done{left}."));
    let (Some(first), keys) = (state.settings.first(), &state.keys) else { return told };
    let arms: BTreeSet<&str> = state.comparisons.iter().map(|one| one.arm.as_str()).collect();
    for one in state.comparisons.iter().filter(|one| one.a == first.id) {
        let shown = one.figures.iter().find(|figure| figure.name == THROUGHPUT && figure.is_shown());
        let other = state.settings.iter().find(|setting| setting.id == one.b);
        if let (Some(figure), Some(other)) = (shown, other)
            && let (Some(ratio), Some(low), Some(high)) = (figure.ratio, figure.low, figure.high)
        {
            told.push(format!(
                "{} has {} times the throughput of {} (between {} and {}{}).",
                other.label(keys),
                report::ratio(ratio),
                first.label(keys),
                report::ratio(low),
                report::ratio(high),
                if arms.len() > 1 { format!("; arm {}", one.arm) } else { String::new() }
            ));
        }
    }
    told
}

fn warnings(state: &State) -> Vec<String> {
    let count = |is: fn(&Cell) -> bool| state.planned().filter(|cell| is(cell)).count();
    let mut told = Vec::new();
    let (disturbed, unsteady) = (count(|cell| cell.disturbed), count(|cell| cell.unsteady));
    let failed = count(|cell| cell.state == CellState::Failed);
    if disturbed > 0 {
        told.push(format!(
            "{} ran while the host was busy with other work, both times.",
            units::counted(disturbed as u64, "cell")
        ));
    }
    if unsteady > 0 {
        told.push(format!("Of {} the two halves do not agree.", units::counted(unsteady as u64, "cell")));
    }
    if failed > 0 {
        told.push(format!("{} could not be run.", units::counted(failed as u64, "cell")));
    }
    told.extend(unlike::sentence(state));
    if state.blocks < 3 {
        told.push("Fewer than three blocks: there is no verdict between settings.".into());
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweep::Comparable;

    #[test]
    fn settings_that_are_not_comparable_have_no_verdict_and_their_reason() {
        let setting = |id: &str| Setting { id: id.into(), ..Setting::default() };
        let reason = "blocks 2, 4 of k=2: all arms ended with out_of_memory";
        let comparison = Comparison {
            a: "1".into(),
            b: "2".into(),
            arm: "baseline".into(),
            differs: vec!["k".into()],
            verdict: Comparable::NotComparable,
            not_comparable: vec![reason.into()],
            figures: Vec::new(),
            told: Vec::new(),
        };
        let settings = vec![setting("1"), setting("2")];
        let view = view(&State { blocks: 5, settings, comparisons: vec![comparison], ..State::default() });
        let verdicts: Vec<_> = view.verdicts.iter().map(|it| (it.b, it.verdict.as_str(), it.is_shown)).collect();
        assert_eq!(verdicts, [(1, "not comparable", false)]);
        assert_eq!(view.warnings, [format!("1 pair of settings is not comparable: {reason}.")]);
        let mut page = Vec::new();
        report::write_sweep_html(&view, &mut page).expect("a page");
        let page = String::from_utf8_lossy(&page);
        assert!(page.contains(reason) && page.contains(">not comparable<"), "{page}");
    }
}
