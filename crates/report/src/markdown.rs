// SPDX-License-Identifier: Apache-2.0
//! A summary in Markdown, for a merge request or the page of a CI job.

use crate::{ArmView, Context, memory as ledger, show, verdict};
use std::fmt::Write as _;

/// The verdict, the arms, the assertions, and the doubts about them.
pub fn markdown(context: &Context<'_>) -> String {
    let mut page = format!("## {}\n\n", safe(&context.name));
    if !context.description.is_empty() {
        let _ = writeln!(page, "{}\n", safe(&context.description));
    }
    for sentence in verdict::sentences(context) {
        let _ = writeln!(page, "- {}", safe(&sentence));
    }
    for warning in verdict::warnings(context) {
        let _ = writeln!(page, "- ⚠ {}", safe(&warning));
    }
    page.push_str(&arms(context));
    page.push_str(&assertions(context));
    page.push_str(&memory(context));
    page.push_str(&doubts(context));
    let (host, server) = (&context.conditions.host, &context.conditions.server);
    let conditions = [
        format!("{} {}", server.flavour, server.version),
        format!("{} CPUs, {}, Linux {}", host.cpus, show::bytes(host.mem_total_bytes as f64), host.kernel),
        show::date(&context.evidence.started),
        format!("run {}", context.evidence.run_id),
    ];
    let _ = writeln!(page, "\n<sub>{}</sub>", safe(&conditions.join(" · ")));
    page
}

fn arms(context: &Context<'_>) -> String {
    if context.arms.is_empty() {
        return String::new();
    }
    let mut table = String::from(
        "\n| arm | transactions/s | p50 | p95 | p99 | errors |\n| --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for view in &context.arms {
        let cells = figures(view);
        let _ = writeln!(table, "| {} | {} |", safe(&view.arm.name), cells.join(" | "));
    }
    table
}

fn figures(view: &ArmView<'_>) -> [String; 5] {
    let Some(phase) = view.measured() else { return std::array::from_fn(|_| show::NOTHING.to_owned()) };
    let at = |percentile: f64| show::percentile(view.response().as_ref(), percentile);
    let rate = show::or_nothing(phase.transactions_per_second(), show::number);
    [rate, at(50.0), at(95.0), at(99.0), show::count(phase.errors.values().sum())]
}

fn assertions(context: &Context<'_>) -> String {
    let mut table = String::new();
    for view in &context.arms {
        for verdict in &view.arm.verdicts {
            let mark = if verdict.passed { "✓" } else { "✗ **failed**" };
            let (asserted, measured) = (safe(&verdict.assertion), verdict.measured_text());
            let _ = writeln!(table, "| {asserted} | {} | {measured} | {mark} |", safe(&view.arm.name));
        }
    }
    match table.is_empty() {
        true => table,
        false => format!("\n| asserted | arm | measured | |\n| --- | --- | ---: | --- |\n{table}"),
    }
}

fn memory(context: &Context<'_>) -> String {
    let rows = ledger::rows(context);
    if rows.is_empty() {
        return String::new();
    }
    let mut table = String::from(
        "\n| memory | arm | first | last | rate | how it went |\n| --- | --- | ---: | ---: | ---: | --- |\n",
    );
    for row in rows {
        let (part, arm) = (safe(&row.part), safe(&row.arm));
        let _ = writeln!(table, "| {part} | {arm} | {} | {} | {} | {} |", row.first, row.last, row.rate, row.course);
    }
    table
}

fn doubts(context: &Context<'_>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for doubt in verdict::told(context).iter().flat_map(|finding| &finding.doubts) {
        let line = format!("- {}", safe(&doubt.text));
        if !doubt.text.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    let count = units::counted(lines.len() as u64, "doubt");
    format!("\n<details><summary>{count}</summary>\n\n{}\n\n</details>\n", lines.join("\n"))
}

/// Makes plain words of names that users chose: characters that mean more in Markdown or HTML are escaped.
pub(crate) fn safe(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '\n' | '\r' => safe.push(' '),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' => safe.extend(['\\', c]),
            // a name from somebody else's recording could speak to a terminal
            c if c.is_control() => safe.push(char::REPLACEMENT_CHARACTER),
            c => safe.push(c),
        }
    }
    safe
}
