// SPDX-License-Identifier: Apache-2.0
//! A whole matrix: from the text of a file to its settings.

use crate::alone;
use crate::axis::{self, Choices, Set};
use crate::budget::Budget;
use crate::exclude;
use crate::follow;
use crate::order::order;
use crate::path;
use crate::read::{self, Section, Varied};
use crate::sample;
use crate::variant;
use experiment::{Experiment, problems_in};
use keyfile::{Problem, Problems, Table, tree};
use std::collections::{BTreeMap, BTreeSet};

/// A file with more cells is refused before its settings are made: at ten seconds a cell, so many take more than a day.
pub const MOST_CELLS: u64 = 10_000;

/// The settings that a file with `[matrix]` describes, and how they are run.
#[derive(Debug, Clone)]
pub struct Matrix {
    pub name: String,
    pub description: String,
    /// The number of times that each setting is run.
    pub blocks: u32,
    pub seed: u64,
    pub budget: Budget,
    /// The keys that vary, as whole paths, in the order of the file; then those that follow them.
    pub keys: Vec<String>,
    /// The same keys in groups: the keys of a group change together.
    pub groups: Vec<Vec<String>>,
    /// The settings in the order of the file; there is at least one.
    pub settings: Vec<Setting>,
    /// The number of settings that the rules of exclusion left out.
    pub excluded: usize,
}

/// One setting of a matrix: an experiment of its own.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The id is computed from everything that the setting runs: two settings that run the same have the same id.
    pub id: String,
    /// The value of each of [`Matrix::keys`], as it would be written in the file.
    pub values: BTreeMap<String, String>,
    /// A file without `[matrix]`.
    pub text: String,
    pub experiment: Experiment,
}

/// Whether a file has a section `[matrix]`. A text that is no TOML has none.
pub fn is_matrix(text: &str) -> bool {
    tree::parse(text, &Problems::of(text)).get("matrix").is_some()
}

impl Matrix {
    /// Reads a file with `[matrix]`.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the text; never empty. A problem of a setting has the place of the value that causes it.
    pub fn parse(text: &str) -> Result<Matrix, Vec<Problem>> {
        let problems = problems_in(text);
        let table = tree::parse(text, &problems);
        if !problems.is_empty() {
            return Err(problems.into_sorted());
        }
        let mut base = table.clone();
        base.0.remove("matrix");
        let Some(section) = read::section(&table, &base, &problems) else { return Err(problems.into_sorted()) };
        match build(&section, &base, &problems) {
            Some(matrix) if problems.is_empty() => Ok(matrix),
            _ => Err(alone::merged(problems.into_sorted(), alone::problems(&section, &base, text))),
        }
    }

    /// The order in which the settings are run: blocks, each with the places of all settings.
    pub fn order(&self) -> Vec<Vec<usize>> {
        let ids: Vec<&str> = self.settings.iter().map(|setting| setting.id.as_str()).collect();
        order(&ids, self.blocks, self.seed)
    }

    /// The number of all cells.
    pub fn cells(&self) -> usize {
        self.settings.len() * self.blocks as usize
    }
}

impl Setting {
    /// The setting's id together with the files that its experiment only names. `files`: each file's name, and its content or a checksum of it.
    pub fn id_with(&self, files: &[(String, String)]) -> String {
        variant::id_with(&self.id, files)
    }
}

/// `None` only with a problem reported.
fn build(section: &Section, base: &Table, problems: &Problems) -> Option<Matrix> {
    if !problems.is_empty() {
        return None;
    }
    let all = settings(section, base, problems)?;
    let count = all.len();
    let left = exclude::apply(&section.rules, all, problems);
    if left.is_empty() {
        let hint = Some("take a rule of [[matrix.exclude]] out".into());
        problems.add(&section.at, "the matrix leaves out every setting", hint);
    }
    if !problems.is_empty() {
        return None;
    }
    let excluded = count - left.len();
    let mut keys: Vec<String> = left.first()?.iter().map(|set| set.path.clone()).collect();
    keys.extend(section.follows.iter().map(|follow| follow.path.clone()));
    let settings: Vec<Setting> = left.iter().filter_map(|sets| setting(sets, section, base, &keys, problems)).collect();
    same_twice(&settings, &left, &keys, problems);
    let first = &settings.first()?.experiment;
    Some(Matrix {
        name: first.name.clone(),
        description: first.description.clone(),
        blocks: section.blocks,
        seed: section.seed,
        budget: section.budget,
        keys,
        groups: section.varied.iter().map(|varied| varied.keys().map(|(path, _)| path.to_owned()).collect()).collect(),
        settings,
        excluded,
    })
}

/// Every setting, before exclusions. `None`: too many, with a problem reported.
fn settings(section: &Section, base: &Table, problems: &Problems) -> Option<Vec<Vec<Set>>> {
    let count = section.varied.iter().try_fold(1u64, |count, varied| count.checked_mul(varied.count()));
    let cells = count.and_then(|count| count.checked_mul(u64::from(section.blocks)));
    if cells.is_none_or(|cells| cells > MOST_CELLS) {
        let many =
            count.map_or_else(|| "more settings than can be counted".to_owned(), |count| format!("{count} settings"));
        let message = format!("too many cells: {many}, each run {} times; {MOST_CELLS} is the most", section.blocks);
        let hint =
            "vary fewer keys, pair them (matrix.pair), draw some settings (matrix.sample), or write fewer blocks";
        problems.add(&section.at, message, Some(hint.into()));
        return None;
    }
    let choices: Vec<Choices> = section
        .varied
        .iter()
        .map(|varied| match varied {
            Varied::Crossed(axis) => axis::alone(axis),
            Varied::Paired(axes) => axis::paired(axes),
            Varied::Sampled { keys, count, at } => sample::choices(keys, *count, at, section.seed, base, problems),
        })
        .collect();
    Some(axis::crossed(&choices))
}

fn setting(sets: &[Set], section: &Section, base: &Table, keys: &[String], problems: &Problems) -> Option<Setting> {
    let mut file = variant::laid(base, sets, problems);
    follow::apply(&section.follows, &mut file, problems);
    let experiment = Experiment::of_table(&file, problems)?;
    let value = |key: &String| Some((key.clone(), path::written(&path::find(&file, key)?.value)));
    let values: BTreeMap<String, String> = keys.iter().filter_map(value).collect();
    let each: Vec<String> = keys.iter().filter_map(|key| Some(format!("{key} = {}", values.get(key)?))).collect();
    let head = format!("# One setting of a matrix: {}\n", each.join(", ").replace('\n', " "));
    Some(Setting { id: variant::id(&file), values, text: variant::text(&file, &head)?, experiment })
}

/// Reports settings that run the same: they would be compared as if they were two.
fn same_twice(settings: &[Setting], sets: &[Vec<Set>], keys: &[String], problems: &Problems) {
    let mut seen = BTreeSet::new();
    if settings.len() != sets.len() {
        return; // a setting that could not be read has been reported
    }
    for (setting, sets) in settings.iter().zip(sets) {
        if !seen.insert(&setting.id) {
            let value = |key: &String| Some(format!("{key} = {}", setting.values.get(key)?));
            let each: Vec<String> = keys.iter().filter_map(value).collect();
            let Some(last) = sets.last() else { continue };
            let message = format!("two settings run the same: {}", each.join(", "));
            problems.add(&last.node.at, message, Some("write each value once".into()));
        }
    }
}
