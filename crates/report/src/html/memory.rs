// SPDX-License-Identifier: Apache-2.0
//! The memory ledger over time: the parts of the server's memory, those that grew, and the memory that the host had left.

use super::escape::Text;
use super::section::{Section, figure};
use crate::memory::{self, Row};
use crate::{Context, show};
use std::io::{self, Write};

pub(super) const SECTION: Section = Section {
    id: "ledger",
    title: "Memory of the server, over time",
    nav: Some("Memory"),
    has_content,
    write,
    help: "",
};

pub(super) fn has_content(context: &Context<'_>) -> bool {
    context.memory.iter().any(|memory| !memory.over_time.at_us.is_empty())
}

const STACK_HELP: &str = "<p>The layers are the groups of the <b>ledger's leaves</b>; together with what is <b>unexplained</b> they sum to what the kernel counts: \
     the proportional share (Pss) of each of the server's processes, their page tables, and huge pages. What several processes share counts once. The largest groups \
     have a layer of their own, the smaller ones are <b>other parts</b>. <code>wringer memory account</code> shows the leaves of one moment.</p>";

const TABLE_HELP: &str = "<p>The <b>rate</b> is the median of the slopes between all pairs of readings (Theil and Sen), with the interval that holds the true rate 95 times of \
     100. <b>Keeps growing</b> is said of what grew in each quarter of the time, with a test for which \
     readings that resemble the ones before them count as fewer. A <b>leak</b> is memory that the server, or the walk of malloc's chunks, says is in use. What is \
     <b>free in the allocator</b> is not leaked. Caches <b>fill up</b>, to their size. How it is computed: <code>wringer doc findings</code>, <code>memory.growth</code>.</p>";

fn write(context: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (count, span_us) = memory::taken(context.memory);
    writeln!(
        out,
        "<p class=\"lead\">{} inventories in {}: each is the whole ledger at one moment. The time axis is that of the run.</p>",
        show::count(count as u64),
        show::micros(span_us as f64),
    )?;
    if memory::stack(context).is_some() {
        figure(out, "memory-ledger", "What the memory is for", STACK_HELP)?;
    }
    table(&memory::rows(context), out)?;
    if let Some(bytes) = memory::reserved(context) {
        writeln!(
            out,
            "<p class=\"lead\">{} of the address space are only reserved, and cost no RAM. They are not in the chart of VSZ.</p>",
            show::bytes(bytes as f64)
        )?;
    }
    memory::panels(context).into_iter().try_for_each(|panel| figure(out, panel.id, panel.title, panel.help))
}

fn table(rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<table class=\"cards ledger\"><thead><tr><th scope=\"col\">Part</th><th scope=\"col\">First</th><th scope=\"col\">Last</th>\
         <th scope=\"col\">Rate</th><th scope=\"col\" class=\"words\">How it went</th></tr></thead>\n<tbody>"
    )?;
    rows.iter().try_for_each(|one| row(one, out))?;
    writeln!(out, "</tbody></table>\n<details class=\"help\"><summary>How to read this</summary>{TABLE_HELP}</details>")
}

fn row(row: &Row, out: &mut dyn Write) -> io::Result<()> {
    let arm = if row.arm.is_empty() { String::new() } else { format!("<small>{}</small>", Text(&row.arm)) };
    let class = if row.course.ends_with("leak") { " bad" } else { "" };
    writeln!(
        out,
        "<tr><th scope=\"row\">{}{arm}</th><td data-label=\"First\">{}</td><td data-label=\"Last\">{}</td><td data-label=\"Rate\">{}</td>\
         <td data-label=\"How it went\" class=\"words{class}\">{}</td></tr>",
        Text(&row.part),
        row.first,
        row.last,
        row.rate,
        row.course,
    )
}
