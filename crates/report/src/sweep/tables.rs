// SPDX-License-Identifier: Apache-2.0
//! The words and tables of the page.

use super::{SweepCell, SweepView};
use crate::html::Text;
use crate::show;
use std::io::{self, Write};

/// The figures in the table of settings; the others are among the curves.
const SHOWN: [&str; 3] = ["throughput", "p50", "p99"];
const SENTENCES: usize = 8;

pub(super) fn verdict(view: &SweepView, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<section class=\"verdict\">")?;
    if !view.description.is_empty() {
        writeln!(out, "<p class=\"question\">{}</p>", Text(&view.description))?;
    }
    let headline = view.sentences.first().map_or("Nothing was measured yet.", String::as_str);
    writeln!(out, "<h1>{}</h1>", Text(headline))?;
    for sentence in view.sentences.iter().skip(1).take(SENTENCES) {
        writeln!(out, "<p class=\"also\">{}</p>", Text(sentence))?;
    }
    for warning in &view.warnings {
        writeln!(out, "<p class=\"warning\" role=\"note\">{}</p>", Text(warning))?;
    }
    writeln!(out, "</section>")
}

pub(super) fn settings(view: &SweepView, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<section id=\"settings\"><h2>Settings</h2>\n<p class=\"lead\">Typical values of the cells that are done, from the lowest to the highest.</p>"
    )?;
    for arm in arms(view) {
        if arms(view).len() > 1 {
            writeln!(out, "<h3>Arm {}</h3>", Text(arm))?;
        }
        write!(out, "<table class=\"cards\"><thead><tr><th>setting</th>")?;
        SHOWN.iter().try_for_each(|name| write!(out, "<th>{name}</th>"))?;
        writeln!(out, "<th>cells</th><th class=\"words\"></th></tr></thead><tbody>")?;
        for (place, setting) in view.settings.iter().enumerate() {
            write!(out, "<tr><th>{}</th>", Text(label(view, place)))?;
            for name in SHOWN {
                write!(out, "<td data-label=\"{name}\">{}</td>", typical(view, place, arm, name))?;
            }
            writeln!(
                out,
                "<td data-label=\"cells\">{}</td><td class=\"words\">{}</td></tr>",
                setting.done,
                Text(&setting.outcomes)
            )?;
        }
        writeln!(out, "</tbody></table>")?;
    }
    writeln!(out, "</section>")
}

pub(super) fn verdicts(view: &SweepView, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<section id=\"verdicts\"><h2>Verdicts</h2>\n<p class=\"lead\">Each setting beside the first one, within blocks. All intervals of one pair hold \
         together with 95 %. \"Detectable\": so large a difference would have been shown in 9 of 10 such comparisons.</p>"
    )?;
    let of_first: Vec<_> = view.verdicts.iter().filter(|it| it.a == 0 && SHOWN.contains(&it.figure.as_str())).collect();
    if of_first.is_empty() {
        return writeln!(out, "<p>There is none yet.</p></section>");
    }
    writeln!(
        out,
        "<table class=\"cards\"><thead><tr><th>setting</th><th class=\"words\">figure</th><th>ratio</th><th>interval</th><th>detectable</th>\
         <th class=\"words\">verdict</th></tr></thead><tbody>"
    )?;
    let several = arms(view).len() > 1;
    for one in of_first {
        let ratio = |it: Option<f64>| it.map_or_else(|| "–".to_owned(), show::ratio);
        let interval = match (one.low, one.high) {
            (Some(low), Some(high)) => format!("{} to {}", show::ratio(low), show::ratio(high)),
            _ => "–".to_owned(),
        };
        let figure = if several { format!("{}, {}", one.figure, one.arm) } else { one.figure.clone() };
        writeln!(
            out,
            "<tr><th>{}</th><td class=\"words\" data-label=\"figure\">{}</td><td data-label=\"ratio\">{}</td><td data-label=\"interval\">{}</td>\
             <td data-label=\"detectable\">{}</td><td class=\"words\" data-label=\"verdict\">{}{}{}</td></tr>",
            Text(label(view, one.b)),
            Text(figure),
            Text(ratio(one.ratio)),
            Text(interval),
            Text(ratio(one.detectable_ratio)),
            if one.is_shown { "<b>" } else { "" },
            Text(&one.verdict),
            if one.is_shown { "</b>" } else { "" },
        )?;
    }
    writeln!(out, "</tbody></table></section>")
}

