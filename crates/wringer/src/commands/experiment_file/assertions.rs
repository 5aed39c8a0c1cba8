// SPDX-License-Identifier: Apache-2.0
//! Checks the assertions of the arms before anything is made.

use super::refuse_any;
use super::workloads::MANY_ROWS;
use crate::exit::Outcome;
use assertion::{Recorded, Source};
use experiment::{Arm, Experiment, Load, Problem, ServerStart};
use lab::{Workloads, load_spec};
use std::path::Path;

/// Enough rows to name the classes of a workload's statements.
const SOME_ROWS: u64 = 10_000;

/// # Errors
/// Exit code 2: an assertion is about a class of statements that its arm's workload does not have, or about a figure that the run does not record.
pub fn check(file: &Path, text: &str, experiment: &Experiment, workloads: &Workloads) -> Outcome {
    let mut problems: Vec<Problem> = Vec::new();
    let of_classes =
        |arm: &&Arm| arm.load.is_of_ours() && arm.assertions.iter().any(|it| it.assertion.class().is_some());
    for arm in experiment.arms.iter().filter(of_classes) {
        let rows = if Load::is_file(&arm.load.workload) { MANY_ROWS } else { SOME_ROWS };
        let (written, protocol) = (workloads.get(&arm.load.workload), experiment.server.flavour.protocol());
        let spec = load_spec(&experiment.fill, &arm.load, written, protocol, rows)?;
        let classes: Vec<&str> = spec.workload.statements().iter().map(|it| it.class.as_str()).collect();
        problems.extend(arm.assertions.iter().filter_map(|asserted| {
            let message = asserted.assertion.check_class(classes.iter().copied()).err()?;
            let (line, column) = asserted.place;
            Some(Problem { line, column, message, suggestion: None })
        }));
    }
    for arm in &experiment.arms {
        problems.extend(arm.assertions.iter().filter_map(|asserted| {
            let (why, hint) = not_recorded(experiment, arm, asserted.assertion.recorded()?)?;
            let (line, column) = asserted.place;
            let message = format!("\"{}\" cannot be asserted: {why}", asserted.assertion);
            Some(Problem { line, column, message, suggestion: Some(hint) })
        }));
    }
    refuse_any(file, text, problems)
}

/// Why the run will not have this figure of the arm, and what to write.
fn not_recorded(experiment: &Experiment, arm: &Arm, figure: &Recorded) -> Option<(String, String)> {
    let name = figure.name();
    let lacks = |has: bool, what: &str, key: &str| {
        (!has).then(|| (format!("{what} is not recorded in arm \"{}\"", arm.name), format!("write {key}")))
    };
    let observe = &experiment.observe;
    match figure.source() {
        Source::Memory => lacks(observe.memory.is_some(), "the server's memory", "observe.memory = \"1s\""),
        Source::Stalls => {
            let has = observe.stalls.is_some() || arm.load.slow_statements.is_some();
            lacks(has, "who stalls", "load.slow_statements = \"20ms\", or observe.stalls = true")
        }
        Source::Probe => lacks(arm.load.probe.is_some(), "the time of reads", "load.probe = 1024"),
        Source::Idle if name.starts_with("load.") && !arm.load.is_of_ours() => Some((
            "the connections of another program, and of a replay, are closed when it has ended".to_owned(),
            "assert idle.rss.begin or idle.rss.end".to_owned(),
        )),
        Source::Idle => lacks(!arm.load.idle.0.is_zero(), "the server's size", "load.idle = \"15s\""),
        Source::LoadBeside => {
            let named = name.split('.').nth(1).unwrap_or_default();
            let has = arm.load.loads_beside.iter().any(|beside| beside.name == named);
            let what = format!("a load beside the load with the name '{named}'");
            lacks(has, &what, &format!("load.beside = [{{ name = \"{named}\", workload = \"oltp_read_only\" }}]"))
        }
        Source::Beside => {
            let accounts: Vec<&str> = arm.load.beside.iter().map(|beside| beside.account.as_str()).collect();
            let account = name.split('.').nth(1).unwrap_or_default();
            let what = format!("a client beside the load with the account '{account}'");
            lacks(
                accounts.contains(&account),
                &what,
                &format!("load.beside = [{{ account = \"{account}\", rate = 20 }}]"),
            )
        }
        Source::Processes => {
            let has = observe.process && experiment.arms.iter().any(|arm| arm.start != ServerStart::default());
            let keys = "a setting of the server's start in an arm (server.huge_pages, malloc, thp, pgbouncer)";
            lacks(has, "the memory of the server's processes", keys)
        }
        Source::Article => of_article(experiment.article, name),
    }
}

