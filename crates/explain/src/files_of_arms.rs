// SPDX-License-Identifier: Apache-2.0
//! Which arms of a run use a file that its experiment names.

use evidence::Evidence;
use std::collections::BTreeSet;
use toml::{Table, Value};

/// The keys of a load that an arm can have in place of the workload of all arms.
const OWN_LOAD: [&str; 3] = ["workload", "driver", "replay"];

/// The files that only arms outside of `compared` use, as far as the experiment's file tells it. One that it does not name may be anybody's.
pub(crate) fn of_others<'e>(run: &'e Evidence, compared: &BTreeSet<&str>) -> Vec<&'e String> {
    if run.files.is_empty() {
        return Vec::new();
    }
    let Ok(file) = run.experiment.parse::<Table>() else { return Vec::new() };
    let (own, others) = words(file, compared);
    let has = |words: &[String], name: &str| words.iter().any(|word| word.contains(name));
    run.files.keys().filter(|name| !has(&own, name) && has(&others, name)).collect()
}

/// The texts of the file that hold for the compared arms, and those that hold for other arms alone.
fn words(mut file: Table, compared: &BTreeSet<&str>) -> (Vec<String>, Vec<String>) {
    let arms = match file.remove("arm") {
        Some(Value::Array(arms)) => arms,
        _ => Vec::new(),
    };
    let is_compared = |arm: &Value| arm.get("name").and_then(Value::as_str).is_some_and(|name| compared.contains(name));
    let (own, others): (Vec<Value>, Vec<Value>) = arms.into_iter().partition(is_compared);
    let (mut of_own, mut of_others) = (Vec::new(), Vec::new());
    others.iter().for_each(|arm| texts(arm, &mut of_others));
    if !own.is_empty() && own.iter().all(has_own_load) {
        let load = file.get_mut("load").and_then(Value::as_table_mut);
        load.and_then(|load| load.remove("workload")).iter().for_each(|it| texts(it, &mut of_others));
    }
    own.iter().chain(file.values()).for_each(|value| texts(value, &mut of_own));
    (of_own, of_others)
}

fn has_own_load(arm: &Value) -> bool {
    arm.get("load").is_some_and(|load| OWN_LOAD.iter().any(|key| load.get(key).is_some()))
}

fn texts(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| texts(value, into)),
        Value::Table(table) => table.values().for_each(|value| texts(value, into)),
        _ => {}
    }
}
