// SPDX-License-Identifier: Apache-2.0
//! Throughput and response time, second by second.

use super::section::{Section, figure};
use crate::Context;
use std::io::{self, Write};

pub(super) const SECTION: Section = Section {
    id: "time",
    title: "Over time",
    nav: Some("Over time"),
    has_content: |context| {
        context.arms.iter().filter_map(|view| view.measured()).any(|phase| !phase.timeline.is_empty())
    },
    write,
    help: "",
};

fn write(_: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<p class=\"lead\">All arms begin at second 0, where measuring starts. What is left of it is the warm-up, and counts nowhere else.</p>"
    )?;
    figure(
        out,
        "throughput",
        "Throughput",
        "<p>Queries that ended in each slot (100 ms unless said otherwise; of another program's load as it tells, each second), as a rate. A flat line means a steady state; a line that still climbs says that \
         the warm-up was too short; a dip to the floor that all queries share is a stall.</p>",
    )?;
    figure(
        out,
        "response",
        "Response time: p99, and p50 dashed",
        "<p>Of the queries that ended in each slot. Where slots were joined to keep this file small, the highest of them is shown, never a mean of \
         percentiles. In a slot with fewer than a hundred queries p99 is the slowest of them. Of another program's load it is what that tells of its own \
         slots: sysbench one percentile (the 95th, unless told otherwise), pgbench the mean, as far as it keeps no log.</p>",
    )
}
