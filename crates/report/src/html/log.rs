// SPDX-License-Identifier: Apache-2.0
//! The events of the run, with their times.

use super::escape::Text;
use super::section::Section;
use crate::{Context, show};
use std::io::{self, Write};

pub(super) const SECTION: Section =
    Section { id: "log", title: "Log", nav: None, has_content: |context| !context.events.is_empty(), write, help: "" };

fn write(context: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    let is_open = if context.events.len() <= 12 { " open" } else { "" };
    writeln!(out, "<details{is_open}><summary>{} events</summary><ol class=\"log\">", context.events.len())?;
    for event in &context.events {
        writeln!(
            out,
            "<li><span class=\"at\">{}</span><span class=\"station\">{}</span><span>{}</span></li>",
            show::moment(event.at_us),
            Text(&event.station),
            Text(&event.text)
        )?;
    }
    writeln!(out, "</ol></details>")
}
