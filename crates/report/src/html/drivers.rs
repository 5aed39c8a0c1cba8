// SPDX-License-Identifier: Apache-2.0
//! Other programs that were the load of an arm: how they ended, their own figures, and their output.

use super::escape::Text;
use super::section::Section;
use crate::{Context, redact, show};
use std::io::{self, Write};

/// The whole output is in the recording; a phone must be able to open the page.
const SHOWN_CHARS: usize = 40_000;

pub(super) const SECTION: Section = Section {
    id: "drivers",
    title: "Programs that were the load",
    nav: None,
    has_content: |context| context.arms.iter().any(|view| view.arm.driven.is_some()),
    write,
    help: "",
};

fn write(context: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    let driven: Vec<_> = context.arms.iter().filter_map(|view| Some((view, view.arm.driven.as_ref()?))).collect();
    writeln!(
        out,
        "<p class=\"lead\">Figures of these arms' loads are the programs' own, as they printed them; what the server and the slow layer \
         counted is not.</p>"
    )?;
    for (view, driven) in driven {
        writeln!(out, "<h3>{}</h3><p>{}</p>", Text(&view.arm.name), Text(show::driven(driven)))?;
        writeln!(out, "<pre>{}</pre>", Text(redact::command(&driven.command).join(" ")))?;
        if !driven.figures.is_empty() {
            writeln!(out, "<dl class=\"facts\">")?;
            for (name, value) in &driven.figures {
                writeln!(out, "<div><dt>{}</dt><dd>{}</dd></div>", Text(name), Text(show::number(*value)))?;
            }
            writeln!(out, "</dl>")?;
        }
        for output in driven.outputs.iter().filter(|output| !output.text.is_empty()) {
            let text = redact::lines(&output.text);
            let shown: String = text.chars().take(SHOWN_CHARS).collect();
            let rest = if shown.len() < text.len() { "\n[the rest is in recording.sqlite]" } else { "" };
            writeln!(
                out,
                "<details><summary>{}</summary><pre>{}{rest}</pre></details>",
                Text(&output.name),
                Text(shown)
            )?;
        }
    }
    Ok(())
}
