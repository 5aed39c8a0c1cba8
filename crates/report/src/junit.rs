// SPDX-License-Identifier: Apache-2.0
//! JUnit XML, for programs that show test results: an arm is a class, each assertion on it a test case.

use crate::{ArmView, Context, verdict};
use evidence::Verdict;
use std::fmt::Write as _;

/// One `testsuite`. An arm without assertions has one case, `measured`, so that an experiment that asserts nothing is no empty file; an arm that
/// has no figures is an error, and so is a run that ended early.
pub fn junit(context: &Context<'_>) -> String {
    let mut cases: Vec<Case> = context.arms.iter().flat_map(|view| of_arm(context, view)).collect();
    if let Some(why) = verdict::ended_early(context) {
        cases.push(Case {
            class: context.name.clone(),
            name: "the run".into(),
            seconds: 0.0,
            came_to: CameTo::Broke(why),
        });
    }
    let count = |is: fn(&CameTo) -> bool| cases.iter().filter(|case| is(&case.came_to)).count();
    let failures = count(|came_to| matches!(came_to, CameTo::Failed(_)));
    let errors = count(|came_to| matches!(came_to, CameTo::Broke(_)));
    let seconds = context.evidence.elapsed_us as f64 / 1e6;
    let totals = format!("tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" time=\"{seconds:.3}\"", cases.len());
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let name = escaped(&context.name);
    let started = escaped(context.evidence.started.trim_end_matches('Z'));
    let _ = writeln!(xml, "<testsuites name=\"wringer\" {totals}>");
    let _ = writeln!(xml, "  <testsuite name=\"{name}\" {totals} timestamp=\"{started}\">");
    xml.push_str(&properties(context));
    cases.iter().for_each(|case| case.write(&mut xml));
    let sentences = verdict::sentences(context).into_iter().chain(verdict::warnings(context));
    let said: Vec<String> = sentences.collect();
    let _ = writeln!(xml, "    <system-out>{}</system-out>", escaped(&said.join("\n")));
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

struct Case {
    class: String,
    name: String,
    seconds: f64,
    came_to: CameTo,
}

enum CameTo {
    Passed,
    Failed(String),
    Broke(String),
}

fn of_arm(context: &Context<'_>, view: &ArmView<'_>) -> Vec<Case> {
    let class = format!("{}.{}", context.name, view.arm.name);
    let seconds = view.measured().map_or(0.0, |phase| phase.elapsed_us as f64 / 1e6);
    let case = |name: &str, came_to| Case { class: class.clone(), name: name.to_owned(), seconds, came_to };
    if view.measured().is_none() && !view.arm.is_observed() {
        return vec![case(
            "measured",
            CameTo::Broke("the arm has no figures: it did not get to the end of its load".into()),
        )];
    }
    let mut cases: Vec<Case> =
        view.arm.verdicts.iter().map(|verdict| case(&verdict.assertion, came_to(verdict))).collect();
    // what it had measured until then may keep each assertion
    match &view.arm.broke_off {
        Some(why) => cases.push(case("measured", CameTo::Broke(crate::redact::text(why)))),
        None if cases.is_empty() => cases.push(case("measured", CameTo::Passed)),
        None => {}
    }
    cases
}

fn came_to(verdict: &Verdict) -> CameTo {
    if verdict.passed { CameTo::Passed } else { CameTo::Failed(format!("measured {}", verdict.measured_text())) }
}

fn properties(context: &Context<'_>) -> String {
    let (host, server) = (&context.conditions.host, &context.conditions.server);
    let all = [
        ("run", context.evidence.run_id.clone()),
        ("wringer", context.conditions.tool.version.clone()),
        ("server", format!("{} {}", server.flavour, server.version)),
        ("kernel", host.kernel.clone()),
        ("cpus", host.cpus.to_string()),
    ];
    let mut xml = String::from("    <properties>\n");
    for (name, value) in all {
        let _ = writeln!(xml, "      <property name=\"{name}\" value=\"{}\"/>", escaped(&value));
    }
    xml + "    </properties>\n"
}

impl Case {
    fn write(&self, xml: &mut String) {
        let (class, name, seconds) = (escaped(&self.class), escaped(&self.name), self.seconds);
        let _ = write!(xml, "    <testcase classname=\"{class}\" name=\"{name}\" time=\"{seconds:.3}\"");
        let _ = match &self.came_to {
            CameTo::Passed => writeln!(xml, "/>"),
            CameTo::Failed(why) => writeln!(xml, "><failure message=\"{}\"/></testcase>", escaped(why)),
            CameTo::Broke(why) => writeln!(xml, "><error message=\"{}\"/></testcase>", escaped(why)),
        };
    }
}

/// Text for an attribute or an element. A character that XML 1.0 cannot hold becomes a replacement character.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\n' | '\r' | '\t' => drop(write!(safe, "&#{};", u32::from(c))),
            c if c < ' ' || matches!(c, '\u{fffe}' | '\u{ffff}') => safe.push(char::REPLACEMENT_CHARACTER),
            c => safe.push(c),
        }
    }
    safe
}
