// SPDX-License-Identifier: Apache-2.0
//! The assertions on the results: asked and measured, side by side.

use super::escape::Text;
use super::section::Section;
use crate::Context;
use std::io::{self, Write};

pub(super) const SECTION: Section = Section {
    id: "assertions",
    title: "Assertions",
    nav: None,
    has_content: |context| context.arms.iter().any(|view| !view.arm.verdicts.is_empty()),
    write,
    help: "<p>What the experiment says of the measured phase of an arm. What was not measured at all fails. A latency is a <b>response time</b> \
         unless <b>service</b> stands before it, and a percentile is the upper end of its bucket, up to 0.1 % above the value itself.</p>",
};

fn write(context: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<table class=\"cards\"><thead><tr><th scope=\"col\">Asserted</th><th scope=\"col\">Measured</th>\
         <th scope=\"col\" class=\"words\">Verdict</th></tr></thead>\n<tbody>"
    )?;
    for view in &context.arms {
        for verdict in &view.arm.verdicts {
            let (class, word) = if verdict.passed { ("ok", "✓ met") } else { ("bad", "✗ failed") };
            writeln!(
                out,
                "<tr><th scope=\"row\"><span class=\"name\">{}</span><small>{}</small></th><td data-label=\"Measured\"><b>{}</b></td>\
                 <td data-label=\"Verdict\" class=\"words {class}\">{word}</td></tr>",
                Text(&verdict.assertion),
                Text(&view.arm.name),
                Text(verdict.measured_text()),
            )?;
        }
    }
    writeln!(out, "</tbody></table>")
}
