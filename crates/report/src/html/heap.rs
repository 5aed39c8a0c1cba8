// SPDX-License-Identifier: Apache-2.0
//! The page of heap profiles: the heap over time in layers, a flame graph, and the functions that grew.

use super::escape::{Json, Text};
use super::section::figure;
use super::{CHART, MEMORY_STYLE, head};
use crate::heap_page::{HeapPage, HeapProfile, heap_without_growth, shortened};
use crate::show;
use heap::{Growth, TimeUnit};
use serde_json::{Value, json};
use std::io::{self, Write};
use units::counted;

const STYLE: &str = include_str!("../../assets/heap.css");
const SCRIPT: &str = include_str!("../../assets/heap.js");
/// Rows of the table; `wringer heap show` prints all.
const MOST_ROWS: usize = 30;
/// The most callers of a function in the table.
const MOST_CALLERS: usize = 12;

const OVER_TIME_HELP: &str = "<p>Each layer is what one <b>function</b> held, at the snapshots that tell it: what it has allocated itself, and what functions that \
     only pass on (<code>my_malloc</code>, <code>palloc</code>, <code>operator new</code>) have allocated for it. The largest ones have a layer of their own. \
     What the profiler sums up without a name is <b>of nobody who is named</b>. The line is the whole heap, at each snapshot.</p>";

const FLAME_HELP: &str = "<p>Each box is a function, below the one that <b>called</b> it, as wide as what it and all below it had allocated and not freed. A click makes a box as wide \
     as the page; <b>Escape</b>, or the button, shows all. What is below a thousandth of the heap is left out.</p>";

const GROWTH_HELP: &str = "<p>Functions are the same by their names, at whatever address. <b>At least</b> and <b>at most</b> take into account what the profiler hides below its \
     threshold, which may have been of any function, and the errors of a sample. A function that the profile names at one of the two times only was <b>below the threshold</b> at the other, or <b>not in the sample</b>; where the two bounds leave open whether it \
     grew, it stands last. Functions that neither grew nor shrank are only counted. The callers are those of the largest path. <code>wringer heap show FILE</code> has all functions; \
     <code>wringer doc heap</code> says more.</p>";

/// Writes the whole page.
///
/// # Errors
/// The errors of `out`.
pub fn write_heap_html(page: &HeapPage, out: &mut impl Write) -> io::Result<()> {
    let title = page.profiles.first().map_or_else(|| "Heap profiles".to_owned(), HeapProfile::headline);
    head(&page.version, &title, &format!("{MEMORY_STYLE}{STYLE}"), out)?;
    let links = page.profiles.iter().enumerate().filter(|_| page.profiles.len() > 1);
    let links: String =
        links.map(|(nth, it)| format!("<a href=\"#profile-{nth}\">{}</a>", Text(file_name(&it.name)))).collect();
    writeln!(
        out,
        "<header class=\"top\"><div class=\"bar\"><span class=\"mark\">wringer</span><span class=\"name\">heap profiles</span></div>\n\
         <nav aria-label=\"Profiles\">{links}</nav></header>\n<main>"
    )?;
    page.profiles.iter().enumerate().try_for_each(|(nth, it)| profile(nth, it, out))?;
    writeln!(
        out,
        "</main>\n<footer><p>Written by wringer {}. This file needs no network.</p></footer>",
        Text(&page.version)
    )?;
    let data: Vec<Value> = page.profiles.iter().map(data).collect();
    writeln!(
        out,
        "<script>\n\"use strict\";\nconst DATA = {};\n{CHART}\n{SCRIPT}</script>\n</body>\n</html>",
        Json(&json!({ "profiles": data }))
    )
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn profile(nth: usize, profile: &HeapProfile, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "<section class=\"verdict\" id=\"profile-{nth}\">")?;
    let of = profile.command.as_deref().map_or_else(String::new, |it| format!(" of <code>{}</code>", Text(it)));
    let name = Text(&profile.name);
    writeln!(out, "<p class=\"question\">{name}, a profile by {}{of}</p>", Text(profile.format))?;
    writeln!(out, "<h1>{}</h1>", Text(profile.headline()))?;
    if let Some((at, bytes)) = profile.totals.iter().rev().max_by_key(|(_, bytes)| *bytes) {
        let (largest, when) = (show::bytes(*bytes as f64), profile.time(*at));
        writeln!(out, "<p class=\"also\">The heap was largest at {}: {largest}.</p>", Text(when))?;
    }
    for note in &profile.notes {
        writeln!(out, "<p class=\"warning\" role=\"note\">{}</p>", Text(note))?;
    }
    writeln!(out, "</section>\n<section>")?;
    if profile.totals.len() > 1 {
        figure(out, &format!("heap-{nth}"), "Who held the heap, over time", OVER_TIME_HELP)?;
    }
    if !profile.flames.is_empty() {
        let title = format!("Who called whom, at {}", Text(&profile.flames_of));
        figure(out, &format!("flame-{nth}"), &title, FLAME_HELP)?;
    }
    writeln!(out, "</section>")?;
    parts(profile, out)?;
    growth(profile, out)
}

