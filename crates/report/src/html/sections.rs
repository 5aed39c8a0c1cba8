// SPDX-License-Identifier: Apache-2.0
//! The page from its head to asked and got.

use super::escape::Text;
use crate::{ArmView, Context, series, show, verdict};
use evidence::Measured;
use explain::Reads;
use explain::modes::Mode;
use std::io::{self, Write};

/// At most so many sentences stand below the headline; the others are among the findings.
const SENTENCES: usize = 8;

pub(super) fn header(context: &Context<'_>, out: &mut impl Write) -> io::Result<()> {
    let server = &context.conditions.server;
    writeln!(
        out,
        "<header class=\"top\"><div class=\"bar\"><span class=\"mark\">wringer</span><span class=\"name\">{}</span>\
         <span class=\"meta\"><span>{} {}</span> · <span>{}</span> · <span>{}</span></span></div>\n<nav aria-label=\"Sections\">{}</nav></header>",
        Text(&context.name),
        Text(&server.flavour),
        Text(&server.version),
        Text(show::date(&context.evidence.started)),
        show::micros(context.evidence.elapsed_us as f64),
        [
            ("arms", "Arms"),
            ("latency", "Latency"),
            ("time", "Over time"),
            ("host", "Host and server"),
            ("measured", "Asked and got"),
            ("findings", "Findings"),
            ("conditions", "Conditions"),
        ]
        .map(|(id, title)| format!("<a href=\"#{id}\">{title}</a>"))
        .concat(),
    )
}

pub(super) fn verdict(context: &Context<'_>, out: &mut impl Write) -> io::Result<()> {
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

pub(super) fn arms(context: &Context<'_>, out: &mut impl Write) -> io::Result<()> {
    if context.arms.is_empty() {
        return Ok(());
    }
    open(out, "arms", "Arms side by side")?;
    shares(context, out)?;
    writeln!(
        out,
        "<table class=\"cards\"><thead><tr><th scope=\"col\" rowspan=\"2\">Arm</th><th scope=\"col\" rowspan=\"2\">Queries/s</th>\
         <th scope=\"colgroup\" colspan=\"4\" class=\"group\">Response time</th>\
         <th scope=\"colgroup\" colspan=\"4\" class=\"group\">Reads per query</th></tr>\n\
         <tr><th scope=\"col\">p50</th><th scope=\"col\">p95</th><th scope=\"col\">p99</th><th scope=\"col\">max</th>\
         <th scope=\"col\">by modes</th><th scope=\"col\">by server</th><th scope=\"col\">by layer</th>\
         <th scope=\"col\">off by</th></tr></thead>\n<tbody>"
    )?;
    for (index, view) in context.arms.iter().enumerate() {
        arm_row(index, view, out)?;
    }
    writeln!(out, "</tbody></table>")?;
    help(
        out,
        "<p><b>Response time</b> counts from the moment a query was meant to start. p99 is the time that one query in a hundred \
         exceeds.</p><p><b>Reads per query</b> is asked of three who share no code: the humps of the latency histogram, the server's own \
         count of physical reads, and the slow layer's count of read requests. <b>Off by</b> is how far the humps are from the witness that counts: \
         the server, or for PostgreSQL, whose own count has reads from the page cache in it, the layer. A few percent is agreement. A dash means that it cannot be said, or was not measured.</p>",
    )?;
    close(out)
}

/// One bar an arm: how the queries divide by the reads they needed.
fn shares(context: &Context<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "<div class=\"shares\" role=\"list\" aria-label=\"Queries by the reads they needed\">")?;
    for (index, view) in context.arms.iter().enumerate().filter(|(_, view)| !view.modes().is_empty()) {
        let known = view.modes().iter().all(|mode| mode.reads.is_some());
        write!(
            out,
            "<div class=\"share\" role=\"listitem\"><span class=\"arm a{}\">{}</span>",
            index % COLOURS,
            Text(&view.arm.name)
        )?;
        write!(out, "<span class=\"stack\">")?;
        for (tint, mode) in view.modes().iter().enumerate() {
            let name = mode_name(mode);
            let percent = show::percent(mode.share);
            let label = if mode.share >= 0.12 { format!("<b>{name}</b> {percent}") } else { String::new() };
            write!(
                out,
                "<span class=\"part t{}{}\" style=\"flex-grow:{:.4}\" title=\"{name}: {percent} of the queries, about {}\">{label}</span>",
                tint.min(3),
                if known { "" } else { " unknown" },
                mode.share.max(0.004),
                show::micros(mode.center_us),
            )?;
        }
        write!(out, "</span>")?;
        let listed = |least: f64| {
            let modes = view.modes().iter().filter(|mode| mode.share < least);
            modes
                .map(|mode| format!("{} {}", mode_name(mode), show::percent(mode.share)))
                .collect::<Vec<_>>()
                .join(" · ")
        };
        // on a small screen no name fits into its part of the bar: all of them stand below
        let (small, all) = (listed(0.12), listed(f64::INFINITY));
        writeln!(out, "<span class=\"small\">{small}</span><span class=\"all\">{all}</span></div>")?;
    }
    writeln!(out, "</div>")
}

