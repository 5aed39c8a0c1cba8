// SPDX-License-Identifier: Apache-2.0
//! A section of the page: one topic, its panels, and how to read them.

use crate::Context;
use std::io::{self, Write};

pub(super) struct Section {
    /// The id of its HTML element.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// Its name in the navigation; `None`: it is not in the navigation.
    pub(super) nav: Option<&'static str>,
    /// Whether this run has any content for the section; without content the section is left out.
    pub(super) has_content: fn(&Context<'_>) -> bool,
    pub(super) write: fn(&Context<'_>, &mut dyn Write) -> io::Result<()>,
    /// Help for readers: HTML of ours. Empty where the panels have their own help, or no help is needed.
    pub(super) help: &'static str,
}

impl Section {
    pub(super) fn write(&self, context: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
        if !(self.has_content)(context) {
            return Ok(());
        }
        writeln!(out, "<section id=\"{}\">\n<h2>{}</h2>", self.id, self.title)?;
        (self.write)(context, out)?;
        if !self.help.is_empty() {
            help(out, self.help)?;
        }
        writeln!(out, "</section>")
    }
}

/// `how` is HTML that we wrote.
fn help(out: &mut dyn Write, how: &str) -> io::Result<()> {
    writeln!(out, "<details class=\"help\"><summary>How to read this</summary>{how}</details>")
}

/// A panel: a place for a chart, which the script fills, and the help for readers.
pub(super) fn figure(out: &mut dyn Write, chart: &str, title: &str, how: &str) -> io::Result<()> {
    writeln!(
        out,
        "<figure data-chart=\"{chart}\"><figcaption><h3>{title}</h3><div class=\"controls\"></div></figcaption>\
         <div class=\"legend\"></div><div class=\"plots\"><noscript>The charts need JavaScript; the tables do not.</noscript></div>"
    )?;
    help(out, how)?;
    writeln!(out, "</figure>")
}
