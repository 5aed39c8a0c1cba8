// SPDX-License-Identifier: Apache-2.0
//! The squeezes: asked for, predicted, and measured.

use super::escape::Text;
use super::section::Section;
use crate::{Context, show};
use evidence::Measured;
use std::io::{self, Write};

pub(super) const SECTION: Section = Section {
    id: "measured",
    title: "Asked, predicted, got",
    nav: Some("Asked and got"),
    has_content: |context| !context.evidence.measured.is_empty(),
    write,
    help: "<p><b>Asked</b> is what the experiment wants, <b>predicted</b> what the mechanism can give on this host where that is something else, \
         <b>got</b> what a witness measured that shares no code with the change. What is out of tolerance is a doubt of the verdict; less than half of what was asked ends \
         the arm.</p>",
};

fn write(context: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<table class=\"cards\"><thead><tr><th scope=\"col\">What</th><th scope=\"col\">Arm</th><th scope=\"col\">Asked</th>\
         <th scope=\"col\">Predicted</th><th scope=\"col\">Got</th><th scope=\"col\" class=\"words\">Tolerance</th>\
         <th scope=\"col\" class=\"words\">Witness</th></tr></thead>\n<tbody>"
    )?;
    context.evidence.measured.iter().try_for_each(|measured| measured_row(measured, out))?;
    writeln!(out, "</tbody></table>")
}

fn measured_row(measured: &Measured, out: &mut dyn Write) -> io::Result<()> {
    let quantity = |quantity| show::or_nothing(quantity, show::quantity);
    let tolerance = measured.tolerance.as_deref().unwrap_or_default();
    let (class, verdict) = match measured.within_tolerance {
        Some(true) => ("ok", format!("✓ {tolerance}")),
        Some(false) => ("bad", format!("✗ out of tolerance: {tolerance}")),
        None => ("", tolerance.to_owned()),
    };
    writeln!(
        out,
        "<tr><th scope=\"row\"><code>{}</code><small>{}</small></th><td data-label=\"Arm\">{}</td><td data-label=\"Asked\">{}</td>\
         <td data-label=\"Predicted\">{}</td><td data-label=\"Got\"><b>{}</b></td><td data-label=\"Tolerance\" class=\"words {class}\">{}</td>\
         <td data-label=\"Witness\" class=\"words\">{}</td></tr>",
        Text(&measured.what),
        Text(&measured.mechanism),
        Text(measured.arm.as_deref().unwrap_or("all")),
        quantity(measured.asked),
        quantity(measured.predicted),
        quantity(measured.got),
        Text(verdict),
        Text(&measured.witness),
    )
}
