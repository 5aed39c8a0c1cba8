// SPDX-License-Identifier: Apache-2.0
//! `load.pause`, `load.at`, `load.slow_statements`, and `server.live`.

use super::load_keys::too_long;
use super::variable;
use crate::model::{Arm, Flavour, Load};
use crate::moments::At;
use crate::section::Section;
use crate::tree::{Entry, Value};
use std::collections::BTreeMap;
use units::Span;

const AT_EXAMPLE: &str = "write at = [{ time = \"10s\", sql = \"SELECT ...\", every = \"120s\" }]";
/// Statements at shorter intervals are a load, and such a load belongs beside this one as a second load.
const MOST_OFTEN: Span = Span(std::time::Duration::from_millis(10));
const SHORTEST_SLOW: Span = Span(std::time::Duration::from_micros(100));
/// Keys that only Wringer's own load has.
const OWN_LOAD: [&str; 3] = ["at", "slow_statements", "stay"];

pub(super) fn pause(load: &Section<'_>) -> Span {
    let Some(asked) = load.unit::<Span>("pause", "60s") else { return Span::ZERO };
    too_long(load, "pause", asked.value);
    asked.value
}

/// The threshold for slow statements. An arm writes `"none"` to turn the section's value off.
pub(super) fn slow_statements(load: &Section<'_>) -> Option<Span> {
    let node = load.node("slow_statements")?;
    if matches!(&node.value, Value::Text(word) if word == "none") {
        return None;
    }
    let asked = load.unit::<Span>("slow_statements", "20ms")?.value;
    if asked < SHORTEST_SLOW {
        let hint = format!("{SHORTEST_SLOW} is the least: shorter ones are in the histogram");
        load.wrong(Some(node), &format!("load.slow_statements cannot be {asked}"), Some(hint));
    }
    Some(asked)
}

pub(super) fn at(load: &Section<'_>) -> Vec<At> {
    let Some(node) = load.node("at") else { return Vec::new() };
    let Value::List(items) = &node.value else {
        let message = format!("load.at is {}, not a list of tables", node.value.kind());
        load.wrong(Some(node), &message, Some(AT_EXAMPLE.into()));
        return Vec::new();
    };
    let sections = items.iter().enumerate().filter_map(|(index, item)| load.at_node(format!("load.at.{index}"), item));
    sections.filter_map(one).collect()
}

fn one(section: Section<'_>) -> Option<At> {
    let time = section.unit::<Span>("time", "10s");
    if section.node("time").is_none() {
        section.missing("time", "write time = \"10s\", from the beginning of what is measured");
    }
    let sql = section.text("sql").map(|text| text.value);
    if section.node("sql").is_none() || sql.as_ref().is_some_and(|sql| sql.trim().is_empty()) {
        section.missing("sql", "write sql = \"SELECT ...\", the statement that is sent");
    }
    let every = section.unit::<Span>("every", "120s").map(|asked| asked.value);
    if let Some(asked) = every.filter(|asked| *asked < MOST_OFTEN) {
        let message = format!("{} cannot be {asked}", section.named("every"));
        let hint = format!("{MOST_OFTEN} is the least; leave it out to send the statement once");
        section.wrong(section.node("every"), &message, Some(hint));
    }
    let connection = section.text("connection").map(|text| text.value);
    let stay = section.boolean("stay").is_some_and(|asked| asked.value);
    section.finish();
    Some(At { time: time?.value, sql: sql?, every, connection, stay })
}

/// Refuses a statement at a time after the end of the load: it would never be sent.
pub(super) fn check_at(section: &Section<'_>, load: &Load) {
    let Some(time) = load.time else { return };
    if let Some(late) = load.at.iter().find(|at| at.time >= time) {
        let message = format!("load.at has a statement at {}, and the load is over after {time}", late.time);
        let hint = "write a longer load.time, or an earlier time".to_owned();
        section.wrong(section.node("at"), &message, Some(hint));
    }
}