fn of_article(article: Option<u32>, name: &str) -> Option<(String, String)> {
    let Some(article) = article else {
        return Some(("the file names no article".into(), "write article = 1 to 5 at the top".into()));
    };
    let names = explain::figures_of_article(article);
    (!names.contains(&name)).then(|| {
        (format!("article {article} has no figure of this name"), format!("its figures are: {}", names.join("; ")))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The problem of this assertion in an arm with this load.
    fn problem(top: &str, load: &str, assertion: &str) -> Option<String> {
        let text = format!(
            "schema = 1\nname = \"a\"\nassert = ['{assertion}']\n{top}\n[server]\nflavour = \"mariadb\"\n[fill]\nrows = 10\n[load]\n\
             workload = \"oltp_point_select\"\ntime = \"1s\"\n{load}"
        );
        let experiment = Experiment::parse(&text).unwrap_or_else(|problems| panic!("{problems:?}"));
        let arm = &experiment.arms[0];
        let figure = arm.assertions[0].assertion.recorded().unwrap();
        not_recorded(&experiment, arm, figure).map(|(why, hint)| format!("{why}; {hint}"))
    }

    #[test]
    fn a_figure_that_the_run_will_not_record_is_refused_with_the_key_that_records_it() {
        for (assertion, load, key) in [
            ("memory.explained>=0.9", "[observe]\nmemory = \"1s\"", "write observe.memory"),
            ("stalls.count=0", "slow_statements = \"20ms\"", "write load.slow_statements"),
            ("stalls.count=0", "[observe]\nstalls = true", "observe.stalls = true"),
            ("probe.scan.warm>1G", "probe = 16", "write load.probe"),
            ("load.rss<1G", "idle = \"1s\"", "write load.idle"),
            (
                "beside.reports.p99<9ms",
                "beside = [{ name = \"reports\", workload = \"oltp_read_only\" }]",
                "name = \"reports\"",
            ),
            ("beside.shop.refused=0", "beside = [{ account = \"shop\", rate = 1 }]", "account = \"shop\""),
        ] {
            let said = problem("", "", assertion).unwrap_or_default();
            assert!(said.contains(key), "{assertion}: {said}");
            assert_eq!(problem("", load, assertion), None, "{assertion}");
        }
        let said = problem("", "beside = [{ account = \"leak\", rate = 1 }]", "beside.shop.refused=0").unwrap();
        assert!(said.contains("account 'shop'"), "{said}");
        assert!(problem("", "", "server.page_tables<1G").unwrap().contains("server.huge_pages"));
        let of_article = |top: &str, name: &str| problem(top, "", &format!("article {name}>=1"));
        assert!(of_article("", "VSZ over RSS").unwrap().contains("article = 1 to 5"));
        assert_eq!(of_article("article = 3", "VSZ over RSS"), None);
        assert!(of_article("article = 3", "VSZ over").unwrap().contains("its figures are: RSS over the buffer pool; "));
    }

    #[test]
    fn every_figure_of_an_article_can_be_asserted() {
        for name in (1..=5).flat_map(explain::figures_of_article) {
            let text = format!("article {name}>=1");
            let assertion = assertion::Assertion::of_run(&text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(assertion.recorded().map(Recorded::name), Some(name));
        }
    }
}
