// SPDX-License-Identifier: Apache-2.0
//! For the terminal: the verdict first, then its figures. Sentences and histograms are no wider than the context says; tables are as wide as their
//! cells.

mod histogram;
mod table;
mod wrapped;

use crate::width::WIDTH;
use crate::{ArmView, Context, memory as ledger, show, verdict};
use explain::{Doubt, Finding, FindingEvidence, Reads};
use serde_json::{Value, json};
use table::{Align, Table};
use wrapped::Part;

/// The summary of a run.
pub fn text(context: &Context<'_>) -> String {
    let mut parts = vec![title(context), verdict_part(context), arms(context), drivers(context), assertions(context)];
    parts.extend(context.arms.iter().map(|view| histogram::of(view, context.width)));
    parts.push(memory(context));
    parts.push(measured(context));
    parts.push(doubts(context));
    parts.push(conditions(context));
    joined(parts)
}

/// Every finding with its evidence, its doubts, and what to do about them.
pub fn findings_text(context: &Context<'_>) -> String {
    if context.findings.is_empty() {
        return "No findings.\n".to_owned();
    }
    joined(verdict::ranked(context).into_iter().map(|it| finding(it, context.width)).collect())
}

/// The findings of several runs together, then the findings of each run. `contexts` is in the order in which the findings count the runs.
pub fn together_text(contexts: &[Context<'_>], together: &[Finding]) -> String {
    let titled = |(number, context): (usize, &Context<'_>)| {
        format!("run {number}: {} · {}", context.evidence.run_id, title(context))
    };
    let titles: Vec<String> = (1..).zip(contexts).map(titled).collect();
    let mut parts = vec![titles.join("\n")];
    let width = contexts.first().map_or(WIDTH, |context| context.width);
    parts.extend(together.iter().map(|it| finding(it, width)));
    for (title, context) in titles.into_iter().zip(contexts) {
        parts.push(format!("{title}\n{}", "=".repeat(title.chars().count().min(width))));
        parts.push(findings_text(context));
    }
    joined(parts)
}

fn joined(parts: Vec<String>) -> String {
    let parts: Vec<_> = parts.iter().map(|part| part.trim_end()).filter(|part| !part.is_empty()).collect();
    // a name from somebody else's recording could speak to the terminal
    let speaks = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    parts.join("\n\n").replace(speaks, "\u{fffd}") + "\n"
}

fn title(context: &Context<'_>) -> String {
    let server = &context.conditions.server;
    let server = format!("{} {}", server.flavour, server.version);
    let elapsed = show::micros(context.evidence.elapsed_us as f64);
    let parts = [context.name.clone(), server.trim().to_owned(), show::date(&context.evidence.started), elapsed];
    parts.iter().filter(|part| !part.is_empty()).map(String::as_str).collect::<Vec<_>>().join(" · ")
}

fn verdict_part(context: &Context<'_>) -> String {
    let mut part = Part::of(context.width);
    for sentence in verdict::sentences(context) {
        part.wrap("» ", &sentence);
    }
    for warning in verdict::warnings(context) {
        part.wrap("! ", &warning);
    }
    part.into_text()
}

fn arms(context: &Context<'_>) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("arm", Left),
        ("queries/s", Right),
        ("p50", Right),
        ("p95", Right),
        ("p99", Right),
        ("max", Right),
        ("reads/query: modes", Right),
        ("server", Right),
        ("layer", Right),
        ("off by", Right),
    ]);
    context.arms.iter().for_each(|view| table.row(arm_row(view)));
    table.text()
}

/// Names the programs whose figures stand in the table where the figures are not Wringer's own.
fn drivers(context: &Context<'_>) -> String {
    let mut part = Part::of(context.width);
    for view in &context.arms {
        let Some(driven) = &view.arm.driven else { continue };
        part.wrap(&format!("{}: ", view.arm.name), &show::driven(driven));
    }
    part.into_text()
}

fn assertions(context: &Context<'_>) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(&[("asserted", Left), ("arm", Left), ("measured", Right), ("", Left)]);
    for view in &context.arms {
        for verdict in &view.arm.verdicts {
            let word = if verdict.passed { "met" } else { "FAILED" };
            let (assertion, measured) = (verdict.assertion.clone(), verdict.measured_text());
            table.row(vec![assertion, view.arm.name.clone(), measured, word.to_owned()]);
        }
    }
    table.text()
}

fn arm_row(view: &ArmView<'_>) -> Vec<String> {
    let ratio = |value: Option<f64>| show::or_nothing(value, |value| format!("{value:.3}"));
    let mut row = vec![view.arm.name.clone()];
    match view.measured() {
        Some(phase) => {
            row.push(show::or_nothing(phase.queries_per_second(), show::number));
            row.extend([50.0, 95.0, 99.0].map(|percentile| show::percentile(view.response().as_ref(), percentile)));
            row.push(show::longest(view.response().as_ref()));
        }
        None if view.arm.is_observed() => row.extend(["no load of ours", "", "", "", ""].map(str::to_owned)),
        None => row.extend(["no result", "", "", "", ""].map(str::to_owned)),
    }
    let reads = view.summary.reads.as_ref();
    let asked: [fn(&Reads) -> Option<f64>; 3] =
        [|reads| reads.by_modes, |reads| reads.by_server, |reads| reads.by_layer];
    row.extend(asked.map(|of| ratio(reads.and_then(of))));
    row.push(show::or_nothing(reads.and_then(Reads::discrepancy), show::difference));
    row
}

