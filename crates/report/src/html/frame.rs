// SPDX-License-Identifier: Apache-2.0
//! The parts of every page around its sections: the head with the navigation, the verdict, and the foot.

use super::SECTIONS;
use super::escape::Text;
use crate::{Context, show, verdict};
use std::io::{self, Write};

/// At most this many sentences stand below the headline; the others are among the findings.
const SENTENCES: usize = 8;

pub(super) fn header(context: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    let server = &context.conditions.server;
    let links = SECTIONS.iter().filter(|section| (section.has_content)(context));
    let links = links.filter_map(|section| Some(format!("<a href=\"#{}\">{}</a>", section.id, section.nav?)));
    writeln!(
        out,
        "<header class=\"top\"><div class=\"bar\"><span class=\"mark\">wringer</span><span class=\"name\">{}</span>\
         <span class=\"meta\"><span>{} {}</span> · <span>{}</span> · <span>{}</span></span></div>\n<nav aria-label=\"Sections\">{}</nav></header>",
        Text(&context.name),
        Text(&server.flavour),
        Text(&server.version),
        Text(show::date(&context.evidence.started)),
        show::micros(context.evidence.elapsed_us as f64),
        links.collect::<String>(),
    )
}

pub(super) fn verdict(context: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    let sentences = verdict::sentences(context);
    let headline = sentences.first().map_or("This run has no findings.", String::as_str);
    writeln!(out, "<section class=\"verdict\">")?;
    if !context.description.is_empty() {
        writeln!(out, "<p class=\"question\">{}</p>", Text(&context.description))?;
    }
    writeln!(out, "<h1>{}</h1>", Text(show::tied(headline)))?;
    for sentence in sentences.iter().skip(1).take(SENTENCES) {
        writeln!(out, "<p class=\"also\">{}</p>", Text(show::tied(sentence)))?;
    }
    let more = sentences.len().saturating_sub(1 + SENTENCES);
    if more > 0 {
        writeln!(out, "<p class=\"also\"><a href=\"#findings\">{more} more</a></p>")?;
    }
    for warning in verdict::warnings(context) {
        writeln!(out, "<p class=\"warning\" role=\"note\">{}</p>", Text(warning))?;
    }
    let caveats = context.conditions.caveats.len();
    let doubts: usize = context.findings.iter().map(|finding| finding.doubts.len()).sum();
    if caveats + doubts > 0 {
        let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
        writeln!(
            out,
            "<p class=\"but\">Read with <a href=\"#findings\">{}</a> and <a href=\"#conditions\">{}</a>.</p>",
            plural(doubts, "doubt"),
            plural(caveats, "caveat")
        )?;
    }
    writeln!(out, "</section>")
}

pub(super) fn footer(context: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<footer><p>Run {} · written by wringer {} from its recording. This file needs no network. The whole histograms are in \
         <code>result.json</code>, every sample in <code>recording.sqlite</code>.</p></footer>",
        Text(&context.evidence.run_id),
        Text(&context.conditions.tool.version)
    )
}
