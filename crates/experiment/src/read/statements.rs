// SPDX-License-Identifier: Apache-2.0
//! What says which statements a load sends, and when: the workload, its options, the distribution of its keys, and the arrivals. The arm's load and
//! the loads beside it have the same keys.

use crate::model::Load;
use crate::section::Section;
use crate::tree::Value;
use evidence::Arrivals;
use workload::distribution::{self, Kind, NUMBERS};
use workload::{Name, Options, SETTINGS, Setting, Slot};

/// A workload by name, or a file, which the caller reads: this crate does no I/O.
pub(super) fn workload(section: &Section<'_>) -> Option<String> {
    match section.node("workload").map(|node| &node.value) {
        Some(Value::Text(text)) if Load::is_file(text) => Some(text.clone()),
        _ => {
            let named = Name::ALL.into_iter().filter(|name| name.in_experiments()).map(Name::as_str);
            section.choice("workload", &named.collect::<Vec<_>>()).map(|word| word.value.to_owned())
        }
    }
}

/// A workload's file has its own distributions of values: `load.distribution` is refused beside it.
pub(super) fn own_values(section: &Section<'_>, load: &Load) {
    if let (true, Some(node)) = (Load::is_file(&load.workload), section.node("distribution")) {
        let message = format!("load.distribution has no meaning beside {}", load.workload);
        section.wrong(Some(node), &message, Some("write it into that file, at its parameters".into()));
    }
}

pub(super) fn arrivals(section: &Section<'_>) -> Arrivals {
    let rate = section.number("rate", 0.001..=10_000_000.0);
    let kind = section.choice("arrivals", &["closed", "constant", "poisson"]);
    let rated = section.node("rate");
    match (&rate, kind.as_ref().map(|word| word.value)) {
        (Some(rate), Some("constant")) => Arrivals::Constant { per_second: rate.value },
        (Some(rate), Some("poisson")) => Arrivals::Poisson { per_second: rate.value },
        (Some(_), Some(_)) => {
            let hint = Some("leave rate out, or write arrivals = \"constant\" or \"poisson\"".into());
            section.wrong(rated, "a closed loop has no rate", hint);
            Arrivals::Closed
        }
        (Some(_), None) if section.node("arrivals").is_none() => {
            let hint = Some("write arrivals = \"constant\" or arrivals = \"poisson\" beside it".into());
            section.wrong(rated, "load.rate says how many, and nothing says how they arrive", hint);
            Arrivals::Closed
        }
        (None, Some(word)) if word != "closed" && rated.is_none() => {
            let hint = Some("write rate = 1000, the transactions a second over all threads".into());
            section.wrong(section.node("arrivals"), &format!("arrivals = \"{word}\" needs a rate"), hint);
            Arrivals::Closed
        }
        _ => Arrivals::Closed,
    }
}

/// `key` names the kind of distribution; its numbers are keys of the same section.
pub(super) fn distribution(section: &Section<'_>, key: &'static str) -> distribution::Options {
    let kind = section.choice(key, &Kind::ALL.map(Kind::name)).and_then(|word| word.value.parse().ok());
    let kind: Kind = kind.unwrap_or_default();
    let mut options = distribution::Options { kind, ..distribution::Options::default() };
    for number in &NUMBERS {
        number.read(section, number.name, &mut options);
        if let Some(node) = section.node(number.name).filter(|_| !number.of.contains(&kind)) {
            let hint = number.of.first().map(|owner| format!("leave it out, or write {key} = \"{owner}\""));
            let message = format!("{} has no meaning with {key} \"{kind}\"", section.named(number.name));
            section.wrong(Some(node), &message, hint);
        }
    }
    options
}

pub(super) fn options(section: &Section<'_>, workload: Option<&str>) -> Options {
    let mut options = Options::default();
    for setting in SETTINGS.iter().filter(|setting| setting.in_experiments) {
        fits(section, setting, workload);
        match setting.slot(&mut options) {
            Slot::Flag(flag) => *flag = section.boolean(setting.name).map_or(*flag, |asked| asked.value),
            Slot::Count { value, limits } => {
                *value = section.integer(setting.name, limits).map_or(*value, |asked| asked.value);
            }
        }
    }
    options
}

/// Refuses an option that the workload does not have, because it would have no effect.
fn fits(section: &Section<'_>, setting: &Setting, workload: Option<&str>) {
    let (Some(node), Some(workload)) = (section.node(setting.name), workload) else { return };
    let of: Vec<&str> = setting.of.iter().map(|name| name.as_str()).collect();
    if !of.contains(&workload) {
        let hint = Some(format!("it belongs to {}", of.join(", ")));
        section.wrong(Some(node), &format!("{workload} has no option {}", setting.name), hint);
    }
}
