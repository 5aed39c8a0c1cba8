// SPDX-License-Identifier: Apache-2.0
//! Figures of each setting over all its cells, and verdicts between settings.

use crate::best::most_transactions;
use crate::pair::{Pair, differing_keys};
use crate::plan::Plan;
use crate::state::{ALL_ARMS, Cell, CellState, Comparable, Comparison, Setting, State, Value};
use explain::sides::{Conditions, Differs};
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

/// The verdicts between settings. Few settings: of all pairs. Many settings: of the pairs that differ only in keys that vary together, of each setting
/// with the first, and of each with the one that has the most transactions: that one is told to people, with what is shown of it.
pub(crate) fn comparisons(state: &mut State, plan: &Plan) {
    let count = state.settings.len();
    let all = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b)));
    let most = most_transactions(&state.settings).map(|(place, _)| place);
    let is_of_most = |(a, b): &(usize, usize)| most.is_some_and(|most| *a == most || *b == most);
    let near = |(a, b): &(usize, usize)| {
        let (one, other) = (&state.settings[*a].settings, &state.settings[*b].settings);
        let differing = plan.groups.iter().filter(|group| group.iter().any(|key| one.get(key) != other.get(key)));
        count <= ALL_PAIRS || *a == 0 || is_of_most(&(*a, *b)) || differing.count() == 1
    };
    let (of_most, others): (Vec<_>, Vec<_>) = all.filter(near).partition(is_of_most);
    let room = MOST_PAIRS.saturating_sub(of_most.len());
    let mut pairs: Vec<(usize, usize)> = of_most.into_iter().chain(others.into_iter().take(room)).collect();
    pairs.sort_unstable();
    state.not_compared = count * count.saturating_sub(1) / 2 - pairs.len();
    state.comparisons =
        pairs.into_iter().flat_map(|(a, b)| pair(state, &state.settings[a], &state.settings[b])).collect();
}

/// The comparisons of two settings: one for each arm that a cell of one of them began.
fn pair(state: &State, a: &Setting, b: &Setting) -> Vec<Comparison> {
    let differs = differing_keys(state, a, b);
    let cells: Vec<&Cell> = [a, b].iter().flat_map(|setting| of(&setting.id, &state.cells)).collect();
    arms(&cells).into_iter().filter_map(|arm| compared(state, [a, b], &differs, arm)).collect()
}

fn arms<'c>(cells: &[&'c Cell]) -> Vec<&'c str> {
    let mut arms: Vec<&str> = Vec::new();
    let measured = cells.iter().flat_map(|cell| &cell.figures).map(|figure| figure.arm.as_str());
    let ended = cells.iter().flat_map(|cell| cell.outcomes.keys()).map(String::as_str);
    for arm in measured.chain(ended.filter(|arm| *arm != ALL_ARMS)) {
        if !arms.contains(&arm) {
            arms.push(arm);
        }
    }
    arms
}

/// `None`: the cells are still to be run.
fn compared(state: &State, [a, b]: [&Setting; 2], differs: &[String], arm: &str) -> Option<Comparison> {
    let pair = Pair::of(state, [a, b], Some(arm));
    if pair.is_to_be_run {
        return None;
    }
    let (of_a, of_b) = (pair.a.clone(), pair.b.clone());
    let wanted = pair.wanted(differs);
    let unlike = explain::sides::differs(&conditions(&of_a), &conditions(&of_b), &wanted);
    let hindrances = unlike.iter().filter_map(Differs::reason);
    let not_comparable: Vec<String> = wanted.unmeasured.into_iter().chain(hindrances).collect();
    let repeats = |cells: &[&Cell]| cells.iter().map(|cell| repeat(cell, arm)).collect::<Vec<_>>();
    let figures = match not_comparable.is_empty() {
        true => judge(&repeats(&of_a), &repeats(&of_b)).figures,
        false => Vec::new(),
    };
    Some(Comparison {
        a: a.id.clone(),
        b: b.id.clone(),
        arm: arm.to_owned(),
        differs: differs.to_vec(),
        verdict: if not_comparable.is_empty() { Comparable::Compared } else { Comparable::NotComparable },
        not_comparable,
        figures,
        told: told(&of_a, &of_b),
    })
}

/// The conditions of those cells that have them.
fn conditions(cells: &[&Cell]) -> Vec<Conditions> {
    cells.iter().filter(|cell| !cell.conditions.is_empty()).map(|cell| cell.conditions.clone()).collect()
}

fn repeat(cell: &Cell, arm: &str) -> Repeat {
    let figures = cell.figures.iter().filter(|it| it.arm == arm).map(|it| it.figure.clone());
    Repeat { block: Some(cell.block), figures: figures.collect() }
}

