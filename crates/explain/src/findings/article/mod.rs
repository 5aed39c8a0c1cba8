// SPDX-License-Identifier: Apache-2.0
//! `article.figures`: an experiment that says which article it reproduces, beside what the article printed.

mod laws;
mod measured;

use super::{Finding, FindingEvidence, doubt};
use crate::summary::ArmSummary;
use evidence::Evidence;
use laws::LAWS;
use measured::Seen;
use serde::{Deserialize, Serialize};
use units::counted;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArticleFigures {
    /// From 1 to 5, as `docs/articles.md` counts them.
    pub article: u32,
    pub title: String,
    /// What was measured, in words: one sentence. Empty: none of the figures that are told so was measured.
    #[serde(default)]
    pub told: String,
    pub figures: Vec<ArticleFigure>,
}

/// One figure of the article, and the same of this run. They are not compared with each other, for the machines differ: both are held
/// to what should be so at any scale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArticleFigure {
    pub name: String,
    /// As the article printed it, or computed from what it printed. `None`: it prints no such figure.
    pub article: Option<f64>,
    /// What the article printed, in words.
    #[serde(default)]
    pub article_from: Option<String>,
    /// `None`: this run has not measured it.
    pub ours: Option<f64>,
    pub unit: String,
    /// What should be so on any machine. `None`: there is no law, the two figures stand beside each other.
    pub law: Option<String>,
    /// The bounds of the law, both included. `None`: on this side there is none.
    #[serde(default)]
    pub law_low: Option<f64>,
    #[serde(default)]
    pub law_high: Option<f64>,
    /// Whether `ours` keeps the law; `None`: it was not measured, or there is no law.
    pub agrees: Option<bool>,
    /// Where `agrees` is false: what else the recording has that speaks of it, or that it has nothing.
    pub because: Option<String>,
    /// What `ours` was computed from.
    pub from: Option<String>,
}

/// `None`: the experiment names no article, or no figure of that article was measured.
pub(super) fn finding(evidence: &Evidence, arms: &[ArmSummary]) -> Option<Finding> {
    let article = named(&evidence.experiment)?;
    let seen = Seen { evidence, arms };
    let laws = LAWS.iter().filter(|law| law.article == article);
    let figures: Vec<ArticleFigure> = laws
        .map(|law| {
            let ours = (law.of)(&seen);
            let keeps =
                |(value, _): &(f64, String)| Some((law.holds.as_ref()?.low..=law.holds.as_ref()?.high).contains(value));
            let agrees = ours.as_ref().and_then(keeps);
            ArticleFigure {
                name: law.name.to_owned(),
                article: law.printed,
                article_from: law.source.map(str::to_owned),
                ours: ours.as_ref().map(|(value, _)| *value),
                unit: law.unit.to_owned(),
                law: law.holds.as_ref().map(|holds| holds.says.to_owned()),
                law_low: law.holds.as_ref().filter(|holds| holds.low > 0.0 || holds.high == 0.0).map(|holds| holds.low),
                law_high: law.holds.as_ref().map(|holds| holds.high).filter(|high| high.is_finite()),
                agrees,
                because: (agrees == Some(false)).then(|| because(evidence, arms)),
                from: ours.map(|(_, from)| from),
            }
        })
        .collect();
    let missing = figures.iter().filter(|figure| figure.ours.is_none()).count();
    if missing == figures.len() {
        return None;
    }
    let held: Vec<bool> = figures.iter().filter_map(|figure| figure.agrees).collect();
    let against: Vec<&str> =
        figures.iter().filter(|figure| figure.agrees == Some(false)).map(|figure| figure.name.as_str()).collect();
    let agree = held.iter().filter(|agrees| **agrees).count();
    let title = laws::title(article);
    let told = told(&figures);
    let space = if told.is_empty() { "" } else { " " };
    let mut statement = format!(
        "{told}{space}Article {article}, “{title}”: what must be so on any machine is so here for {agree} of {}",
        counted(held.len() as u64, "figure")
    );
    if !against.is_empty() {
        statement.push_str(&format!("; not so: {}", against.join(", ")));
    }
    statement.push('.');
    let mut doubts = Vec::new();
    if missing > 0 {
        let text = format!("{missing} of the article's figures were not measured by this run");
        let hint = "another experiment of the same article may have them, or this host does not allow a squeeze";
        doubts.push(doubt("article.not_measured", text, Some(hint)));
    }
    let figures = ArticleFigures { article, title: title.to_owned(), told, figures };
    Some(Finding { arm: None, statement, evidence: FindingEvidence::ArticleFigures(figures), doubts })
}

/// What was measured, in words, as one sentence; of an article's figures not all are told so.
fn told(figures: &[ArticleFigure]) -> String {
    let sentence = |figure: &ArticleFigure| {
        let law = LAWS.iter().find(|law| law.name == figure.name && !law.tells.is_empty())?;
        Some(law.tells.replace("{}", &number(figure.ours?)))
    };
    let mut all = figures.iter().filter_map(sentence);
    let Some(first) = all.next() else { return String::new() };
    let first = first[..1].to_uppercase() + &first[1..];
    all.fold(first, |told, next| format!("{told}; {}", next[..1].to_lowercase() + &next[1..])) + "."
}

/// Three digits, as people read them.
fn number(value: f64) -> String {
    let decimals = match value.abs() {
        it if it == it.round() || it >= 100.0 => 0,
        it if it >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// Of the CPU time, what is enough to be in the figures: as [`crate::busy::Busy::causes`] has it.
const BUSY: f64 = 0.1;

/// What else in the recording speaks of a law that was not kept: arms without a whole measurement, figures out of their tolerance, and the host's
/// other work. Whether one of them is the reason is for the reader.
fn because(evidence: &Evidence, arms: &[ArmSummary]) -> String {
    let broken = evidence.arms.iter().filter_map(|arm| {
        let why = arm.broke_off.as_ref()?;
        Some(format!("arm “{}” has no whole measurement ({why})", arm.name))
    });
    let off = evidence.measured.iter().filter(|it| it.within_tolerance == Some(false)).map(|it| match &it.arm {
        Some(arm) => format!("{} in arm “{arm}” is out of its tolerance", it.what),
        None => format!("{} is out of its tolerance", it.what),
    });
    let others = |arm: &ArmSummary| Some((arm.busy?.others_ratio, arm.name.clone()));
    let busiest = arms.iter().filter_map(others).max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(share, _)| *share > BUSY);
    let busy = busiest.map(|(share, arm)| {
        format!("other programs used {:.0} % of the CPU time in arm “{arm}”, the worst of all", 100.0 * share)
    });
    let found: Vec<String> = broken.chain(off).chain(busy).collect();
    match found.as_slice() {
        [] => "the recording has no evidence of the reason".to_owned(),
        found => format!("not shown to be the reason, but in the recording: {}", found.join("; ")),
    }
}

/// The key `article` of the experiment's file.
fn named(experiment: &str) -> Option<u32> {
    let table: toml::Table = experiment.parse().ok()?;
    table.get("article")?.as_integer().and_then(|number| u32::try_from(number).ok())
}
