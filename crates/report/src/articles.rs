// SPDX-License-Identifier: Apache-2.0
//! The page about the five articles: the figures that each article printed, and the figures that runs of its experiments measured.

use crate::markdown::safe;
use crate::{Context, redact, show, verdict};
use explain::{ArticleFigure, FindingEvidence};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The page's content about one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reproduction {
    /// The experiment's name.
    pub name: String,
    pub description: String,
    /// The article's number, from 1 to 5.
    pub article: u32,
    pub title: String,
    /// RFC 3339.
    pub started: String,
    pub elapsed_us: u64,
    /// Wringer's version.
    pub version: String,
    /// `MariaDB 10.11.19`, as the server says it.
    pub server: String,
    /// CPUs, RAM, kernel.
    pub host: String,
    /// The verdict, and what makes it doubtful.
    pub sentences: Vec<String>,
    pub warnings: Vec<String>,
    pub figures: Vec<ArticleFigure>,
    pub conclusions: Vec<Conclusion>,
}

/// An assertion of the experiment's file, and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conclusion {
    pub arm: String,
    pub assertion: String,
    /// `31.250 ms`, `812.4/s`.
    pub measured: String,
    pub passed: bool,
}

impl Reproduction {
    /// `None`: the run measured no figure of an article.
    pub fn of(context: &Context<'_>) -> Option<Self> {
        let told = context.findings.iter().find_map(|finding| match &finding.evidence {
            FindingEvidence::ArticleFigures(told) => Some(told),
            _ => None,
        })?;
        let (host, server) = (&context.conditions.host, &context.conditions.server);
        let of_arm = |view: &crate::ArmView<'_>| {
            let arm = view.arm.name.clone();
            let of = move |verdict: &evidence::Verdict| Conclusion {
                arm: arm.clone(),
                assertion: verdict.assertion.clone(),
                measured: verdict.measured_text(),
                passed: verdict.passed,
            };
            view.arm.verdicts.iter().map(of).collect::<Vec<_>>()
        };
        let masked = |sentences: Vec<String>| sentences.iter().map(|text| redact::text(text)).collect();
        Some(Self {
            name: context.name.clone(),
            description: context.description.clone(),
            article: told.article,
            title: told.title.clone(),
            started: context.evidence.started.clone(),
            elapsed_us: context.evidence.elapsed_us,
            version: context.conditions.tool.version.clone(),
            server: format!("{} {}", server.flavour, server.version),
            host: format!("{} CPUs, {}, Linux {}", host.cpus, show::bytes(host.mem_total_bytes as f64), host.kernel),
            sentences: masked(verdict::sentences(context)),
            warnings: masked(verdict::warnings(context)),
            figures: told.figures.clone(),
            conclusions: context.arms.iter().flat_map(of_arm).collect(),
        })
    }
}

const HEAD: &str = "# The five articles, measured again