fn mode_name(mode: &Mode) -> String {
    mode.reads.map_or_else(|| show::micros(mode.center_us), show::reads)
}

/// Colours of arms; with more of them they repeat, and the names tell them apart.
const COLOURS: usize = 6;

fn arm_row(index: usize, view: &ArmView<'_>, out: &mut impl Write) -> io::Result<()> {
    let phase = view.measured();
    let response = phase.map(|phase| &phase.transaction.response).filter(|response| !response.is_empty());
    let percentile =
        |at: f64| show::or_nothing(response, |response| show::micros(response.percentile_ns(at) as f64 / 1e3));
    let ratio = |value: Option<f64>| show::or_nothing(value, |value| format!("{value:.3}"));
    let settings: Vec<_> = view.arm.settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    let settings =
        if settings.is_empty() { String::new() } else { format!("<small>{}</small>", Text(settings.join(", "))) };
    let broke_off = if view.arm.broke_off.is_some() {
        "<small>broke off: the figures are of what it did until then</small>"
    } else {
        ""
    };
    writeln!(
        out,
        "<tr><th scope=\"row\"><span class=\"arm a{}\">{}</span>{settings}{broke_off}</th>",
        index % COLOURS,
        Text(&view.arm.name)
    )?;
    let is_driven = view.arm.driven.is_some();
    if response.is_none() && (!is_driven || phase.is_none()) {
        let why = match (phase, is_driven) {
            (None, true) => "no figures: see what its program printed",
            (None, false) if view.arm.is_observed() => "observed, without a load of Wringer's",
            (None, false) => "did not get as far as the end of its load",
            _ => "no query was answered",
        };
        return writeln!(out, "<td class=\"words\" colspan=\"9\">{why}</td></tr>");
    }
    let per_second = show::or_nothing(phase.and_then(|phase| phase.queries_per_second()), show::number);
    let max = show::or_nothing(response, |response| show::micros(response.max_ns() as f64 / 1e3));
    let reads = view.summary.reads.as_ref();
    let cells = [
        ("Queries/s", per_second),
        ("p50", percentile(50.0)),
        ("p95", percentile(95.0)),
        ("p99", percentile(99.0)),
        ("max", max),
        ("Reads/query by modes", ratio(reads.and_then(|reads| reads.by_modes))),
        ("Reads/query by server", ratio(reads.and_then(|reads| reads.by_server))),
        ("Reads/query by layer", ratio(reads.and_then(|reads| reads.by_layer))),
        ("Modes off by", show::or_nothing(reads.and_then(Reads::discrepancy), show::difference)),
    ];
    for (label, cell) in cells {
        write!(out, "<td data-label=\"{label}\">{cell}</td>")?;
    }
    writeln!(out, "</tr>")
}

pub(super) fn latency(context: &Context<'_>, out: &mut impl Write) -> io::Result<()> {
    if context.arms.iter().all(|view| view.measured().is_none_or(|phase| phase.transaction.response.is_empty())) {
        return Ok(());
    }
    open(out, "latency", "Latency")?;
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
    )?;
    close(out)
}

pub(super) fn over_time(context: &Context<'_>, out: &mut impl Write) -> io::Result<()> {
    if context.arms.iter().all(|view| view.measured().is_none_or(|phase| phase.timeline.is_empty())) {
        return Ok(());
    }
    open(out, "time", "Over time")?;
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
    )?;
    close(out)
}

