// SPDX-License-Identifier: Apache-2.0
//! The tables: each figure beside the figure of the first malloc, and each cell.

use super::AllocatorsPage;
use crate::html::Text;
use crate::show::{self, NOTHING};
use allocators::{Cell, Comparison};
use std::io::{self, Write};
use verdict::Verdict;

pub(super) fn verdicts(page: &AllocatorsPage<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<section id=\"verdicts\"><h2>Verdicts</h2>\n<p class=\"lead\">Each malloc beside {}, within blocks. All intervals of one malloc hold together with 95 %. \
         \"Detectable\": so large a difference would have been shown in 9 of 10 such comparisons.</p>",
        Text(page.base)
    )?;
    if page.comparisons.is_empty() {
        return writeln!(out, "<p>There is none yet.</p></section>");
    }
    let (shown, others): (Vec<_>, Vec<_>) = page.comparisons.iter().partition(|it| is_shown(it));
    if shown.is_empty() {
        writeln!(out, "<p>No difference is shown in any of {} figures.</p>", others.len())?;
    } else {
        rows(&shown, out)?;
    }
    if !others.is_empty() {
        writeln!(out, "<details><summary>{} figures without a difference that is shown</summary>", others.len())?;
        rows(&others, out)?;
        writeln!(out, "</details>")?;
    }
    writeln!(out, "</section>")
}

fn is_shown(it: &Comparison) -> bool {
    matches!(it.compared.verdict, Some(Verdict::Lower | Verdict::Higher))
}

fn rows(comparisons: &[&Comparison], out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<table class=\"cards\"><thead><tr><th>malloc</th><th class=\"words\">figure</th><th>ratio</th><th>interval</th><th>detectable</th>\
         <th class=\"words\">verdict</th></tr></thead><tbody>"
    )?;
    for it in comparisons {
        let ratio = |ratio: Option<f64>| ratio.map_or_else(|| NOTHING.to_owned(), |ratio| format!("{ratio:.3}"));
        let interval = match (it.compared.low, it.compared.high) {
            (Some(low), Some(high)) => format!("{low:.3} to {high:.3}"),
            _ => NOTHING.to_owned(),
        };
        let verdict = match it.compared.verdict {
            Some(Verdict::Lower) => "<b>lower</b>",
            Some(Verdict::Higher) => "<b>higher</b>",
            Some(Verdict::NoDifferenceShown) => "no difference shown",
            None => "no verdict",
        };
        writeln!(
            out,
            "<tr><th>{}{}</th><td class=\"words\" data-label=\"figure\">{}</td><td data-label=\"ratio\">{}</td><td data-label=\"interval\">{interval}</td>\
             <td data-label=\"detectable\">{}</td><td class=\"words\" data-label=\"verdict\">{verdict}</td></tr>",
            Text(&it.malloc),
            place(it.thp.as_deref(), it.cpus.as_deref()),
            Text(&it.figure),
            ratio(it.compared.ratio),
            ratio(it.compared.detectable_ratio),
        )?;
    }
    writeln!(out, "</tbody></table>")
}

fn place(thp: Option<&str>, cpus: Option<&str>) -> String {
    let thp = thp.map(|thp| format!("huge pages {thp}"));
    let cpus = cpus.map(|cpus| format!("CPUs {cpus}"));
    let words: Vec<String> = thp.into_iter().chain(cpus).collect();
    if words.is_empty() { String::new() } else { format!("<small>{}</small>", Text(words.join(", "))) }
}

