// SPDX-License-Identifier: Apache-2.0
//! `article.figures`: the figures of an experiment that names an article, beside the figures that the article printed.

mod laws;
mod measured;

use super::figures::{ArticleFigure, ArticleFigures};
use super::{Finding, FindingEvidence, doubt};
use crate::summary::ArmSummary;
use evidence::Evidence;
use laws::{LAWS, LONGER_PAUSE};
use measured::Seen;
use units::counted;

/// The names of the figures that a run of this article may have.
pub fn figures_of_article(article: u32) -> Vec<&'static str> {
    LAWS.iter().filter(|law| law.article == article).map(|law| law.name).collect()
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
                because: (agrees == Some(false)).then(|| because(&seen, law.name)),
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

/// The measured figures, in words, as one sentence; only some of an article's figures have words.
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

/// A number with about three digits, for people.
fn number(value: f64) -> String {
    let decimals = match value.abs() {
        it if it == it.round() || it >= 100.0 => 0,
        it if it >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// The share of CPU time that is enough to change the figures, as in [`crate::busy::Busy::causes`].
const BUSY: f64 = 0.1;

/// Other facts in the recording that may explain why a law was broken: what speaks against this law, arms without a whole measurement, figures out of
/// their tolerance, and the host's other work. The reader has to decide whether one of them is the reason.
fn because(seen: &Seen<'_>, law: &str) -> String {
    let Seen { evidence, arms } = seen;
    let against = (law == LONGER_PAUSE).then(|| measured::no_longer_stall(seen)).flatten();
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
    let found: Vec<String> = against.into_iter().chain(broken).chain(off).chain(busy).collect();
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
