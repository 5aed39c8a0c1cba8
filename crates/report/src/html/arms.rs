// SPDX-License-Identifier: Apache-2.0
//! The arms side by side: throughput, response times, and reads a query.

use super::escape::Text;
use super::section::Section;
use crate::{ArmView, Context, show};
use explain::Reads;
use modes::Mode;
use std::io::{self, Write};

pub(super) const SECTION: Section = Section {
    id: "arms",
    title: "Arms side by side",
    nav: Some("Arms"),
    has_content: |context| !context.arms.is_empty(),
    write,
    help: "<p>The bars are as long as the arm's <b>queries a second</b>, beside those of the fastest arm. Where the humps of an arm's latencies are known, a \
         second row of bars divides its queries by the <b>reads</b> they needed.</p><p><b>Response time</b> counts from the moment a query was meant to start. p99 is the time that one query in a hundred \
         exceeds.</p><p><b>Reads per query</b> is asked of three who share no code: the humps of the latency histogram, the server's own \
         count of physical reads, and the slow layer's count of read requests. <b>Off by</b> is how far the humps are from the witness that counts: \
         the server, or for PostgreSQL, whose own count has reads from the page cache in it, the layer. A few percent is agreement. A dash means that it cannot be said, or was not measured.</p>",
};

/// Colours of arms; with more arms the colours repeat, and the names tell the arms apart.
const COLOURS: usize = 6;

fn write(context: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    throughputs(context, out)?;
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
    writeln!(out, "</tbody></table>")
}

/// A bar for each arm that has a throughput, if there are several arms to compare.
fn throughputs(context: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    let rate = |view: &ArmView<'_>| view.measured().and_then(|phase| phase.queries_per_second());
    let rates: Vec<_> = context.arms.iter().enumerate().filter_map(|it| Some((it.0, it.1, rate(it.1)?))).collect();
    let highest = rates.iter().map(|(.., rate)| *rate).fold(0.0, f64::max);
    if rates.len() < 2 || highest <= 0.0 {
        return Ok(());
    }
    writeln!(
        out,
        "<p class=\"lead\">Queries a second</p><div class=\"shares\" role=\"list\" aria-label=\"Queries a second\">"
    )?;
    for (index, view, rate) in rates {
        let colour = index % COLOURS;
        writeln!(
            out,
            "<div class=\"share\" role=\"listitem\"><span class=\"arm a{colour}\">{}</span><span class=\"track\">\
             <span class=\"fill f{colour}\" style=\"width:{:.2}%\"></span>{}</span></div>",
            Text(&view.arm.name),
            rate / highest * WIDEST,
            show::number(rate),
        )?;
    }
    writeln!(out, "</div>")
}

/// The widest bar in percent of its track: the rest is for the figure beside the bar.
const WIDEST: f64 = 84.0;

/// One bar for each arm whose latencies have humps that tell something: the shares of the queries by the number of reads that they needed.
fn shares(context: &Context<'_>, out: &mut dyn Write) -> io::Result<()> {
    let tells = |view: &ArmView<'_>| view.modes().len() > 1 || view.modes().iter().any(|mode| mode.reads.is_some());
    let telling: Vec<_> = context.arms.iter().enumerate().filter(|(_, view)| tells(view)).collect();
    if telling.is_empty() {
        return Ok(());
    }
    let what = "Queries by the reads they needed, or by how long they took where that is not known";
    writeln!(out, "<p class=\"lead\">{what}</p><div class=\"shares\" role=\"list\" aria-label=\"{what}\">")?;
    for (index, view) in telling {
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
        // on a small screen no name fits into its part of the bar: there all names stand below the bar
        let (small, all) = (listed(0.12), listed(f64::INFINITY));
        writeln!(out, "<span class=\"small\">{small}</span><span class=\"all\">{all}</span></div>")?;
    }
    writeln!(out, "</div>")
}

fn mode_name(mode: &Mode) -> String {
    mode.reads.map_or_else(|| show::micros(mode.center_us), show::reads)
}

fn arm_row(index: usize, view: &ArmView<'_>, out: &mut dyn Write) -> io::Result<()> {
    let phase = view.measured();
    let response = view.response();
    let response = response.as_ref();
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
    let reads = view.summary.reads.as_ref();
    let cells = [
        ("Queries/s", per_second),
        ("p50", show::percentile(response, 50.0)),
        ("p95", show::percentile(response, 95.0)),
        ("p99", show::percentile(response, 99.0)),
        ("max", show::longest(response)),
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
