// SPDX-License-Identifier: Apache-2.0
//! The conditions under which the result is true.

use super::escape::Text;
use super::section::Section;
use crate::{Context, series, show};
use std::collections::BTreeMap;
use std::io::{self, Write};

pub(super) const SECTION: Section =
    Section { id: "conditions", title: "Conditions", nav: Some("Conditions"), has_content: |_| true, write, help: "" };

fn write(context: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    let conditions = &context.conditions;
    if !conditions.caveats.is_empty() {
        writeln!(out, "<ul class=\"caveats\" aria-label=\"Caveats\">")?;
        for caveat in &conditions.caveats {
            writeln!(out, "<li>{}</li>", Text(caveat))?;
        }
        writeln!(out, "</ul>")?;
    }
    writeln!(out, "<div class=\"columns\">")?;
    list(out, "Host", host(context))?;
    list(out, "Server", server(context))?;
    list(out, "Load", loads(context))?;
    list(out, "How busy the host was", busy(context))?;
    list(out, "Squeeze, and what observing cost", squeeze(context))?;
    writeln!(out, "</div>")?;
    let command = conditions.tool.command.join(" ");
    writeln!(out, "<h3>Command</h3><pre>{}</pre>", Text(command))?;
    if !context.experiment.is_empty() {
        writeln!(out, "<details><summary>Experiment file</summary><pre>{}</pre></details>", Text(&context.experiment))?;
    }
    variables(&conditions.server.variables, out)
}

fn host(context: &Context<'_>) -> Vec<(String, String)> {
    let host = &context.conditions.host;
    let size = |bytes: u64| show::bytes(bytes as f64);
    pairs([
        ("kernel", host.kernel.clone()),
        ("distribution", host.distribution.clone()),
        ("CPU", format!("{} × {}", host.cpus, host.cpu_model)),
        ("memory", size(host.mem_total_bytes)),
        ("swap", size(host.swap_total_bytes)),
        ("page, huge page", format!("{}, {}", size(host.page_size_bytes), size(host.huge_page_size_bytes))),
        ("timer", if host.hz == 0 { String::new() } else { format!("{} Hz", host.hz) }),
        ("clock", host.clock_source.clone()),
        ("virtualisation", host.virtualisation.clone()),
        ("cgroup", host.cgroup.clone()),
        ("storage", host.storage.clone()),
    ])
}

fn busy(context: &Context<'_>) -> Vec<(String, String)> {
    let seen = context.arms.iter().filter_map(|view| Some((view.arm.name.clone(), show::busy(&view.summary.busy?))));
    seen.collect()
}

fn server(context: &Context<'_>) -> Vec<(String, String)> {
    let server = &context.conditions.server;
    pairs([
        ("server", server.flavour.clone()),
        ("version", server.version.clone()),
        ("binary", server.binary.clone()),
        ("source", server.source.clone()),
        ("build", server.build.clone()),
        ("data", context.conditions.data.as_ref().and_then(show::data).unwrap_or_default()),
    ])
}

/// The load of the first arm that has one, and the cost of the driver itself in each arm.
fn loads(context: &Context<'_>) -> Vec<(String, String)> {
    let loaded: Vec<_> = context.arms.iter().filter(|view| view.arm.load.is_some()).collect();
    let loads: Vec<_> = loaded.iter().filter_map(|view| Some((&view.arm.name, view.arm.load.as_ref()?))).collect();
    let Some((_, first)) = loads.first() else { return Vec::new() };
    // figures that another program does not tell
    let is_driven = loaded.first().is_some_and(|view| view.arm.driven.is_some());
    let own = |text: String| if is_driven { String::new() } else { text };
    let arrivals = match first.arrivals {
        evidence::Arrivals::Closed => "closed loop".to_owned(),
        evidence::Arrivals::Constant { per_second } => format!("open loop, {} /s, even", show::number(per_second)),
        evidence::Arrivals::Poisson { per_second } => format!("open loop, {} /s, Poisson", show::number(per_second)),
        evidence::Arrivals::Recorded { times: 1.0 } => "at the moments of the log".to_owned(),
        evidence::Arrivals::Recorded { times } => {
            format!("at the moments of the log, {} times as fast", show::number(times))
        }
    };
    let mut pairs = pairs([
        ("workload", first.workload.clone()),
        (if is_driven { "driver" } else { "protocol" }, first.driver.clone()),
        ("connections", format!("{} on {} driver threads", first.connections, first.workers)),
        ("arrivals", arrivals),
        ("distribution", first.distribution.clone()),
        ("prepared statements", own(if first.prepared_statements { "yes" } else { "no" }.to_owned())),
        ("seed", own(first.seed.to_string())),
    ]);
    for (arm, load) in &loads {
        let phase = &load.measured;
        if phase.queries() > 0 {
            let cost = (phase.client_user_us + phase.client_system_us) as f64 / phase.queries() as f64;
            pairs.push((format!("driver's CPU, {arm}"), format!("{} a query", show::micros(cost))));
        }
        if phase.late + phase.skipped > 0 {
            let overload = format!(
                "{} late, {} skipped, backlog up to {}",
                show::count(phase.late),
                show::count(phase.skipped),
                show::count(phase.backlog_max)
            );
            pairs.push((format!("overload, {arm}"), overload));
        }
        if phase.unended_count() > 0 {
            let words = format!(
                "{} transactions; each counts with the time for which it had waited",
                show::count(phase.unended_count())
            );
            pairs.push((format!("not ended, {arm}"), words));
        }
    }
    pairs
}

fn squeeze(context: &Context<'_>) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> =
        context.conditions.mechanisms.iter().map(|(squeeze, mechanism)| (squeeze.clone(), mechanism.clone())).collect();
    if let Some(cpu_us) = series::observer_cpu_us(context.evidence) {
        let elapsed_us = context.evidence.elapsed_us.max(1) as f64;
        pairs.push((
            "observer's CPU".to_owned(),
            format!("{}, {} of one CPU", show::micros(cpu_us), show::percent(cpu_us / elapsed_us)),
        ));
    }
    let root = if context.conditions.tool.as_root { "root" } else { "an ordinary user" };
    pairs.push(("run as".to_owned(), root.to_owned()));
    pairs
}

fn pairs<const N: usize>(pairs: [(&str, String); N]) -> Vec<(String, String)> {
    pairs
        .into_iter()
        .filter(|(_, value)| !value.trim().is_empty())
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

fn list(out: &mut dyn Write, title: &str, pairs: Vec<(String, String)>) -> io::Result<()> {
    if pairs.is_empty() {
        return Ok(());
    }
    writeln!(out, "<div><h3>{title}</h3><dl>")?;
    for (key, value) in pairs {
        writeln!(out, "<div><dt>{}</dt><dd>{}</dd></div>", Text(key), Text(value))?;
    }
    writeln!(out, "</dl></div>")
}

fn variables(variables: &BTreeMap<String, String>, out: &mut dyn Write) -> io::Result<()> {
    if variables.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<details><summary>Server variables ({})</summary>\
         <label class=\"filter\">Filter <input type=\"search\" data-filter=\"variables\" autocomplete=\"off\" spellcheck=\"false\"></label>\
         <dl class=\"facts\" id=\"variables\">",
        variables.len()
    )?;
    for (name, value) in variables {
        writeln!(out, "<div><dt>{}</dt><dd>{}</dd></div>", Text(name), Text(value))?;
    }
    writeln!(out, "</dl></details>")
}
