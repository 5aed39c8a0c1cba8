// SPDX-License-Identifier: Apache-2.0
//! From text to [`Experiment`]: sections, then arms whose keys replace theirs, then checks for contradictions.

mod arms;
mod around;
mod assertions;
mod beside;
mod driver;
mod fill;
mod foreign;
mod foreign_load;
mod load;
mod load_keys;
mod loads_beside;
mod moments;
mod replay;
mod server;
mod server_start;
mod squeeze;
mod statements;
mod variable;

pub use arms::replaced_whole;

use crate::model::{Experiment, Observe, Question, WatchStalls};
use crate::problem::{Problem, Problems};
use crate::section::Section;
use crate::tree::{self, Table};
use std::collections::{BTreeMap, BTreeSet};
use units::Span;

/// The version of the file format that this program reads.
const SCHEMA: u32 = 1;

impl Experiment {
    /// Reads an experiment file.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the text; never empty.
    pub fn parse(text: &str) -> Result<Experiment, Vec<Problem>> {
        let problems = problems_in(text);
        let table = tree::parse(text, &problems);
        if !problems.is_empty() {
            return Err(problems.into_sorted()); // text that is not TOML would only cause more problems
        }
        match read(&table, &problems) {
            Some(experiment) if problems.is_empty() => Ok(experiment),
            _ => Err(problems.into_sorted()),
        }
    }

    /// Reads the tree of a file after some of its keys were set to other values. The tree has the place of each problem.
    ///
    /// `None` only with a problem reported. With a problem reported, an experiment may still be returned, and must not be used.
    pub fn of_table(table: &Table, problems: &Problems) -> Option<Experiment> {
        read(table, problems)
    }
}

/// Gathers problems in the text of an experiment file; it knows the words of other tools.
pub fn problems_in(text: &str) -> Problems {
    Problems::of(text).with_hints(foreign::hint)
}

/// `None` only with a problem reported.
fn read(table: &Table, problems: &Problems) -> Option<Experiment> {
    let top = Section::top(table, problems);
    schema(&top);
    let name = name(&top);
    let description = top.text("description").map_or_else(String::new, |text| text.value);
    let question = top.choice("question", &Question::ALL.map(Question::name));
    let question = question.and_then(|asked| Question::ALL.into_iter().find(|it| it.name() == asked.value));
    let article = top.integer("article", 1..=5u32).map(|number| number.value);
    let repeat = top.integer("repeat", 1..=1000u32).map_or(1, |number| number.value);
    let server = server::read(&top);
    let fill = fill::read(&top, server.as_ref());
    let observe = observe(&top);
    let arms = arms::read(table, &top, server.as_ref(), repeat, problems);
    driver::check_tables(&top, fill.as_ref(), arms.as_deref().unwrap_or_default());
    // these are read for each arm, with the arm's keys; they are named here only so that they count as known
    top.node("squeeze");
    top.node("load");
    top.node("assert");
    // a file with this section is read by the crate `matrix`
    top.finish_beside(&["matrix"]);
    let places = places(table, problems);
    let question = question.unwrap_or_default();
    Some(Experiment {
        name: name?,
        description,
        question,
        article,
        repeat,
        server: server?,
        fill: fill?,
        observe,
        arms: arms?,
        required: BTreeSet::new(),
        places,
    })
}

fn schema(top: &Section<'_>) {
    let written = top.node("schema").is_some();
    if !written {
        top.missing("schema", &format!("write schema = {SCHEMA} as the first line"));
    }
    top.integer("schema", SCHEMA..=SCHEMA);
}

/// Whether it can be the name of an experiment, which becomes the name of folders and files.
pub fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !text.is_empty() && text.len() <= 64 && !text.starts_with('.') && text.chars().all(fits)
}

fn name(top: &Section<'_>) -> Option<String> {
    let Some(name) = top.text("name") else {
        if top.node("name").is_none() {
            top.missing("name", "write name = \"what-it-shows\"");
        }
        return None;
    };
    if !is_name(&name.value) {
        let message = format!("name cannot be \"{}\": it becomes the name of folders", name.value);
        let node = top.node("name");
        top.wrong(node, &message, Some("use up to 64 letters, digits, '-', '_' and '.', not a '.' first".into()));
        return None;
    }
    Some(name.value)
}

fn observe(top: &Section<'_>) -> Observe {
    let section = top.section("observe");
    let interval = section.unit::<Span>("interval", "1s");
    if let Some(asked) = interval.as_ref().filter(|asked| !(10_000..=60_000_000).contains(&asked.value.as_us())) {
        let message = format!("observe.interval cannot be {}", asked.value);
        section.wrong(section.node("interval"), &message, Some("it goes from 10ms to 1m".into()));
    }
    let memory = section.unit::<Span>("memory", "10s");
    if let Some(asked) = memory.as_ref().filter(|asked| !(100_000..=3_600_000_000).contains(&asked.value.as_us())) {
        let message = format!("observe.memory cannot be {}", asked.value);
        let help = "it is the time from one inventory of the server's memory to the next, from 100ms to 1h";
        section.wrong(section.node("memory"), &message, Some(help.into()));
    }
    let observe = Observe {
        interval: interval.map_or(Span::secs(1), |asked| asked.value),
        server: section.boolean("server").is_none_or(|asked| asked.value),
        process: section.boolean("process").is_none_or(|asked| asked.value),
        memory: memory.map(|asked| asked.value),
        stalls: stalls(&section),
    };
    section.finish();
    observe
}

fn stalls(observe: &Section<'_>) -> Option<WatchStalls> {
    let time = |key: &'static str, example: &str, (low, high): (u64, u64), words: &str| {
        let asked = observe.unit::<Span>(key, example)?;
        if !(low..=high).contains(&asked.value.as_us()) {
            let message = format!("observe.{key} cannot be {}", asked.value);
            observe.wrong(observe.node(key), &message, Some(words.to_owned()));
        }
        Some(asked.value)
    };
    let words = "it is the time from one look at the server's threads to the next, from 1ms to 1s";
    let interval = time("stalls_interval", "10ms", (1000, 1_000_000), words);
    let words = "it is the shortest stall that is told, from 5ms to 1h: shorter waits are not told apart from work";
    let least = time("stalls_min", "50ms", (5000, 3_600_000_000), words);
    let is_set = |key| observe.boolean(key).map(|asked| asked.value);
    let (deep, probes) = (is_set("stalls_deep").unwrap_or_default(), is_set("stalls_probes").unwrap_or_default());
    // a file that says how to watch wants the watch
    let is_wanted = is_set("stalls").unwrap_or(interval.is_some() || least.is_some() || deep || probes);
    is_wanted.then_some(WatchStalls { interval, least, deep, probes })
}

/// The place of each key. Keys of the n-th arm, from 0, begin with `arm.<n>.`.
fn places(table: &Table, problems: &Problems) -> BTreeMap<String, (usize, usize)> {
    let mut places: BTreeMap<_, _> =
        table.leaves().into_iter().map(|(path, _, at)| (path, problems.place(&at))).collect();
    for (index, arm) in arms::tables(table).into_iter().enumerate() {
        places
            .extend(arm.leaves().into_iter().map(|(path, _, at)| (format!("arm.{index}.{path}"), problems.place(&at))));
    }
    places
}

#[cfg(test)]
mod refusal;
#[cfg(test)]
mod tests;