/// `other`: the key of the other kind of load.
pub(super) fn refuse_beside(section: &Section<'_>, other: &str) {
    for key in OWN_LOAD {
        if let Some(node) = section.node(key) {
            let message = format!("load.{key} has no meaning beside load.{other}");
            let hint = "it belongs to Wringer's own load: write a workload in place of it".to_owned();
            section.wrong(Some(node), &message, Some(hint));
        }
    }
}

/// Variables that are set while the server runs.
pub(super) fn live(server: &Section<'_>, flavour: Flavour) -> BTreeMap<String, String> {
    let Some(node) = server.node("live") else { return BTreeMap::new() };
    if flavour == Flavour::Postgresql {
        let message = "server.live is set by SET GLOBAL, which PostgreSQL does not have";
        let hint = "write the variables below [server.options]: the server is started with them".to_owned();
        server.wrong(Some(node), message, Some(hint));
        return BTreeMap::new();
    }
    let section = server.section("live");
    section.entries().filter_map(|(key, entry)| variable(&section, key, entry)).collect()
}

fn variable(section: &Section<'_>, key: &str, entry: &Entry) -> Option<(String, String)> {
    let name = key.replace('-', "_");
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.is_empty() || !name.chars().all(fits) {
        let hint = "write its name in small letters, digits and '_'".to_owned();
        section.wrong(Some(&entry.node), &format!("server.live.{name} is no variable's name"), Some(hint));
        return None;
    }
    let full = format!("server.live.{name}");
    if variable::is_kept(section, &full, &name, entry) {
        return None;
    }
    let value = variable::value(section, &full, entry)?;
    Some((name, value))
}

/// A variable that one arm sets keeps its value in later arms. So each arm on the same server must set it, and the order of the arms does not change
/// their results.
pub(super) fn all_say_the_same_names(arms: &[Arm], top: &Section<'_>) {
    let setter = |name: &str| arms.iter().find(|arm| arm.live.contains_key(name));
    for arm in arms {
        let others = arms.iter().flat_map(|other| other.live.keys());
        let Some(name) = others.into_iter().find(|name| !arm.live.contains_key(*name)) else { continue };
        let Some(setter) = setter(name) else { continue };
        let message = format!(
            "arm '{}' does not say server.live.{name}, which arm '{}' sets: it would have what the arm before it left",
            arm.name, setter.name
        );
        let hint = format!("write {name} below [server.live], as the value of all arms that do not have their own");
        top.wrong(top.node("arm"), &message, Some(hint));
        return;
    }
}

#[cfg(test)]
mod tests {
    use crate::read::refusal;
    use crate::{At, Experiment};
    use units::Span;

    const GOOD: &str = r#"schema = 1
name = "sample"
[server]
flavour = "mariadb"
live = { innodb_lru_scan_depth = 1024, innodb_empty_free_list_algorithm = "backoff" }
[fill]
rows = 100
[load]
workload = "oltp_point_select"
time = "20s"
pause = "5s"
slow_statements = "20ms"
ids_times_rows = 2
at = [{ time = "10s", sql = "SELECT 1", every = "120s" }]
[[arm]]
name = "as it is"
[[arm]]
name = "other"
server.live.innodb_empty_free_list_algorithm = "legacy"
load = { pause = "60s", slow_statements = "none", at = [] }
"#;

    #[test]
    fn an_arm_changes_the_variables_it_names_and_the_server_goes_on() {
        let experiment = Experiment::parse(GOOD).unwrap();
        let [as_it_is, other] = &experiment.arms[..] else { panic!("two arms") };
        let every = Some(Span::secs(120));
        let at = At { time: Span::secs(10), sql: "SELECT 1".into(), every, ..At::default() };
        assert_eq!(as_it_is.load.at, [at]);
        assert!(other.load.at.is_empty());
        assert_eq!((as_it_is.load.pause, other.load.pause), (Span::secs(5), Span::secs(60)));
        assert_eq!((as_it_is.load.slow_statements, other.load.slow_statements), (Some(Span::millis(20)), None));
        assert_eq!(as_it_is.load.options.ids_times_rows, 2);
        let of = |arm: &crate::Arm| arm.live.values().cloned().collect::<Vec<_>>();
        assert_eq!(of(as_it_is), ["backoff", "1024"]);
        assert_eq!(of(other), ["legacy", "1024"]);
        assert!(!other.restart, "it is set while the server runs");
    }

