// SPDX-License-Identifier: Apache-2.0
//! The problems of each varied key and value by itself, for a section whose settings cannot be made because of other problems: so all are told at once.

use crate::axis::{self, Axis, Choices, Set};
use crate::exclude;
use crate::follow;
use crate::read::{Section, Varied, is_fixed};
use crate::variant;
use experiment::{Experiment, problems_in};
use keyfile::{At, Problem, Problems, Table};
use std::collections::BTreeSet;

/// Problems at the places of varied keys and of their values; of what stands elsewhere in the file, one without the matrix is told too little.
pub(crate) fn problems(section: &Section, base: &Table, text: &str) -> Vec<Problem> {
    let (found, unasked) = (problems_in(text), Problems::of(text));
    let lists: Vec<Choices> = section.varied.iter().flat_map(|varied| lists(varied, base)).collect();
    let settings = exclude::apply(&section.rules, each_in_turn(&lists), &unasked);
    for sets in &settings {
        let mut file = variant::laid(base, sets, &found);
        follow::apply(&section.follows, &mut file, &unasked);
        let _ = Experiment::of_table(&file, &found);
    }
    let places: Vec<((usize, usize), (usize, usize))> = lists
        .iter()
        .flatten()
        .flatten()
        .flat_map(|set| [&set.key_at, &set.node.at].map(|at| (found.place(at), found.place(&end(at)))))
        .collect();
    let is_there = |problem: &Problem| {
        let place = (problem.line, problem.column);
        places.iter().any(|(from, to)| (*from..=*to).contains(&place))
    };
    found.into_sorted().into_iter().filter(is_there).collect()
}

/// Both lists in the order of the text; of two problems at one place, that of `first`.
pub(crate) fn merged(mut first: Vec<Problem>, then: Vec<Problem>) -> Vec<Problem> {
    let places: BTreeSet<(usize, usize)> = first.iter().map(|problem| (problem.line, problem.column)).collect();
    first.extend(then.into_iter().filter(|problem| !places.contains(&(problem.line, problem.column))));
    first.sort();
    first
}

fn end(at: &At) -> At {
    at.end..at.end
}

/// For each list, one setting for each of its choices; the other lists have their first choice.
fn each_in_turn(lists: &[Choices]) -> Vec<Vec<Set>> {
    let with = |index: usize, choice: &Vec<Set>| -> Vec<Set> {
        let of = |(other, list): (usize, &Choices)| if other == index { choice.clone() } else { list[0].clone() };
        lists.iter().enumerate().flat_map(of).collect()
    };
    lists.iter().enumerate().flat_map(|(index, list)| list.iter().map(move |choice| with(index, choice))).collect()
}

/// Keys that are drawn vary alone here: of a range, its two ends. Of keys that change together but have not as many values, the last value is taken again.
fn lists(varied: &Varied, base: &Table) -> Vec<Choices> {
    let lists = match varied {
        Varied::Crossed(axis) => vec![axis::alone(axis)],
        Varied::Paired(axes) => {
            let most = axes.iter().map(|axis| axis.values.len()).max().unwrap_or_default();
            let full = |axis: &Axis| {
                let values = (0..most).filter_map(|index| axis.values.get(index).or(axis.values.last()).cloned());
                Axis { values: values.collect(), ..axis.clone() }
            };
            vec![axis::paired(&axes.iter().map(full).collect::<Vec<_>>())]
        }
        Varied::Sampled { keys, .. } => keys.iter().map(|key| key.each(base)).collect(),
    };
    let may_vary = |set: &Set| !is_fixed(&set.path);
    let kept = |list: Choices| -> Choices { list.into_iter().filter(|sets| sets.iter().all(may_vary)).collect() };
    lists.into_iter().map(kept).filter(|list| !list.is_empty()).collect()
}
