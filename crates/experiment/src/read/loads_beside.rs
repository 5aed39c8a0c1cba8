// SPDX-License-Identifier: Apache-2.0
//! The entries of `load.beside` that have a `workload`: loads that run beside the arm's own one.

use super::statements::{arrivals, distribution, options, own_values, workload};
use crate::model::{Load, LoadBeside};
use crate::section::Section;
use crate::tree::{Node, Value};
use units::Span;

/// Whether an entry of `load.beside` is a load, or was meant as one: it has a name. The others are clients with an account of their own.
pub(super) fn is_load(entry: &Node) -> bool {
    let Value::Table(table) = &entry.value else { return false };
    let has = |key| table.get(key).is_some();
    has("workload") || has("name") && !has("account")
}

pub(super) fn read(load: &Section<'_>) -> Vec<LoadBeside> {
    let Some(Value::List(items)) = load.node("beside").map(|node| &node.value) else { return Vec::new() };
    let sections = items.iter().enumerate().filter(|(_, item)| is_load(item));
    let sections = sections.filter_map(|(index, item)| load.at_node(format!("load.beside.{index}"), item));
    (2..).zip(sections).filter_map(|(seed, section)| one(section, seed)).collect()
}

/// `seed`: another one than the arm's own load has by default, so that the two do not draw the same rows at the same time.
fn one(section: Section<'_>, seed: u64) -> Option<LoadBeside> {
    let name = name(&section);
    let workload = workload(&section);
    if section.node("workload").is_none() {
        section.missing(
            "workload",
            "write workload = \"oltp_read_only\"; or, for a client that only connects, account instead of name",
        );
    }
    let load = Load {
        threads: section.integer("threads", 1..=100_000u32).map_or(1, |number| number.value),
        arrivals: arrivals(&section),
        distribution: distribution(&section, "distribution"),
        distribution_written: section.node("distribution").is_some(),
        seed: section.integer("seed", 0..=u64::MAX >> 1).map_or(seed, |number| number.value),
        prepared: section.boolean("prepared").is_none_or(|asked| asked.value),
        options: options(&section, workload.as_deref()),
        workload: workload.unwrap_or_default(),
        // the rest is that of the arm's own load
        events: None,
        time: None,
        warmup: Span::ZERO,
        preheat: None,
        cpuset: None,
        driver: None,
        replay: None,
        beside: Vec::new(),
        loads_beside: Vec::new(),
        before: Vec::new(),
        pause: Span::ZERO,
        probe: None,
        idle: Span::ZERO,
        stay: false,
        at: Vec::new(),
        slow_statements: None,
    };
    own_values(&section, &load);
    section.finish();
    (!load.workload.is_empty()).then_some(LoadBeside { name: name?, load })
}

/// The word between the dots of its figures: `beside.reports.p99`.
fn name(section: &Section<'_>) -> Option<String> {
    let Some(text) = section.text("name") else {
        if section.node("name").is_none() {
            section.missing("name", "write name = \"reports\": its figures are beside.reports.p99 and others");
        }
        return None;
    };
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if text.value.is_empty() || text.value.len() > 30 || !text.value.chars().all(fits) {
        let message = format!("{} cannot be \"{}\"", section.named("name"), text.value);
        let hint = "use up to 30 small letters, digits and '_'";
        section.wrong(section.node("name"), &message, Some(hint.into()));
        return None;
    }
    Some(text.value)
}

#[cfg(test)]
mod tests {
    use crate::Experiment;
    use crate::read::refusal;
    use evidence::Arrivals;

    const GOOD: &str = r#"schema = 1
name = "sample"
[server]
flavour = "mariadb"
[fill]
rows = 100
[load]
workload = "oltp_point_select"
beside = [{ account = "shop", rate = 2.5 }, { name = "reports", workload = "select_random_ranges", delta = 9, threads = 2, rate = 5, arrivals = "poisson" }, { name = "writes", workload = "oltp_write_only", seed = 7 }]
"#;

    fn refused(from: &str, to: &str, words: [&str; 2]) {
        refusal::refused(GOOD, from, to, 9, words);
    }

    #[test]
    fn loads_and_clients_stand_in_one_list() {
        let experiment = Experiment::parse(GOOD).unwrap();
        let load = &experiment.arms[0].load;
        assert_eq!((load.beside.len(), load.loads_beside.len()), (1, 2));
        let [reports, writes] = &load.loads_beside[..] else { panic!("two loads") };
        assert_eq!((reports.name.as_str(), reports.load.threads, reports.load.options.delta), ("reports", 2, 9));
        assert_eq!(reports.load.arrivals, Arrivals::Poisson { per_second: 5.0 });
        assert_eq!((reports.load.seed, writes.load.seed, load.seed), (2, 7, 1), "they do not draw the same rows");
    }

    #[test]
    fn what_cannot_be_meant_is_told_with_its_line() {
        let has_no_workload = ["workload is missing", "account instead of name"];
        refused("workload = \"select_random_ranges\", delta = 9, ", "", has_no_workload);
        refused("name = \"reports\", ", "", ["name is missing", "beside.reports.p99"]);
        refused("\"reports\"", "\"my reports\"", ["cannot be \"my reports\"", "small letters"]);
        refused("\"reports\"", "\"writes\"", ["\"writes\" twice", "of its own"]);
        refused("\"reports\"", "\"shop\"", ["\"shop\" twice", "of its own"]);
        refused("delta = 9", "point_selects = 9", ["has no option point_selects", "oltp_read_only"]);
        refused("select_random_ranges", "select_random", ["cannot be \"select_random\"", "select_random_ranges"]);
        refused("threads = 2", "time = \"3s\"", ["unknown key \"time\"", ""]);
        refused(", arrivals = \"poisson\"", "", ["nothing says how they arrive", "poisson"]);
        let found = Experiment::parse(&GOOD.replace("oltp_write_only", "pgbench_select_only")).unwrap_err();
        assert!(
            found[0].message.contains("sends pgbench_select_only, and nothing makes pgbench's tables"),
            "{found:?}"
        );
    }
}