Wringer began with five articles on servers under pressure. Each has experiments in `experiments/` that measure its figures again, each with one command. This page has what each article printed beside
what these runs measured. It is made from their recordings by `wringer report --articles FOLDER...`. These commands make the same page for your own machine:

    for name in 1-less-ram 2-slow-disk 3-memory 4-annex-3 4-annex-5 5-connections 5-connections-mysql 5-connections-postgresql 5-huge-pages; do
      wringer run experiments/article-$name.toml --to out/$name
    done
    wringer report --articles out/* --gallery out/gallery --to out/articles.md

How to read the tables:

- *Article* is what the article printed, or follows by a division from it; *ours* is the same of this run. They are not compared with each other: another machine, another size of data.
- Both are held to a *law*, which should be so on any machine, with the reason of its bounds. Where nothing is so everywhere, there is none.
- A *conclusion* is an assertion in the experiment's file, at the scale of this machine. `wringer run` ends with exit code 1 where one fails.
- What was *not reproduced* says what else the recording has that may be why; that is evidence, and not shown to be the reason.
";

/// The page, in Markdown. `gallery`: the place of the runs' reports, relative to the page, each under its run's name; `None`: the page has no links
/// to reports.
pub fn articles(runs: &[Reproduction], gallery: Option<&str>) -> String {
    let mut page = HEAD.to_owned();
    let mut of_article: BTreeMap<u32, Vec<&Reproduction>> = BTreeMap::new();
    runs.iter().for_each(|run| of_article.entry(run.article).or_default().push(run));
    for (number, runs) in of_article {
        let _ = writeln!(page, "\n## {number}. {}", safe(&runs[0].title));
        for run in &runs {
            one(&mut page, run, gallery);
        }
        not_measured(&mut page, &runs);
    }
    page
}

fn one(page: &mut String, run: &Reproduction, gallery: Option<&str>) {
    let _ = writeln!(page, "\n### `{}`\n\n{}.", run.name, safe(run.description.trim_end_matches('.')));
    let report =
        gallery.map_or_else(String::new, |folder| format!(" Its report: [{0}.html]({folder}/{0}.html).", run.name));
    let (took, when) = (show::micros(run.elapsed_us as f64), show::date(&run.started));
    let _ = writeln!(
        page,
        "`wringer run experiments/{}.toml`, {took} on {when}: {}, on {}, Wringer {}.{report}\n",
        run.name,
        safe(&run.server),
        safe(&run.host),
        safe(&run.version)
    );
    for sentence in &run.sentences {
        let _ = writeln!(page, "- {}", safe(sentence));
    }
    for warning in &run.warnings {
        let _ = writeln!(page, "- Doubt: {}", safe(warning));
    }
    figures(page, run);
    conclusions(page, run);
}

fn figures(page: &mut String, run: &Reproduction) {
    let measured: Vec<_> = run.figures.iter().filter(|figure| figure.ours.is_some()).collect();
    let _ =
        writeln!(page, "\n| figure | article | ours | unit | law | agrees |\n| --- | ---: | ---: | --- | --- | --- |");
    for figure in &measured {
        let article = match (figure.article, &figure.article_from) {
            (Some(value), Some(from)) => format!("{} ({})", show::number(value), safe(from)),
            (Some(value), None) => show::number(value),
            (None, _) => show::NOTHING.to_owned(),
        };
        let law =
            figure.law.as_ref().map_or(show::NOTHING.to_owned(), |says| format!("{}: {}", bounds(figure), safe(says)));
        let agrees = match figure.agrees {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => show::NOTHING,
        };
        let ours = show::or_nothing(figure.ours, show::number);
        let _ = writeln!(
            page,
            "| {} | {article} | {ours} | {} | {law} | {agrees} |",
            safe(&figure.name),
            safe(&figure.unit)
        );
    }
    let _ = writeln!(page, "\nComputed from:\n");
    for figure in &measured {
        let _ = writeln!(page, "- {}: {}", safe(&figure.name), safe(figure.from.as_deref().unwrap_or(show::NOTHING)));
    }
    for figure in measured.iter().filter(|figure| figure.agrees == Some(false)) {
        let because = figure.because.as_deref().unwrap_or(show::NOTHING);
        let _ = writeln!(page, "\n**Not reproduced: {}.** Because: {}.", safe(&figure.name), safe(because));
    }
}

/// The bounds of the law, in words.
pub(crate) fn bounds(figure: &ArticleFigure) -> String {
    match (figure.law_low, figure.law_high) {
        (Some(low), Some(high)) if low == high => format!("exactly {}", show::number(low)),
        (Some(low), Some(high)) => format!("{} to {}", show::number(low), show::number(high)),
        (Some(low), None) => format!("{} or more", show::number(low)),
        (None, Some(high)) => format!("{} or less", show::number(high)),
        (None, None) => "any".to_owned(),
    }
}

fn conclusions(page: &mut String, run: &Reproduction) {
    if run.conclusions.is_empty() {
        return;
    }
    let _ = writeln!(page, "\n| conclusion | arm | measured | holds |\n| --- | --- | ---: | --- |");
    for Conclusion { arm, assertion, measured, passed } in &run.conclusions {
        let holds = if *passed { "yes" } else { "**no**" };
        let _ = writeln!(page, "| `{assertion}` | {} | {measured} | {holds} |", safe(arm));
    }
}

/// The figures that none of the article's runs has measured.
fn not_measured(page: &mut String, runs: &[&Reproduction]) {
    let has = |name: &str| {
        runs.iter().any(|run| run.figures.iter().any(|figure| figure.name == name && figure.ours.is_some()))
    };
    let lacking: Vec<String> =
        runs[0].figures.iter().filter(|figure| !has(&figure.name)).map(|figure| safe(&figure.name)).collect();
    if !lacking.is_empty() {
        let _ = writeln!(page, "\nNot measured by these runs: {}.", lacking.join("; "));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn figure(name: &str, ours: Option<f64>, agrees: Option<bool>) -> ArticleFigure {
        ArticleFigure {
            name: name.into(),
            article: Some(87.9),
            article_from: Some("5106.17 and 58.10 queries/s".into()),
            ours,
            unit: "ratio".into(),
            law: agrees.map(|_| "it gets slower".into()),
            law_low: agrees.map(|_| 1.5),
            law_high: None,
            agrees,
            because: (agrees == Some(false)).then(|| "the recording has no evidence of the reason".into()),
            from: ours.map(|_| "arm “a”: 2, arm “b”: 1".into()),
        }
    }

    fn run(name: &str, article: u32, figures: Vec<ArticleFigure>) -> Reproduction {
        Reproduction {
            name: name.into(),
            description: "What it shows".into(),
            article,
            title: "Its title".into(),
            started: "2026-11-24T14:00:00Z".into(),
            elapsed_us: 90_000_000,
            version: "0.1.0".into(),
            server: "mariadb 10.11".into(),
            host: "2 CPUs".into(),
            sentences: vec!["b is slower than a".into()],
            warnings: vec!["the host was busy".into()],
            figures,
            conclusions: vec![
                Conclusion { arm: "a".into(), assertion: "p99<20ms".into(), measured: "3.000 ms".into(), passed: true },
                Conclusion { arm: "b".into(), assertion: "errors=0".into(), measured: "7".into(), passed: false },
            ],
        }
    }

    #[test]
    fn each_figure_stands_beside_the_articles_with_its_law() {
        let runs = [
            run("late", 5, vec![figure("x", Some(1.0), Some(false)), figure("y", None, None)]),
            run("early", 1, vec![figure("z", Some(2.0), Some(true)), figure("w", Some(3.0), None)]),
            run("late too", 5, vec![figure("x", None, None), figure("y", Some(4.0), Some(true))]),
        ];
        let page = articles(&runs, Some("gallery"));
        let at = |words: &str| page.find(words).unwrap_or_else(|| panic!("'{words}' is not in\n{page}"));
        assert!(at("## 1. Its title") < at("## 5. Its title"), "in the order of the articles");
        at("| z | 87.9 (5106.17 and 58.10 queries/s) | 2 | ratio | 1.50 or more: it gets slower | yes |");
        at("| w | 87.9 (5106.17 and 58.10 queries/s) | 3 | ratio | – | – |");
        at("| x | 87.9 (5106.17 and 58.10 queries/s) | 1 | ratio | 1.50 or more: it gets slower | **no** |");
        at("**Not reproduced: x.** Because: the recording has no evidence of the reason.");
        at("| `p99<20ms` | a | 3.000 ms | yes |");
        at("| `errors=0` | b | 7 | **no** |");
        at("[early.html](gallery/early.html)");
        at("- Doubt: the host was busy");
        assert!(!page.contains("Not measured"), "another run of the article has y:\n{page}");
        let alone = articles(&runs[..1], None);
        assert!(alone.contains("Not measured by these runs: y.") && !alone.contains(".html"), "{alone}");
    }
}
