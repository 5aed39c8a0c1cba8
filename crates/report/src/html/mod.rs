// SPDX-License-Identifier: Apache-2.0
//! The report: one file that needs no other file.
//!
//! Words and tables are in the HTML, readable without the script; the script draws the charts from one constant.

mod arms;
mod article;
mod assertions;
mod conditions;
mod data;
mod drivers;
mod escape;
mod findings;
mod frame;
mod heap;
mod host;
mod latency;
mod log;
mod measured;
mod memory;
mod over_time;
mod section;
mod snapshots;
mod spans;
mod stalls;

pub use heap::write_heap_html;

use crate::{Context, verdict};
pub(crate) use escape::{Json, Text};
use section::Section;
use std::io::{self, Write};

pub(crate) const STYLE: &str = include_str!("../../assets/report.css");
const CHART: &str = include_str!("../../assets/chart.js");
const PAGE: &str = include_str!("../../assets/page.js");
/// Style and script of the memory ledger; only on a page that has one.
const MEMORY_STYLE: &str = include_str!("../../assets/memory.css");
const MEMORY: &str = include_str!("../../assets/memory.js");
/// A page may not fetch anything from anywhere, whatever the recording contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; \
                      base-uri 'none'; form-action 'none'";

/// The sections in the order of the page, one module for each topic.
const SECTIONS: [Section; 15] = [
    article::SECTION,
    arms::SECTION,
    assertions::SECTION,
    drivers::SECTION,
    latency::SECTION,
    over_time::SECTION,
    stalls::SECTION,
    memory::SECTION,
    host::SECTION,
    spans::SECTION,
    measured::SECTION,
    findings::SECTION,
    snapshots::SECTION,
    conditions::SECTION,
    log::SECTION,
];

/// Writes the whole page.
///
/// # Errors
/// The errors of `out`.
pub fn write_html(context: &Context<'_>, out: &mut impl Write) -> io::Result<()> {
    let title = verdict::sentences(context)
        .first()
        .map_or_else(|| context.name.clone(), |first| format!("{}: {first}", context.name));
    let (memory_style, memory) = if memory::has_content(context) { (MEMORY_STYLE, MEMORY) } else { ("", "") };
    head(&context.conditions.tool.version, &title, memory_style, out)?;
    frame::header(context, out)?;
    writeln!(out, "<main>")?;
    frame::verdict(context, out)?;
    SECTIONS.iter().try_for_each(|section| section.write(context, out))?;
    writeln!(out, "</main>")?;
    frame::footer(context, out)?;
    let data = data::data(context);
    writeln!(
        out,
        "<script>\n\"use strict\";\nconst DATA = {};\n{CHART}\n{PAGE}{memory}</script>\n</body>\n</html>",
        Json(&data)
    )
}

/// Everything before the page's content. `style`: in addition to the style of every page.
pub(crate) fn head(version: &str, title: &str, style: &str, out: &mut impl Write) -> io::Result<()> {
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"generator\" content=\"wringer {}\">\n<title>{}</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <style>\n{STYLE}{style}</style>\n</head>\n<body>\n",
        Text(version),
        Text(title),
    )
}