/// What a reader must know of a verdict on these cells: a busy host, several hosts, conditions that are not known.
fn told(a: &[&Cell], b: &[&Cell]) -> Vec<String> {
    let mut told = Vec::new();
    let count = |is: fn(&Cell) -> bool| a.iter().chain(b).filter(|cell| is(cell)).count();
    let all = a.len() + b.len();
    let disturbed = count(|cell| cell.disturbed);
    if disturbed > 0 {
        told.push(format!("{disturbed} of {all} cells ran while the host was busy with other work"));
    }
    let nodes: std::collections::BTreeSet<&str> = a.iter().chain(b).filter_map(|cell| cell.node.as_deref()).collect();
    if nodes.len() > 1 {
        told.push(format!(
            "the cells ran on hosts with different names: {}",
            nodes.into_iter().collect::<Vec<_>>().join(", ")
        ));
    }
    let unknown = count(|cell| cell.conditions.is_empty());
    if unknown > 0 {
        told.push(format!(
            "the conditions of {unknown} of {all} cells are not known: an earlier version of Wringer ran them, and their recordings cannot be read"
        ));
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
        changed("k", rates, blocks, |_| ())
    }

    /// The same, with this key, and with cells that `change` has changed. The settings are `s000`, `s001`, ...
    fn changed(key: &str, rates: &[f64], blocks: u32, change: impl Fn(&mut Cell)) -> (State, Plan) {
        let planned = |(index, rate): (usize, &f64)| Planned {
            id: format!("s{index:03}"),
            values: BTreeMap::from([(key.to_owned(), rate.to_string())]),
            disk_bytes: 0,
        };
        let plan = Plan {
            keys: vec![key.to_owned()],
            groups: vec![vec![key.to_owned()]],
            settings: rates.iter().enumerate().map(planned).collect(),
            blocks,
            ..Plan::default()
        };
        let mut state = merged(None, &plan);
        for cell in &mut state.cells {
            let rate: f64 = cell.settings[key].parse().expect("a number");
            let noise = 1.0 + 0.001 * f64::from(cell.block % 3);
            let figure = Figure::new(THROUGHPUT, "transactions/s", rate * noise / f64::from(cell.block));
            cell.state = CellState::Done;
            cell.outcomes = BTreeMap::from([("baseline".into(), "measured".into())]);
            cell.figures = vec![FigureOf { arm: "baseline".into(), figure }];
            cell.conditions = given(&[("server.version", "10.6.1"), ("host.kernel", "6.1")]);
            change(cell);
        }
        settings(&mut state);
        comparisons(&mut state, &plan);
        (state, plan)
    }

    fn given(all: &[(&str, &str)]) -> Conditions {
        all.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect()
    }

    /// Why two settings, whose throughputs differ, are not comparable. Empty: there is a verdict.
    fn hindered(key: &str, change: impl Fn(&mut Cell)) -> Vec<String> {
        let (state, _) = changed(key, &[100.0, 80.0], 5, change);
        let [one] = state.comparisons.as_slice() else { panic!("{:?}", state.comparisons) };
        let has_verdict = one.figures.iter().any(|figure| figure.verdict == Some(Verdict::Lower));
        assert_eq!(one.verdict == Comparable::Compared, has_verdict, "{one:?}");
        assert_eq!(one.verdict == Comparable::NotComparable, one.figures.is_empty(), "{one:?}");
        one.not_comparable.clone()
    }

    #[test]
    fn what_survived_is_not_compared() {
        let killed = |cell: &mut Cell| {
            cell.outcomes = BTreeMap::from([("baseline".into(), "out_of_memory".into())]);
            cell.figures.clear();
        };
        let some = hindered("k", |cell| {
            if cell.setting == "s001" && [2, 4].contains(&cell.block) {
                killed(cell);
            }
        });
        assert_eq!(some, ["blocks 2, 4 of k=80: arm \"baseline\" ended with out_of_memory"]);
        let all = hindered("k", |cell| {
            if cell.setting == "s000" {
                killed(cell);
            }
        });
        let why = "arm \"baseline\" ended with out_of_memory";
        assert_eq!(all, [format!("k=100 has no measurement in any of its 5 cells: {why}")]);
    }

    #[test]
    fn a_server_or_host_that_nobody_asked_for_hinders() {
        let newer = |is: fn(&Cell) -> bool| {
            move |cell: &mut Cell| {
                if is(cell) {
                    cell.conditions.insert("server.version".into(), "10.6.2".into());
                }
            }
        };
        // the server was upgraded between two calls: in the middle of a setting, or between two settings
        let within = newer(|cell| cell.setting == "s001" && cell.block > 2);
        assert_eq!(hindered("k", within), ["server.version is not the same: 10.6.1 and 10.6.1 or 10.6.2"]);
        let between = newer(|cell| cell.setting == "s001");
        assert_eq!(hindered("k", between), ["server.version is not the same: 10.6.1 and 10.6.2"]);
        // the matrix varies the version: this difference was asked, and one within a setting was not
        assert_eq!(hindered("server.version", between), Vec::<String>::new());
        assert_eq!(hindered("server.version", within), ["server.version is not the same: 10.6.1 and 10.6.1 or 10.6.2"]);
        let other_host = |cell: &mut Cell| {
            if cell.block == 3 {
                cell.conditions.insert("host.kernel".into(), "6.12".into());
            }
        };
        let why = hindered("k", other_host);
        assert_eq!((why.len(), why[0].starts_with("host.kernel is not the same: ")), (1, true), "{why:?}");
    }

    #[test]
    fn cells_whose_conditions_are_not_known_are_counted() {
        let (state, _) = changed("k", &[100.0, 80.0], 3, |cell| {
            if cell.block == 1 {
                cell.conditions.clear();
            }
        });
        let one = &state.comparisons[0];
        assert_eq!((one.verdict, one.told.len()), (Comparable::Compared, 1), "{one:?}");
        assert!(one.told[0].starts_with("the conditions of 2 of 6 cells are not known"), "{one:?}");
    }

    #[test]
    fn settings_whose_cells_are_to_be_run_are_not_compared_yet() {
        let (state, _) = changed("k", &[100.0, 80.0], 3, |cell| {
            if cell.setting == "s001" {
                *cell = Cell { id: cell.id.clone(), setting: "s001".into(), block: cell.block, ..Cell::default() };
            }
        });
        assert_eq!(state.comparisons, Vec::new());
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
