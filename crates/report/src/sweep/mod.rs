// SPDX-License-Identifier: Apache-2.0
//! The page of many cells: curves, a heat map, verdicts against the first setting, and every cell with a link to its own report.
//!
//! In: a [`SweepView`], plain data that the owner of a sweep fills in. Words and tables are in the HTML; the script draws the charts.

mod tables;

use crate::html::{Json, Text, head};
use serde::Serialize;
use serde_json::json;
use std::io::{self, Write};

const SWEEP_STYLE: &str = include_str!("../../assets/sweep.css");
const SWEEP: &str = include_str!("../../assets/sweep.js");

/// Many settings, each run many times.
#[derive(Debug, Clone, Default)]
pub struct SweepView {
    pub version: String,
    pub name: String,
    pub description: String,
    /// The first sentence is the headline.
    pub sentences: Vec<String>,
    pub warnings: Vec<String>,
    /// The keys that differ between settings, in the order in which they are shown.
    pub keys: Vec<String>,
    pub settings: Vec<SweepSetting>,
    pub cells: Vec<SweepCell>,
    /// The second setting compared with the first, figure by figure.
    pub verdicts: Vec<SweepVerdict>,
    /// The number of cells when the sweep is complete.
    pub planned: usize,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct SweepSetting {
    /// The value of each key; empty where the setting has none.
    pub values: Vec<String>,
    #[serde(skip)]
    pub done: usize,
    /// The outcomes of its cells that are no measurement: `out_of_memory 2x`.
    #[serde(skip)]
    pub outcomes: String,
}

#[derive(Debug, Clone, Default)]
pub struct SweepCell {
    pub id: String,
    /// Its place in [`SweepView::settings`].
    pub setting: usize,
    pub block: u32,
    /// In words: `measured`, `out_of_memory`, `failed`, `pending`.
    pub state: String,
    pub attempts: usize,
    pub elapsed_us: Option<u64>,
    /// The cell's own report, relative to the page.
    pub link: Option<String>,
    pub told: Vec<String>,
    pub figures: Vec<SweepFigure>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SweepFigure {
    pub arm: String,
    pub name: String,
    pub unit: String,
    pub value: f64,
}

/// One figure, compared between two settings.
#[derive(Debug, Clone)]
pub struct SweepVerdict {
    /// Places in [`SweepView::settings`].
    pub a: usize,
    pub b: usize,
    pub arm: String,
    pub figure: String,
    pub ratio: Option<f64>,
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// `lower`, `higher`, `no difference shown`, or the reason why there is no verdict.
    pub verdict: String,
    pub is_shown: bool,
    pub detectable_ratio: Option<f64>,
}

/// Writes the whole page.
///
/// # Errors
/// The errors of `out`.
pub fn write_sweep_html(view: &SweepView, out: &mut impl Write) -> io::Result<()> {
    head(&view.version, &view.name, SWEEP_STYLE, out)?;
    writeln!(
        out,
        "<header class=\"top\"><div class=\"bar\"><span class=\"mark\">wringer</span><span class=\"name\">{}</span>\
         <span class=\"meta\"><span>{} settings</span> · <span>{} cells</span></span></div>\n\
         <nav aria-label=\"Sections\"><a href=\"#curves\">Curves</a><a href=\"#settings\">Settings</a><a href=\"#verdicts\">Verdicts</a>\
         <a href=\"#cells\">Cells</a></nav></header>\n<main>",
        Text(&view.name),
        view.settings.len(),
        view.planned,
    )?;
    tables::verdict(view, out)?;
    writeln!(
        out,
        "<section id=\"curves\"><h2>Curves</h2>\n<p class=\"lead\">Each point is one cell, and leads to its run; the line goes through the typical values \
         (geometric means).</p>\n<figure><figcaption><h3 class=\"what\"></h3><span class=\"choices\"></span></figcaption>\
         <div class=\"legend\"></div><div class=\"plot\"></div></figure>\n<figure hidden><figcaption><h3 class=\"what\"></h3>\
         <span class=\"choices\"></span></figcaption><div class=\"plot\"></div></figure>\n<noscript><p class=\"warning\">The curves need \
         JavaScript. The tables below have the same numbers.</p></noscript></section>"
    )?;
    tables::settings(view, out)?;
    tables::verdicts(view, out)?;
    tables::cells(view, out)?;
    writeln!(
        out,
        "</main>\n<footer><p>Written by wringer {} from <code>sweep.json</code>, which has every number. This file needs no network.</p></footer>",
        Text(&view.version)
    )?;
    writeln!(out, "<script>\n\"use strict\";\nconst DATA = {};\n{SWEEP}</script>\n</body>\n</html>", Json(&data(view)))
}

/// The data that the script draws: each figure once, each cell as a row of numbers.
fn data(view: &SweepView) -> serde_json::Value {
    let mut figures: Vec<(&str, &str, &str)> = Vec::new();
    let mut points = Vec::new();
    let mut links = Vec::new();
    for cell in &view.cells {
        links.push(json!([cell.link, cell.block, cell.id]));
        for figure in &cell.figures {
            let key = (figure.arm.as_str(), figure.name.as_str(), figure.unit.as_str());
            let place = figures.iter().position(|it| *it == key).unwrap_or_else(|| {
                figures.push(key);
                figures.len() - 1
            });
            points.push(json!([cell.setting, place, links.len() - 1, rounded(figure.value)]));
        }
    }
    json!({"keys": view.keys, "settings": view.settings, "figures": figures, "cells": links, "points": points})
}

/// Rounded to six digits: more digits are never shown.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}