fn parts(profile: &HeapProfile, out: &mut impl Write) -> io::Result<()> {
    let Some(largest) = profile.largest() else { return Ok(()) };
    let total = largest.holdings.total_bytes.max(1) as f64;
    writeln!(
        out,
        "<section>\n<h2>Parts of the server, at {}</h2>\n<div class=\"parts\">",
        Text(profile.time(largest.at))
    )?;
    let named = largest.holdings.subsystems().into_iter();
    let named = named.map(|it| (it.subsystem.unwrap_or("functions whose names tell no part"), it.bytes));
    let hidden = Some(("of nobody who is named", largest.holdings.hidden_bytes)).filter(|(_, bytes)| *bytes > 0);
    for (part, bytes) in named.chain(hidden) {
        let share = 100.0 * bytes as f64 / total;
        writeln!(
            out,
            "<div><span>{}</span><span class=\"track\"><span class=\"fill f0\" style=\"width:{:.2}%\"></span></span><span>{}, {share:.1} %</span></div>",
            Text(part),
            share.min(100.0),
            show::bytes(bytes as f64),
        )?;
    }
    writeln!(out, "</div>\n</section>")
}

fn growth(profile: &HeapProfile, out: &mut impl Write) -> io::Result<()> {
    let (Some(first), Some(last)) = (profile.held.first(), profile.held.last()) else { return Ok(()) };
    let span = format!("from {} to {}", profile.time(first.at), profile.time(last.at));
    let title =
        if profile.held.len() > 1 { format!("What grew, {span}") } else { "What each function holds".to_owned() };
    writeln!(out, "<section>\n<h2>{}</h2>", Text(title))?;
    let changed = heap::changed(&profile.growth);
    if !changed.is_empty() {
        rows(&changed, out)?;
    }
    if let Some(others) = heap_without_growth(&profile.growth) {
        writeln!(out, "<p class=\"lead\">{others}.</p>")?;
    }
    writeln!(out, "<details class=\"help\"><summary>How to read this</summary>{GROWTH_HELP}</details>\n</section>")
}

fn rows(grown: &[&Growth], out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "<table class=\"cards\"><thead><tr><th scope=\"col\">Function</th><th scope=\"col\">Growth</th><th scope=\"col\">At least</th>\
         <th scope=\"col\">At most</th><th scope=\"col\">Before</th><th scope=\"col\">After</th></tr></thead>\n<tbody>"
    )?;
    grown.iter().take(MOST_ROWS).try_for_each(|it| row(it, out))?;
    writeln!(out, "</tbody></table>")?;
    let more = grown.len().saturating_sub(MOST_ROWS) as u64;
    if more > 0 {
        writeln!(out, "<p class=\"lead\">{} grew less, shrank, or may have.</p>", counted(more, "more function"))?;
    }
    Ok(())
}

fn row(growth: &Growth, out: &mut impl Write) -> io::Result<()> {
    let signed = |bytes: i128| format!("{}{}", if bytes > 0 { "+" } else { "" }, show::bytes(bytes as f64));
    let size = |bytes: Option<u64>| bytes.map_or_else(|| growth.absent().to_owned(), |it| show::bytes(it as f64));
    let part = growth.subsystem.map_or_else(String::new, |part| format!("<small>{}</small>", Text(part)));
    let callers = growth.path.iter().skip(1).take(MOST_CALLERS);
    let callers: String = callers.map(|it| format!("<li>{}</li>", Text(shortened(it)))).collect();
    let callers = if callers.is_empty() {
        String::new()
    } else {
        format!("<details><summary>callers</summary><ol>{callers}</ol></details>")
    };
    writeln!(
        out,
        "<tr><th scope=\"row\">{}{part}{callers}</th><td data-label=\"Growth\">{}</td><td data-label=\"At least\">{}</td>\
         <td data-label=\"At most\">{}</td><td data-label=\"Before\">{}</td><td data-label=\"After\">{}</td></tr>",
        Text(shortened(&growth.function)),
        growth.growth_bytes.map_or_else(|| "not known".to_owned(), signed),
        signed(growth.low_bytes),
        signed(growth.high_bytes),
        size(growth.before_bytes),
        size(growth.after_bytes),
    )
}

fn data(profile: &HeapProfile) -> Value {
    let (unit, title, factor) = match profile.time_unit {
        None => ("count", "snapshots", 1.0),
        Some(TimeUnit::Milliseconds) => ("us", "since the start", 1000.0),
        Some(TimeUnit::Instructions) => ("count", "instructions", 1.0),
        Some(TimeUnit::Bytes) => ("bytes", "allocated and freed", 1.0),
    };
    let at = |time: u64| time as f64 * factor;
    let layers = profile.layers();
    let layers = layers.iter().map(|it| json!({ "label": it.label, "colour": it.colour, "v": it.bytes }));
    json!({
        "x_unit": unit,
        "x_title": title,
        "totals": profile.totals.iter().map(|(time, bytes)| json!([at(*time), bytes])).collect::<Vec<_>>(),
        "t": profile.held.iter().map(|it| at(it.at)).collect::<Vec<_>>(),
        "layers": layers.collect::<Vec<_>>(),
        "flames": profile.flames.iter().map(|it| json!([it.depth, shortened(&it.label), it.bytes])).collect::<Vec<_>>(),
    })
}
