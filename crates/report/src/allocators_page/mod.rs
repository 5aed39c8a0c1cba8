// SPDX-License-Identifier: Apache-2.0
//! The page of a comparison of mallocs: the recommended malloc with the reasons, throughput and latency for each number of threads, memory over the
//! cycle of a cell, and the tables with every number.
//!
//! In: an [`AllocatorsPage`]. The charts are SVG in the HTML itself: the page has no script.

mod chart;
mod groups;
mod longest;
mod tables;

use crate::html::{Text, head};
use crate::show;
use allocators::{Cell, Comparison, Recommendation};
use chart::{Chart, Line, Point, Step};
use groups::{Group, groups, mallocs};
use longest::Course;
use std::io::{self, Write};
use verdict::typical;

const PAGE_STYLE: &str = include_str!("../../assets/allocators.css");

const LONGEST_HELP: &str = "<details class=\"help\"><summary>How to read the longest response times</summary><p>The loads of the ladder stand side by side; each begins \
     above its number of <b>threads</b>, and its time runs to the right. Each point is the longest response time of one cell among the transactions that \
     ended in one <b>second</b>; of loads with many seconds, in several seconds, which the point tells under the mouse. A second in which no transaction \
     ended has no point: who waited then is in a later one. A few high points that the 99th percentile does not show are single waits: for a lock of the \
     malloc, or for memory that it takes from the kernel or gives back.</p></details>";

/// One comparison of mallocs.
#[derive(Debug)]
pub struct AllocatorsPage<'a> {
    /// Wringer's version.
    pub version: &'a str,
    pub name: &'a str,
    /// The malloc that the others are compared with.
    pub base: &'a str,
    pub cells: &'a [Cell],
    pub comparisons: &'a [Comparison],
    pub recommendation: &'a Recommendation,
    /// The lines that set the recommended malloc; none when nothing is to be changed.
    pub set_by: &'a [String],
    /// The number of planned cells.
    pub planned: usize,
}

/// Writes the whole page.
///
/// # Errors
/// The errors of `out`.
pub fn write_allocators_html(page: &AllocatorsPage<'_>, out: &mut impl Write) -> io::Result<()> {
    head(page.version, page.name, PAGE_STYLE, out)?;
    writeln!(
        out,
        "<header class=\"top\"><div class=\"bar\"><span class=\"mark\">wringer</span><span class=\"name\">{}</span>\
         <span class=\"meta\"><span>{} mallocs</span> · <span>{} of {} cells</span></span></div>\n\
         <nav aria-label=\"Sections\"><a href=\"#threads\">Threads</a><a href=\"#memory\">Memory</a><a href=\"#verdicts\">Verdicts</a>\
         <a href=\"#cells\">Cells</a></nav></header>\n<main>",
        Text(page.name),
        mallocs(page.cells).len(),
        page.cells.len(),
        page.planned,
    )?;
    verdict(page, out)?;
    let groups = groups(page.cells);
    threads(page, &groups, out)?;
    memory(page, &groups, out)?;
    tables::verdicts(page, out)?;
    tables::cells(page, out)?;
    writeln!(
        out,
        "</main>\n<footer><p>Written by wringer {} from <code>result.json</code>, which has every number. This file needs no network.</p></footer>\n</body>\n</html>",
        Text(page.version)
    )
}

fn verdict(page: &AllocatorsPage<'_>, out: &mut dyn Write) -> io::Result<()> {
    let recommendation = page.recommendation;
    let headline = match recommendation.take.as_deref() {
        _ if page.cells.is_empty() => "Nothing was measured yet".to_owned(),
        None => "No verdict: nothing can be recommended yet".to_owned(),
        Some("keep") => format!("Keep {}", page.base),
        Some(take) => format!("Take {take} in place of {}", page.base),
    };
    writeln!(out, "<section class=\"verdict\">\n<p class=\"question\">The same load under several mallocs</p>")?;
    writeln!(out, "<h1>{}</h1>", Text(headline))?;
    for why in &recommendation.because {
        writeln!(out, "<p class=\"also\">{}</p>", Text(why))?;
    }
    if let Some(price) = recommendation.price_bytes {
        let more = if price > 0 { "more" } else { "less" };
        let bytes = show::bytes(price.unsigned_abs() as f64);
        writeln!(
            out,
            "<p class=\"also\">Memory at the end of the rest: {bytes} {more} than with {}.</p>",
            Text(page.base)
        )?;
    }
    writeln!(
        out,
        "<p class=\"but\">This was seen with {}. With more CPUs another malloc may be better.</p>",
        Text(&recommendation.scope)
    )?;
    for note in &recommendation.notes {
        writeln!(out, "<p class=\"but\">{}.</p>", Text(note))?;
    }
    if !page.set_by.is_empty() {
        writeln!(out, "<pre>{}</pre>", Text(page.set_by.join("\n")))?;
    }
    writeln!(out, "</section>")
}