pub(super) fn cells(view: &SweepView, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<section id=\"cells\"><h2>Cells</h2>\n<details><summary>All {} cells, in the order of the blocks</summary>\n<table class=\"cards\"><thead><tr><th>cell</th>\
         <th>block</th><th class=\"words\">setting</th><th class=\"words\">came to</th><th>throughput</th><th>attempts</th><th>time</th></tr></thead><tbody>",
        view.cells.len()
    )?;
    for cell in &view.cells {
        let id = match &cell.link {
            Some(link) => format!("<a href=\"{}\">{}</a>", Text(link), Text(&cell.id)),
            None => Text(&cell.id).to_string(),
        };
        let mut state = cell.state.clone();
        cell.told.iter().for_each(|told| state.push_str(&format!("; {told}")));
        writeln!(
            out,
            "<tr><th>{id}</th><td data-label=\"block\">{}</td><td class=\"words\" data-label=\"setting\">{}</td>\
             <td class=\"words\" data-label=\"came to\">{}</td><td data-label=\"throughput\">{}</td><td data-label=\"attempts\">{}</td>\
             <td data-label=\"time\">{}</td></tr>",
            cell.block,
            Text(label(view, cell.setting)),
            Text(state),
            throughput(cell),
            cell.attempts,
            cell.elapsed_us.map(|us| show::micros(us as f64)).unwrap_or_default(),
        )?;
    }
    writeln!(out, "</tbody></table></details></section>")
}

fn arms(view: &SweepView) -> Vec<&str> {
    let mut arms: Vec<&str> = Vec::new();
    for figure in view.cells.iter().flat_map(|cell| &cell.figures) {
        if !arms.contains(&figure.arm.as_str()) {
            arms.push(&figure.arm);
        }
    }
    arms
}

/// `threads=8 server_ram=1G`: only the last word of each key.
fn label(view: &SweepView, setting: usize) -> String {
    let Some(setting) = view.settings.get(setting) else { return String::new() };
    let last = |key: &str| key.rsplit('.').next().unwrap_or(key).to_owned();
    let each = view.keys.iter().zip(&setting.values).map(|(key, value)| format!("{}={value}", last(key)));
    let text = each.collect::<Vec<_>>().join(" ");
    if text.is_empty() { "the only setting".into() } else { text }
}

fn throughput(cell: &SweepCell) -> String {
    let found = cell.figures.iter().find(|figure| figure.name == "throughput");
    found.map(|figure| shown(figure.value, &figure.unit)).unwrap_or_default()
}

fn typical(view: &SweepView, setting: usize, arm: &str, name: &str) -> String {
    let of = view.cells.iter().filter(|cell| cell.setting == setting).flat_map(|cell| &cell.figures);
    let figures: Vec<_> = of.filter(|figure| figure.arm == arm && figure.name == name).collect();
    let Some(first) = figures.first() else { return String::new() };
    let values: Vec<f64> = figures.iter().map(|figure| figure.value).collect();
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let typical = verdict::typical(&values);
    let unit = &first.unit;
    format!("{} <small>{} to {}</small>", shown(typical, unit), shown(low, unit), shown(high, unit))
}

fn shown(value: f64, unit: &str) -> String {
    match unit {
        "us" => show::micros(value),
        "transactions/s" if value >= 100.0 => format!("{value:.0}/s"),
        "transactions/s" => format!("{value:.2}/s"),
        _ => format!("{value:.3}"),
    }
}
