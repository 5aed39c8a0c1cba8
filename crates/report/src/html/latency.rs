// SPDX-License-Identifier: Apache-2.0
//! The durations of queries: the histogram with its modes, and the percentiles.

use super::section::{Section, figure};
use crate::Context;
use std::io::{self, Write};

pub(super) const SECTION: Section = Section {
    id: "latency",
    title: "Latency",
    nav: Some("Latency"),
    has_content: |context| context.arms.iter().any(|view| view.response().is_some()),
    write,
    help: "",
};

fn write(_: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<p class=\"lead\">How long queries took, and how many reads that tells of.</p>")?;
    figure(
        out,
        "histograms",
        "Latency histogram",
        "<p>Each bar is a range of service times, from the actual start of a query to its last row; the axis is logarithmic, so equal steps to the right are equal factors. A hump \
         (a <b>mode</b>) is a group of queries that had the same work to do. With a delay on reads, humps stand one delay apart: 0 reads, 1 read, \
         2 reads. The shaded bands are where the tool drew the bounds, and the share is the part of all queries in it.</p>\
         <p>With <b>log</b> counts small humps show beside large ones; with <b>linear</b> counts areas compare fairly. Arrow keys move through the \
         bars when a chart has the focus.</p>",
    )?;
    figure(
        out,
        "curve",
        "Response time by percentile",
        "<p>To the right, rarer: at 99.9 % one query in a thousand took longer than the line. A step in the line is a hump in the histogram. \
         Where a dashed line stands apart from its solid one, it is <b>service time</b>, from the actual start: the gap between the two is waiting \
         for a turn.</p>",
    )
}
