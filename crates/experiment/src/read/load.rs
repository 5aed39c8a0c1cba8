// SPDX-License-Identifier: Apache-2.0
//! `[load]`, as it is in force in one arm.

use super::load_keys::{cpuset, too_long};
use super::{around, beside, driver, moments, replay};
use crate::model::{Flavour, Load, Preheat};
use crate::section::Section;
use crate::tree::Value;
use evidence::Arrivals;
use units::Span;
use workload::distribution::{self, Kind, NUMBERS};
use workload::{Name, Options, SETTINGS, Setting, Slot};

pub(super) fn read(top: &Section<'_>, flavour: Option<Flavour>) -> Option<Load> {
    let section = top.section("load");
    if section.node("replay").is_some() {
        return replay::read(section);
    }
    replay::refuse_without(&section);
    if section.node("driver").is_some() {
        return driver::read(section, flavour);
    }
    driver::refuse_without(&section);
    let workload = workload(&section);
    if section.node("workload").is_none() {
        section.missing(
            "workload",
            "write workload = \"oltp_point_select\" below [load], driver = \"sysbench\" or replay = \"slow.log\"",
        );
    }
    let load = Load {
        threads: section.integer("threads", 1..=100_000u32).map_or(1, |number| number.value),
        arrivals: arrivals(&section),
        events: section.integer("events", 1..=u64::MAX >> 1).map(|number| number.value),
        time: time(&section),
        warmup: warmup(&section),
        preheat: preheat(&section),
        distribution: distribution(&section, "distribution"),
        distribution_written: section.node("distribution").is_some(),
        seed: section.integer("seed", 0..=u64::MAX >> 1).map_or(1, |number| number.value),
        prepared: section.boolean("prepared").is_none_or(|asked| asked.value),
        cpuset: cpuset(&section),
        options: options(&section, workload.as_deref()),
        driver: None,
        replay: None,
        beside: beside::read(&section),
        before: beside::before(&section),
        pause: moments::pause(&section),
        probe: around::probe(&section),
        idle: around::idle(&section),
        stay: section.boolean("stay").is_some_and(|asked| asked.value),
        at: moments::at(&section),
        slow_statements: moments::slow_statements(&section),
        workload: workload.unwrap_or_default(),
    };
    own_values(&section, &load);
    moments::check_at(&section, &load);
    section.finish();
    (!load.workload.is_empty()).then_some(load)
}

/// A workload by name, or a file, which the caller reads: this crate does no I/O.
fn workload(section: &Section<'_>) -> Option<String> {
    match section.node("workload").map(|node| &node.value) {
        Some(Value::Text(text)) if Load::is_file(text) => Some(text.clone()),
        _ => {
            let named = Name::ALL.into_iter().filter(|name| name.in_experiments()).map(Name::as_str);
            section.choice("workload", &named.collect::<Vec<_>>()).map(|word| word.value.to_owned())
        }
    }
}

/// A workload's file has its own distributions of values: `load.distribution` is refused beside it.
fn own_values(section: &Section<'_>, load: &Load) {
    if let (true, Some(node)) = (Load::is_file(&load.workload), section.node("distribution")) {
        let message = format!("load.distribution has no meaning beside {}", load.workload);
        section.wrong(Some(node), &message, Some("write it into that file, at its parameters".into()));
    }
}

/// The length of the load: ten seconds by default, as in sysbench; when only `events` is written, there is no limit of time.
fn time(section: &Section<'_>) -> Option<Span> {
    if section.node("time").is_none() {
        return section.node("events").is_none().then_some(Span::secs(10));
    }
    let asked = section.unit::<Span>("time", "20s")?;
    if asked.value.is_zero() {
        let hint = Some("write how long to measure, such as time = \"20s\", or leave it out and write events".into());
        section.wrong(section.node("time"), "load.time cannot be 0", hint);
    }
    too_long(section, "time", asked.value);
    Some(asked.value)
}

fn warmup(section: &Section<'_>) -> Span {
    let Some(asked) = section.unit::<Span>("warmup", "5s") else { return Span::ZERO };
    too_long(section, "warmup", asked.value);
    asked.value
}

fn arrivals(section: &Section<'_>) -> Arrivals {
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

/// `"20s"`, `"1x rows"`, or a number of transactions.
fn preheat(section: &Section<'_>) -> Option<Preheat> {
    match &section.node("preheat")?.value {
        Value::Integer(_) => {
            section.integer("preheat", 1..=1_000_000_000_000u64).map(|number| Preheat::Transactions(number.value))
        }
        Value::Text(word) if word == "none" => None,
        Value::Text(text) if text.trim().ends_with("rows") => {
            let number = text.trim().trim_end_matches("rows").trim_end().strip_suffix('x').unwrap_or_default();
            let factor = number.trim().parse().ok().filter(|factor| (0.01..=1000.0).contains(factor));
            if factor.is_none() {
                let hint = Some("write preheat = \"1x rows\"; it goes from 0.01x to 1000x".into());
                section.wrong(section.node("preheat"), &format!("load.preheat cannot be \"{text}\""), hint);
            }
            factor.map(Preheat::TimesRows)
        }
        _ => {
            let asked = section.unit::<Span>("preheat", "20s\", \"1x rows\" or \"none")?;
            too_long(section, "preheat", asked.value);
            (!asked.value.is_zero()).then_some(Preheat::Time(asked.value))
        }
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

fn options(section: &Section<'_>, workload: Option<&str>) -> Options {
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
