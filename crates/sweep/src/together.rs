// SPDX-License-Identifier: Apache-2.0
//! Figures of each setting over all its cells, and verdicts between settings.

use crate::plan::Plan;
use crate::state::{Cell, CellState, Comparison, Setting, State, Value};
use std::collections::BTreeMap;
use verdict::{Repeat, judge, typical};

/// Up to so many settings, all pairs are compared.
const ALL_PAIRS: usize = 12;
/// The most pairs that are compared: with more, the file would be too large for the report's page.
const MOST_PAIRS: usize = 400;

/// Figures of each setting, from its done cells.
pub(crate) fn settings(state: &mut State) {
    let (cells, settings) = (&state.cells, &mut state.settings);
    settings.iter_mut().for_each(|setting| summarise(setting, cells));
}

fn summarise(setting: &mut Setting, cells: &[Cell]) {
    let done: Vec<&Cell> = of(&setting.id, cells).collect();
    setting.done = done.len();
    setting.outcomes = BTreeMap::new();
    for outcome in done.iter().flat_map(|cell| cell.outcomes.values()) {
        *setting.outcomes.entry(outcome.clone()).or_default() += 1;
    }
    let mut values: Vec<(Value, Vec<f64>)> = Vec::new();
    for measured in done.iter().flat_map(|cell| &cell.figures) {
        let (arm, figure) = (&measured.arm, &measured.figure);
        match values.iter_mut().find(|(value, _)| value.arm == *arm && value.name == figure.name) {
            Some((_, all)) => all.push(figure.value),
            None => {
                let (arm, name, unit) = (arm.clone(), figure.name.clone(), figure.unit.clone());
                let value = Value { arm, name, unit, repeats: 0, typical: 0.0, lowest: 0.0, highest: 0.0 };
                values.push((value, vec![figure.value]));
            }
        }
    }
    let filled = values.into_iter().map(|(value, all)| Value {
        repeats: all.len(),
        typical: typical(&all),
        lowest: all.iter().copied().fold(f64::INFINITY, f64::min),
        highest: all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        ..value
    });
    setting.figures = filled.collect();
}

fn of<'c>(setting: &str, cells: &'c [Cell]) -> impl Iterator<Item = &'c Cell> {
    cells.iter().filter(move |cell| cell.setting == setting && cell.state == CellState::Done && !cell.dropped)
}

/// The verdicts between settings. Few settings: of all pairs. Many settings: of the pairs that differ only in keys that vary together, and of each setting
/// with the first.
pub(crate) fn comparisons(state: &mut State, plan: &Plan) {
    let count = state.settings.len();
    let all = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b)));
    let near = |(a, b): &(usize, usize)| {
        let (one, other) = (&state.settings[*a].settings, &state.settings[*b].settings);
        let differing = plan.groups.iter().filter(|group| group.iter().any(|key| one.get(key) != other.get(key)));
        count <= ALL_PAIRS || *a == 0 || differing.count() == 1
    };
    let pairs: Vec<(usize, usize)> = all.filter(near).take(MOST_PAIRS).collect();
    state.not_compared = count * count.saturating_sub(1) / 2 - pairs.len();
    state.comparisons =
        pairs.into_iter().flat_map(|(a, b)| pair(state, &state.settings[a], &state.settings[b])).collect();
}

fn pair(state: &State, a: &Setting, b: &Setting) -> Vec<Comparison> {
    let cells = |setting: &Setting| of(&setting.id, &state.cells).collect::<Vec<_>>();
    let (of_a, of_b) = (cells(a), cells(b));
    let mut arms: Vec<&str> = Vec::new();
    for figure in of_a.iter().flat_map(|cell| &cell.figures) {
        if !arms.contains(&figure.arm.as_str()) {
            arms.push(&figure.arm);
        }
    }
    let differs: Vec<String> =
        state.keys.iter().filter(|key| a.settings.get(*key) != b.settings.get(*key)).cloned().collect();
    let compared = arms.into_iter().filter(|arm| of_b.iter().flat_map(|cell| &cell.figures).any(|it| it.arm == *arm));
    compared
        .map(|arm| {
            let repeats = |cells: &[&Cell]| cells.iter().filter_map(|cell| repeat(cell, arm)).collect::<Vec<_>>();
            let judged = judge(&repeats(&of_a), &repeats(&of_b));
            Comparison {
                a: a.id.clone(),
                b: b.id.clone(),
                arm: arm.to_owned(),
                differs: differs.clone(),
                figures: judged.figures,
                told: told(&of_a, &of_b),
            }
        })
        .collect()
}