/// A chart of throughput and one of the 99th percentile for each workload, CPUs and setting of huge pages.
fn threads(page: &AllocatorsPage<'_>, groups: &[Group<'_>], out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<section id=\"threads\"><h2>Over the ladder of threads</h2>\n<p class=\"lead\">Each point is one cell: one life of the server. A line goes through the \
         geometric means. A cell in which something other than what was asked for was in force is left out.</p>\n{LONGEST_HELP}"
    )?;
    for group in groups {
        for workload in group.workloads() {
            let ladder = group.ladder(workload);
            let step = |threads: &u32| Step {
                label: threads.to_string(),
                name: format!("{threads} threads"),
                is_apart: false,
            };
            let steps: Vec<Step> = ladder.iter().map(step).collect();
            let title = |figure: &str| format!("{workload}{}: {figure}", group.suffix());
            for (figure, is_time) in [("transactions a second", false), ("99th percentile of the response time", true)]
            {
                let lines = lines(page, |malloc| {
                    let at = |step: usize| group.loads(malloc, workload, ladder.get(step).copied());
                    let values = |step: usize| -> Vec<f64> {
                        at(step)
                            .filter_map(|it| if is_time { Some(it.p99_us) } else { it.transactions_per_s })
                            .collect()
                    };
                    (0..ladder.len()).map(values).collect()
                });
                let shown = if is_time { show::micros } else { show::number };
                let chart =
                    Chart { title: title(figure), steps: &steps, of_steps: "threads", shown, is_bytes: false, lines };
                chart.write(out)?;
            }
            over_time(page, group, workload, out)?;
        }
    }
    writeln!(out, "</section>")
}

/// The longest response time in each second of the loads.
fn over_time(page: &AllocatorsPage<'_>, group: &Group<'_>, workload: &str, out: &mut dyn Write) -> io::Result<()> {
    let course = Course::of(group, workload);
    let title = format!("{workload}{}: longest response time, second by second", group.suffix());
    let (steps, lines) = (course.steps(), lines(page, |malloc| course.values(malloc)));
    let of_steps = "threads, and the time of each load";
    Chart { title, steps: &steps, of_steps, shown: show::micros, is_bytes: false, lines }.write(out)
}

/// Resident memory, and the memory that the server had asked for, at each mark of the cycle.
fn memory(page: &AllocatorsPage<'_>, groups: &[Group<'_>], out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<section id=\"memory\"><h2>Memory over the cycle</h2>\n<p class=\"lead\">From the warm-up, over the loads and the burst of large temporary tables, to the end of \
         the rest. <b>Resident</b> is what the server takes from the host. <b>Asked for</b> is what it had got from malloc and not given back: \
         the malloc alone keeps what lies between.</p>"
    )?;
    for group in groups {
        let marks = group.marks();
        let steps: Vec<Step> = (0..marks.len()).filter_map(|place| step(&marks, place)).collect();
        for (figure, is_asked) in [("resident", false), ("asked for", true)] {
            let lines = lines(page, |malloc| {
                let values = |place: &(String, String)| -> Vec<f64> {
                    let found = group.footprints(malloc, place);
                    found
                        .filter_map(|it| if is_asked { it.asked_bytes } else { it.rss_bytes })
                        .map(|it| it as f64)
                        .collect()
                };
                marks.iter().map(values).collect()
            });
            let title = format!("Memory{}: {figure}", group.suffix());
            Chart { title, steps: &steps, of_steps: "", shown: show::bytes, is_bytes: true, lines }.write(out)?;
        }
    }
    writeln!(out, "</section>")
}

/// The first mark of an arm has the arm's name below it; the mark at the end of the rest has the label `rest`.
fn step(marks: &[(String, String)], place: usize) -> Option<Step> {
    let (arm, mark) = marks.get(place)?;
    let is_first = place == 0 || marks.get(place - 1).is_some_and(|(before, _)| before != arm);
    let label = match mark.as_str() {
        "idle" => "rest",
        _ if is_first => arm,
        _ => "",
    };
    let when = if mark == "idle" { "at the end of the rest" } else { mark };
    Some(Step { label: label.to_owned(), name: format!("{arm}, {when}"), is_apart: false })
}

/// One line for each malloc that has values. A malloc has the same colour on the whole page.
fn lines(page: &AllocatorsPage<'_>, values: impl Fn(&str) -> Vec<Vec<f64>>) -> Vec<Line> {
    let named = mallocs(page.cells).into_iter().enumerate();
    let line = |(colour, name): (usize, &str)| {
        let each = values(name).into_iter().enumerate().filter(|(_, values)| !values.is_empty());
        let points = each.map(|(step, values)| Point { step, typical: typical(&values), values }).collect();
        Line { name: name.to_owned(), colour, points }
    };
    named.map(line).filter(|line| !line.points.is_empty()).collect()
}
