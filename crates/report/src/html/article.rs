// SPDX-License-Identifier: Apache-2.0
//! The figures that an article printed and those that this run measured, side by side.

use super::escape::Text;
use super::section::Section;
use crate::articles::bounds;
use crate::{Context, show};
use explain::{ArticleFigure, ArticleFigures, FindingEvidence};
use std::io::{self, Write};

pub(super) const SECTION: Section = Section {
    id: "article",
    title: "Beside the article",
    nav: Some("Article"),
    has_content: |context| found(context).is_some(),
    write,
    help: "<p><b>Article</b> is what the article printed, or follows by a division from it; <b>here</b> is the same of this run. The two are not \
         compared with each other: another machine, another size of data. Both are held to a <b>law</b>: what should be so on any machine. Where \
         nothing is so everywhere, there is none. Where a law is not kept, what else the recording has stands below; it is not shown to be the \
         reason.</p>",
};

fn found<'c>(context: &'c Context<'_>) -> Option<&'c ArticleFigures> {
    context.findings.iter().find_map(|finding| match &finding.evidence {
        FindingEvidence::ArticleFigures(figures) => Some(figures),
        _ => None,
    })
}

fn write(context: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    let Some(found) = found(context) else { return Ok(()) };
    writeln!(out, "<p class=\"lead\">Article {}, “{}”</p>", found.article, Text(&found.title))?;
    writeln!(
        out,
        "<table class=\"cards\"><thead><tr><th scope=\"col\">Figure</th><th scope=\"col\">Article</th><th scope=\"col\">Here</th>\
         <th scope=\"col\">Law</th><th scope=\"col\" class=\"words\">Kept</th></tr></thead>\n<tbody>"
    )?;
    let measured = found.figures.iter().filter(|figure| figure.ours.is_some());
    measured.clone().try_for_each(|figure| row(figure, out))?;
    writeln!(out, "</tbody></table>")?;
    for figure in measured {
        if let Some(because) = &figure.because {
            writeln!(out, "<p class=\"also\">{}: {}.</p>", Text(&figure.name), Text(because))?;
        }
    }
    Ok(())
}

fn row(figure: &ArticleFigure, out: &mut dyn Write) -> io::Result<()> {
    let (class, word) = match figure.agrees {
        Some(true) => (" ok", "✓ kept"),
        Some(false) => (" bad", "✗ not kept"),
        None => ("", show::NOTHING),
    };
    let law = figure.law.as_ref().map_or_else(|| show::NOTHING.to_owned(), |_| bounds(figure));
    let says = figure.law.as_deref().or(figure.article_from.as_deref()).unwrap_or_default();
    writeln!(
        out,
        "<tr><th scope=\"row\"><span class=\"name\">{}</span><small>{}</small></th><td data-label=\"Article\">{}</td>\
         <td data-label=\"Here\"><b>{}</b></td><td data-label=\"Law\">{}</td><td data-label=\"Kept\" class=\"words{class}\">{word}</td></tr>",
        Text(&figure.name),
        Text(says),
        show::or_nothing(figure.article, show::number),
        show::or_nothing(figure.ours, show::number),
        Text(&law),
    )
}