/// The parts of the server's memory, at first and at last.
fn memory(context: &Context<'_>) -> String {
    use Align::{Left, Right};
    let heads = [("memory", Left), ("arm", Left), ("first", Right), ("last", Right), ("rate", Right), ("", Left)];
    let mut table = Table::new(&heads);
    for row in ledger::rows(context) {
        table.row(vec![row.part, row.arm, row.first, row.last, row.rate, row.course.to_owned()]);
    }
    table.text()
}

fn measured(context: &Context<'_>) -> String {
    use Align::{Left, Right};
    if context.evidence.measured.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("measured", Left),
        ("arm", Left),
        ("asked", Right),
        ("predicted", Right),
        ("got", Right),
        ("", Left),
    ]);
    for measured in &context.evidence.measured {
        let quantity = |quantity| show::or_nothing(quantity, show::quantity);
        let verdict = match measured.within_tolerance {
            Some(true) => "ok",
            Some(false) => "OUT OF TOLERANCE",
            None => "",
        };
        table.row(vec![
            measured.what.clone(),
            measured.arm.clone().unwrap_or_default(),
            quantity(measured.asked),
            quantity(measured.predicted),
            quantity(measured.got),
            verdict.to_owned(),
        ]);
    }
    table.text()
}

/// Doubts of one kind stand together, with their hint once: most of them are the same doubt about several arms.
fn doubts(context: &Context<'_>) -> String {
    let mut groups: Vec<Vec<&Doubt>> = Vec::new();
    for doubt in verdict::doubts(context) {
        let is_alike = |group: &&mut Vec<&Doubt>| group[0].id == doubt.id && group[0].hint == doubt.hint;
        match groups.iter_mut().find(is_alike) {
            Some(group) if group.contains(&doubt) => {}
            Some(group) => group.push(doubt),
            None => groups.push(vec![doubt]),
        }
    }
    let mut part = Part::of(context.width);
    for group in groups {
        group.iter().for_each(|doubt| part.wrap("doubt: ", &doubt.text));
        if let Some(hint) = &group[0].hint {
            part.wrap("     → ", hint);
        }
    }
    part.into_text()
}

fn conditions(context: &Context<'_>) -> String {
    let host = &context.conditions.host;
    let memory = show::bytes(host.mem_total_bytes as f64);
    let mut part = Part::of(context.width);
    let line = format!("{} CPUs, {memory}, Linux {}, {}", host.cpus, host.kernel, host.distribution);
    if host.cpus > 0 {
        part.wrap("host: ", line.trim_end_matches([',', ' '])); // otherwise the run ended before it had read the host
    }
    if let Some(busy) = show::busiest(context) {
        part.wrap("busy: ", &busy);
    }
    if let Some(data) = context.conditions.data.as_ref().and_then(show::data) {
        part.wrap("data: ", &data);
    }
    for (squeeze, mechanism) in &context.conditions.mechanisms {
        part.wrap(&format!("{squeeze}: "), mechanism);
    }
    for caveat in &context.conditions.caveats {
        part.wrap("caveat: ", caveat);
    }
    part.into_text()
}

fn finding(finding: &Finding, width: usize) -> String {
    let arm = finding.arm.as_ref().map_or_else(String::new, |arm| format!(" · {arm}"));
    let mut part = Part::of(width);
    part.line(&format!("{}{arm}", finding.id()));
    part.wrap("  ", &finding.statement);
    for (key, value) in facts(&finding.evidence) {
        part.wrap(&format!("    {key}: "), &value);
    }
    for doubt in &finding.doubts {
        part.wrap("  doubt: ", &format!("{} ({})", doubt.text, doubt.id));
        if let Some(hint) = &doubt.hint {
            part.wrap("       → ", hint);
        }
    }
    part.into_text()
}

/// Evidence as key and value, flat: `modes.0.share`.
pub(crate) fn facts(evidence: &FindingEvidence) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    collect_facts("", &json!(evidence)["evidence"], &mut facts);
    facts
}

fn collect_facts(prefix: &str, value: &Value, facts: &mut Vec<(String, String)>) {
    let key = |name: &str| if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| collect_facts(&key(name), value, facts)),
        Value::Array(list) if list.iter().any(|value| value.is_object() || value.is_array()) => {
            list.iter().enumerate().for_each(|(index, value)| collect_facts(&key(&index.to_string()), value, facts));
        }
        Value::Array(list) => facts.push((prefix.to_owned(), list.iter().map(plain).collect::<Vec<_>>().join(", "))),
        other => facts.push((prefix.to_owned(), plain(other))),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => show::NOTHING.to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(value) if number.is_f64() => {
                format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_owned()
            }
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}
