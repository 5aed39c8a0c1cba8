// SPDX-License-Identifier: Apache-2.0
//! Findings, each with its evidence and its doubts.

use super::escape::Text;
use super::section::Section;
use crate::text::facts;
use crate::{Context, show, verdict};
use explain::{Doubt, Finding};
use std::io::{self, Write};

pub(super) const SECTION: Section =
    Section { id: "findings", title: "Findings", nav: Some("Findings"), has_content: |_| true, write, help: "" };

fn write(context: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    if context.findings.is_empty() {
        writeln!(out, "<p class=\"lead\">Nothing was found that could be said with evidence.</p>")?;
    }
    verdict::ranked(context).into_iter().try_for_each(|one| finding(one, out))
}

fn finding(finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    let arm = finding.arm.as_ref().map_or_else(String::new, |arm| format!(" · {}", Text(arm)));
    writeln!(
        out,
        "<article class=\"finding\"><p class=\"id\"><code>{}</code>{arm}</p><p class=\"statement\">{}</p>",
        Text(finding.id()),
        Text(show::tied(&finding.statement))
    )?;
    finding.doubts.iter().try_for_each(|one| doubt(one, out))?;
    // no empty facts, and no sentence twice
    let mut facts = facts(&finding.evidence);
    facts.retain(|(key, value)| value != show::NOTHING && !key.ends_with(".statement") && key != "statement");
    if !facts.is_empty() {
        writeln!(out, "<details><summary>Evidence</summary><dl class=\"facts\">")?;
        for (key, value) in facts {
            writeln!(out, "<div><dt>{}</dt><dd>{}</dd></div>", Text(key), Text(value))?;
        }
        writeln!(out, "</dl></details>")?;
    }
    writeln!(out, "</article>")
}

fn doubt(doubt: &Doubt, out: &mut dyn Write) -> io::Result<()> {
    let hint =
        doubt.hint.as_ref().map_or_else(String::new, |hint| format!("<span class=\"hint\">→ {}</span>", Text(hint)));
    writeln!(out, "<p class=\"doubt\"><b>Doubt</b> {} <code>{}</code>{hint}</p>", Text(&doubt.text), Text(&doubt.id))
}
