// SPDX-License-Identifier: Apache-2.0
//! `[load]`, as it is in force in one arm.

use super::load_keys::{cpuset, too_long};
use super::statements::{arrivals, distribution, options, own_values, workload};
use super::{around, beside, driver, loads_beside, moments, replay};
use crate::model::{Flavour, Load, Preheat};
use crate::section::Section;
use crate::tree::Value;
use units::Span;

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
        loads_beside: loads_beside::read(&section),
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