pub(super) fn cells(page: &AllocatorsPage<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<section id=\"cells\"><h2>Cells</h2>\n<p class=\"lead\">\"Kept\": memory at the end of the rest, less that before the burst. Arenas: the parts of the malloc's heap, at most.</p>\n\
         <table class=\"cards\"><thead><tr><th>malloc</th><th class=\"words\">who served</th><th>block</th><th>arenas</th><th>at the end</th><th>asked for</th>\
         <th>kept</th><th class=\"words\">came to</th></tr></thead><tbody>"
    )?;
    for cell in page.cells {
        let idle = cell.footprint.iter().rev().find(|it| it.footprint.mark == "idle").map(|it| &it.footprint);
        let bytes = |bytes: Option<u64>| bytes.map_or_else(|| NOTHING.to_owned(), |it| show::bytes(it as f64));
        let kept = cell.retained_bytes.map_or_else(|| NOTHING.to_owned(), |it| show::bytes(it as f64));
        writeln!(
            out,
            "<tr><th>{}{}</th><td class=\"words\" data-label=\"who served\">{}</td><td data-label=\"block\">{}</td><td data-label=\"arenas\">{}</td><td data-label=\"at the end\">{}</td>\
             <td data-label=\"asked for\">{}</td><td data-label=\"kept\">{kept}</td><td class=\"words\" data-label=\"came to\">{}</td></tr>",
            Text(&cell.malloc),
            place(cell.thp.as_deref(), cell.cpus.as_deref()),
            Text(cell.serving.as_deref().unwrap_or(NOTHING)),
            cell.block,
            cell.arenas.map_or_else(|| NOTHING.to_owned(), |count| count.to_string()),
            bytes(idle.and_then(|it| it.rss_bytes)),
            bytes(idle.and_then(|it| it.asked_bytes)),
            Text(came_to(cell)),
        )?;
    }
    writeln!(out, "</tbody></table>\n<details><summary>The loads of all cells</summary>")?;
    loads(page, out)?;
    writeln!(out, "</details></section>")
}

fn came_to(cell: &Cell) -> String {
    match (&cell.why, cell.as_asked) {
        (Some(why), _) => format!("{}: {why}", cell.state),
        (None, false) if cell.state == "done" && cell.not_in_force.is_empty() => {
            "not as asked: it is in no verdict".to_owned()
        }
        (None, false) if cell.state == "done" => {
            format!("not as asked ({}): it is in no verdict", cell.not_in_force.join(", "))
        }
        (None, _) => cell.state.clone(),
    }
}

fn loads(page: &AllocatorsPage<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<table class=\"cards\"><thead><tr><th>malloc</th><th>block</th><th class=\"words\">load</th><th>transactions/s</th><th>p50</th><th>p99</th>\
         <th>longest</th><th>CPU a query</th><th>page faults</th></tr></thead><tbody>"
    )?;
    for (cell, load) in page.cells.iter().flat_map(|cell| cell.loads.iter().map(move |load| (cell, load))) {
        let cpu = load.cpu_user_us_per_query.zip(load.cpu_system_us_per_query).map(|(user, system)| user + system);
        let faults = load.minor_faults.zip(load.major_faults).map(|(minor, major)| minor + major);
        let or_nothing = |text: Option<String>| text.unwrap_or_else(|| NOTHING.to_owned());
        writeln!(
            out,
            "<tr><th>{}{}</th><td data-label=\"block\">{}</td><td class=\"words\" data-label=\"load\">{}</td><td data-label=\"transactions/s\">{}</td>\
             <td data-label=\"p50\">{}</td><td data-label=\"p99\">{}</td><td data-label=\"longest\">{}</td><td data-label=\"CPU a query\">{}</td>\
             <td data-label=\"page faults\">{}</td></tr>",
            Text(&cell.malloc),
            place(cell.thp.as_deref(), cell.cpus.as_deref()),
            cell.block,
            Text(&load.arm),
            or_nothing(load.transactions_per_s.map(show::number)),
            show::micros(load.p50_us),
            show::micros(load.p99_us),
            show::micros(load.max_us),
            or_nothing(cpu.map(show::micros)),
            or_nothing(faults.map(show::count)),
        )?;
    }
    writeln!(out, "</tbody></table>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_was_not_as_asked_says_what_was_not() {
        let cell = |as_asked, not_in_force: &[&str]| {
            let not_in_force = not_in_force.iter().map(|what| (*what).to_owned()).collect();
            came_to(&Cell { as_asked, not_in_force, state: "done".into(), ..Cell::default() })
        };
        assert_eq!(cell(true, &[]), "done");
        assert_eq!(cell(false, &["malloc", "thp"]), "not as asked (malloc, thp): it is in no verdict");
        assert_eq!(cell(false, &[]), "not as asked: it is in no verdict");
    }
}