/// `None`: the cell has no complete measurement of this arm.
fn repeat(cell: &Cell, arm: &str) -> Option<Repeat> {
    let figures: Vec<_> = cell.figures.iter().filter(|it| it.arm == arm).map(|it| it.figure.clone()).collect();
    (!figures.is_empty()).then_some(Repeat { block: Some(cell.block), figures })
}

/// What a reader must know of a verdict on these cells: cells that are left out, a busy host, different hosts.
fn told(a: &[&Cell], b: &[&Cell]) -> Vec<String> {
    let mut told = Vec::new();
    for (side, cells) in [("first", a), ("second", b)] {
        let without = cells.iter().filter(|cell| cell.figures.is_empty()).count();
        if without > 0 {
            told.push(format!(
                "{without} of {} cells of the {side} setting measured nothing, and are not in the verdict",
                cells.len()
            ));
        }
    }
    let disturbed = a.iter().chain(b).filter(|cell| cell.disturbed).count();
    if disturbed > 0 {
        told.push(format!("{disturbed} of {} cells ran while the host was busy with other work", a.len() + b.len()));
    }
    let nodes: std::collections::BTreeSet<&str> = a.iter().chain(b).filter_map(|cell| cell.node.as_deref()).collect();
    if nodes.len() > 1 {
        told.push(format!("the cells ran on different hosts: {}", nodes.into_iter().collect::<Vec<_>>().join(", ")));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::merged;
    use crate::plan::Planned;
    use crate::state::FigureOf;
    use verdict::{Figure, THROUGHPUT, Verdict};

    /// Each setting has a throughput of its own, and each block is slower by a factor, as on a host that is slower at night.
    fn measured(rates: &[f64], blocks: u32) -> (State, Plan) {
        let key = || "k".to_owned();
        let planned = |(index, rate): (usize, &f64)| Planned {
            id: format!("s{index:03}"),
            values: BTreeMap::from([(key(), rate.to_string())]),
            disk_bytes: 0,
        };
        let plan = Plan {
            keys: vec![key()],
            groups: vec![vec![key()]],
            settings: rates.iter().enumerate().map(planned).collect(),
            blocks,
            ..Plan::default()
        };
        let mut state = merged(None, &plan);
        for cell in &mut state.cells {
            let rate: f64 = cell.settings["k"].parse().expect("a number");
            let noise = 1.0 + 0.001 * f64::from(cell.block % 3);
            let figure = Figure::new(THROUGHPUT, "transactions/s", rate * noise / f64::from(cell.block));
            cell.state = CellState::Done;
            cell.outcomes = BTreeMap::from([("baseline".into(), "measured".into())]);
            cell.figures = vec![FigureOf { arm: "baseline".into(), figure }];
        }
        settings(&mut state);
        comparisons(&mut state, &plan);
        (state, plan)
    }

    #[test]
    fn settings_are_compared_within_blocks() {
        let (state, _) = measured(&[100.0, 80.0, 80.01], 5);
        let one = &state.settings[0].figures[0];
        assert_eq!((one.repeats, state.settings[0].outcomes["measured"]), (5, 5));
        assert!(one.lowest < 21.0 && one.highest > 99.0, "{one:?}");
        let verdicts: Vec<_> =
            state.comparisons.iter().map(|it| (it.a.as_str(), it.b.as_str(), it.figures[0].verdict)).collect();
        // the blocks differ by a factor of five, and the verdicts are there all the same
        assert_eq!(verdicts[0], ("s000", "s001", Some(Verdict::Lower)));
        assert_eq!(state.comparisons.len(), 3);
        assert_eq!(state.comparisons[0].figures[0].pairs, Some(5));
        assert_eq!(state.comparisons[0].differs, ["k"]);
    }

    #[test]
    fn below_three_blocks_there_is_no_verdict() {
        let (state, _) = measured(&[100.0, 80.0], 2);
        assert!(state.comparisons[0].figures[0].verdict.is_none());
    }

    #[test]
    fn of_many_settings_not_all_pairs_are_compared_and_the_rest_is_counted() {
        let rates: Vec<f64> = (0..40).map(|n| 100.0 + f64::from(n)).collect();
        let (state, _) = measured(&rates, 3);
        assert_eq!(state.comparisons.len(), MOST_PAIRS);
        assert_eq!(state.not_compared, 780 - MOST_PAIRS);
        assert!((1..40).all(|n| state.comparisons.iter().any(|it| it.a == "s000" && it.b == format!("s{n:03}"))));
    }
}