pub(super) fn host(context: &Context<'_>, out: &mut impl Write) -> io::Result<()> {
    let panels = series::panels(context.evidence);
    if panels.is_empty() {
        return Ok(());
    }
    open(out, "host", "Host and server, over the whole run")?;
    writeln!(
        out,
        "<p class=\"lead\">Shaded bands are the arms, the darker part what was measured. The time axis is that of the run.</p>"
    )?;
    for panel in panels {
        let how = match panel.id {
            "memory" => {
                "<p><b>Available</b> is what the kernel thinks could be given out without swapping. RAM that is hidden stands under huge pages: it is \
                 reserved, and nobody can use it.</p>"
            }
            "server-memory" => {
                "<p><b>Pss</b> divides shared pages among their users; <b>RSS</b> counts them fully. Reading Pss may cost the server too much; \
                 then its line ends, and RSS goes on. A line breaks where another arm started the \
                 server anew.</p>"
            }
            "statements" => {
                "<p>What the server counts itself: <b>statements</b> of MySQL and MariaDB (Questions), those of this observer among them, or \
                 <b>transactions</b> committed in one database of PostgreSQL, which its backends hand in up to ten seconds late.</p>"
            }
            "reads" => {
                "<p>Physical reads in a second as three see them: the server (for PostgreSQL this counts reads that the page cache answered, too), \
                 the slow layer below it, and the disk of the host that was read most, which also serves others.</p>"
            }
            "cpu" => "<p>1 is one CPU, fully used. The observer is Wringer's own reading of these figures.</p>",
            _ => {
                "<p>The share of time in which at least one task waited for the resource, as the kernel accounts it (pressure stall information).</p>"
            }
        };
        figure(out, panel.id, panel.title, how)?;
    }
    close(out)
}

pub(super) fn measured(context: &Context<'_>, out: &mut impl Write) -> io::Result<()> {
    if context.evidence.measured.is_empty() {
        return Ok(());
    }
    open(out, "measured", "Asked, predicted, got")?;
    writeln!(
        out,
        "<table class=\"cards\"><thead><tr><th scope=\"col\">What</th><th scope=\"col\">Arm</th><th scope=\"col\">Asked</th>\
         <th scope=\"col\">Predicted</th><th scope=\"col\">Got</th><th scope=\"col\" class=\"words\">Tolerance</th>\
         <th scope=\"col\" class=\"words\">Witness</th></tr></thead>\n<tbody>"
    )?;
    context.evidence.measured.iter().try_for_each(|measured| measured_row(measured, out))?;
    writeln!(out, "</tbody></table>")?;
    help(
        out,
        "<p><b>Asked</b> is what the experiment wants, <b>predicted</b> what the mechanism can give on this host where that is something else, \
         <b>got</b> what a witness measured that shares no code with the change. A delay outside of its tolerance ends the run.</p>",
    )?;
    close(out)
}

fn measured_row(measured: &Measured, out: &mut impl Write) -> io::Result<()> {
    let quantity = |quantity| show::or_nothing(quantity, show::quantity);
    let tolerance = measured.tolerance.as_deref().unwrap_or_default();
    let (class, verdict) = match measured.within_tolerance {
        Some(true) => ("ok", format!("✓ {tolerance}")),
        Some(false) => ("bad", format!("✗ out of tolerance: {tolerance}")),
        None => ("", tolerance.to_owned()),
    };
    writeln!(
        out,
        "<tr><th scope=\"row\"><code>{}</code><small>{}</small></th><td data-label=\"Arm\">{}</td><td data-label=\"Asked\">{}</td>\
         <td data-label=\"Predicted\">{}</td><td data-label=\"Got\"><b>{}</b></td><td data-label=\"Tolerance\" class=\"words {class}\">{}</td>\
         <td data-label=\"Witness\" class=\"words\">{}</td></tr>",
        Text(&measured.what),
        Text(&measured.mechanism),
        Text(measured.arm.as_deref().unwrap_or("all")),
        quantity(measured.asked),
        quantity(measured.predicted),
        quantity(measured.got),
        Text(verdict),
        Text(&measured.witness),
    )
}

pub(super) fn footer(context: &Context<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "<footer><p>Run {} · written by wringer {} from its recording. This file needs no network. The whole histograms are in \
         <code>result.json</code>, every sample in <code>recording.sqlite</code>.</p></footer>",
        Text(&context.evidence.run_id),
        Text(&context.conditions.tool.version)
    )
}

pub(super) fn open(out: &mut impl Write, id: &str, title: &str) -> io::Result<()> {
    writeln!(out, "<section id=\"{id}\">\n<h2>{title}</h2>")
}

pub(super) fn close(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "</section>")
}

/// `how` is HTML of ours.
pub(super) fn help(out: &mut impl Write, how: &str) -> io::Result<()> {
    writeln!(out, "<details class=\"help\"><summary>How to read this</summary>{how}</details>")
}

/// A place for a chart; the script fills it.
fn figure(out: &mut impl Write, chart: &str, title: &str, how: &str) -> io::Result<()> {
    writeln!(
        out,
        "<figure data-chart=\"{chart}\"><figcaption><h3>{title}</h3><div class=\"controls\"></div></figcaption>\
         <div class=\"legend\"></div><div class=\"plots\"><noscript>The charts need JavaScript; the tables do not.</noscript></div>"
    )?;
    help(out, how)?;
    writeln!(out, "</figure>")
}