    #[track_caller]
    fn refused(from: &str, to: &str, line: usize, words: [&str; 2]) {
        refusal::refused(GOOD, from, to, line, words);
    }

    #[test]
    fn what_cannot_be_meant_is_told_with_its_line() {
        refused("time = \"10s\", ", "", 14, ["load.at.0.time is missing", "time = \"10s\""]);
        refused("sql = \"SELECT 1\", ", "", 14, ["load.at.0.sql is missing", "sql ="]);
        refused("every = \"120s\"", "every = \"1ms\"", 14, ["cannot be 1 ms", "10 ms is the least"]);
        refused("every = \"120s\"", "ever = \"120s\"", 14, ["unknown key \"ever\"", "every"]);
        refused("at = [{ time = \"10s\"", "at = [{ time = \"20s\"", 14, ["is over after 20 s", "longer load.time"]);
        refused(
            "at = [{ time = \"10s\", sql = \"SELECT 1\", every = \"120s\" }]",
            "at = 3",
            14,
            ["not a list", "write at ="],
        );
        refused("pause = \"5s\"", "pause = \"48h\"", 11, ["load.pause cannot be", "is the most"]);
        refused(
            "slow_statements = \"20ms\"",
            "slow_statements = \"1us\"",
            12,
            ["cannot be 1 us", "100 us is the least"],
        );
        refused("ids_times_rows = 2", "ids_times_rows = 0", 13, ["cannot be 0", "from 1"]);
        refused("innodb_lru_scan_depth = 1024", "port = 1024", 5, ["is set by the sandbox", "leave it out"]);
        refused("innodb_lru_scan_depth = 1024", "\"a b\" = 1024", 5, ["is no variable's name", "small letters"]);
        refused("innodb_lru_scan_depth = 1024", "innodb_lru_scan_depth = [1]", 5, ["is a list", "write a text"]);
    }

    #[test]
    fn statements_may_share_a_connection_that_stays_open() {
        let text = GOOD.replace("every = \"120s\"", "connection = \"a\", stay = true");
        let load = &Experiment::parse(&text).unwrap().arms[0].load;
        let at = &load.at[0];
        assert_eq!((at.connection.as_deref(), at.stay, at.every), (Some("a"), true, None));
        assert!(!load.stay, "those of the load close");
        assert!(Experiment::parse(&GOOD.replace("pause = \"5s\"", "stay = true")).unwrap().arms[0].load.stay);
        refused("every = \"120s\"", "stay = 3", 14, ["stay", "true"]);
    }

    #[test]
    fn postgresql_has_no_variables_that_are_set_this_way() {
        let found = Experiment::parse(&GOOD.replace("\"mariadb\"", "\"postgresql\"")).unwrap_err();
        let first = found.first().unwrap();
        assert_eq!((first.line, first.message.contains("PostgreSQL does not have")), (5, true), "{found:#?}");
        assert!(first.suggestion.as_ref().unwrap().contains("[server.options]"), "{found:#?}");
    }

    #[test]
    fn an_arm_that_would_inherit_what_another_arm_set_is_refused() {
        let text = GOOD.replace("live = {", "#");
        let found = Experiment::parse(&text).unwrap_err();
        let message =
            "arm 'as it is' does not say server.live.innodb_empty_free_list_algorithm, which arm 'other' sets";
        assert!(found.iter().any(|problem| problem.message.contains(message)), "{found:#?}");
    }

    #[test]
    fn beside_another_program_as_the_load_only_a_pause_has_a_meaning() {
        let text = GOOD
            .replace("workload = \"oltp_point_select\"", "driver = \"command\"\ncommand = [\"true\"]\nstay = true")
            .replace("ids_times_rows = 2\n", "");
        let found = Experiment::parse(&text).unwrap_err();
        let told =
            |key: &str| found.iter().any(|it| it.message == format!("load.{key} has no meaning beside load.driver"));
        assert!(told("at") && told("slow_statements") && told("stay"), "{found:#?}");
        assert!(!found.iter().any(|it| it.message.contains("pause")), "{found:#?}");
    }
}
