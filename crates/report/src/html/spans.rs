// SPDX-License-Identifier: Apache-2.0
//! Activities that lasted for a while: their begins and lengths.

use super::escape::Text;
use super::section::Section;
use crate::{Context, show};
use evidence::Span;
use std::io::{self, Write};

/// The whole list is in the recording; a phone must be able to open the page.
const SHOWN: usize = 300;

pub(super) const SECTION: Section = Section {
    id: "spans",
    title: "What took how long",
    nav: None,
    has_content: |context| !context.spans.is_empty(),
    write,
    help: "<p>Parts of the run that began and ended: the start of a server until it answered, the fill of its tables, the warm-up and the \
         measured part of each arm's load, and whatever else a reader saw go on for a while. The bar shows where in the run it lies; \
         <b>From</b> is minutes and seconds since the run began.</p>",
};

fn write(context: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<table class=\"cards\"><thead><tr><th scope=\"col\">What</th><th scope=\"col\">From</th><th scope=\"col\">Length</th>\
         <th scope=\"col\" class=\"words\">In the run</th><th scope=\"col\" class=\"words\">Known of it</th></tr></thead>\n<tbody>"
    )?;
    let mut spans: Vec<&Span> = context.spans.iter().collect();
    spans.sort_by_key(|span| span.from_us);
    spans.iter().take(SHOWN).try_for_each(|span| row(span, context.evidence.elapsed_us, out))?;
    writeln!(out, "</tbody></table>")?;
    if spans.len() > SHOWN {
        writeln!(out, "<p>{} more are in <code>result.json</code>.</p>", show::number((spans.len() - SHOWN) as f64))?;
    }
    Ok(())
}

fn row(span: &Span, elapsed_us: u64, out: &mut dyn Write) -> io::Result<()> {
    let whole = elapsed_us.max(span.to_us).max(1) as f64;
    let percent = |us: u64| us as f64 / whole * 100.0;
    let told: Vec<String> = span.attributes.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    writeln!(
        out,
        "<tr><th scope=\"row\"><code>{}</code><small>{}</small></th><td data-label=\"From\">{}</td><td data-label=\"Length\"><b>{}</b></td>\
         <td data-label=\"In the run\" class=\"words\"><span class=\"lane\"><i style=\"left:{:.2}%;width:{:.2}%\"></i></span></td>\
         <td data-label=\"Known of it\" class=\"words\">{}</td></tr>",
        Text(&span.kind),
        Text(&span.entity),
        show::moment(span.from_us),
        show::micros(span.length_us() as f64),
        percent(span.from_us),
        percent(span.length_us()),
        Text(told.join(", ")),
    )
}
