// SPDX-License-Identifier: Apache-2.0
//! `load.beside`: clients that run beside an arm's load. `load.before`: statements that are sent before both.

use super::loads_beside::is_load;
use crate::beside::Beside;
use crate::section::Section;
use crate::tree::{Node, Value};

/// A larger number would be another experiment: each connection takes a descriptor here, and a process or a thread in the server.
const MOST: u32 = 10_000;
const USUAL_MOST: u32 = 1000;
const EXAMPLE: &str = "write beside = [{ account = \"leak\", rate = 20, keep = true }]";
/// The accounts that exist in every sandbox.
const TAKEN: [&str; 4] = ["wringer", "root", "postgres", "replicator"];

pub(super) fn read(load: &Section<'_>) -> Vec<Beside> {
    let Some(node) = load.node("beside") else { return Vec::new() };
    let Value::List(items) = &node.value else {
        let message = format!("load.beside is {}, not a list of tables", node.value.kind());
        load.wrong(Some(node), &message, Some(EXAMPLE.into()));
        return Vec::new();
    };
    let clients = items.iter().enumerate().filter(|(_, item)| !is_load(item));
    let sections = clients.filter_map(|(index, item)| load.at_node(format!("load.beside.{index}"), item));
    let found: Vec<Beside> = sections.filter_map(one).collect();
    let names: Vec<&str> = items.iter().filter_map(name_of).collect();
    let twice = names.iter().enumerate().find(|(index, it)| names[..*index].contains(it));
    if let Some((_, it)) = twice {
        let message = format!("load.beside has \"{it}\" twice");
        load.wrong(Some(node), &message, Some("give each an account, or a name, of its own".into()));
    }
    found
}

/// The word of its figures: the account of a client, or the name of a load.
fn name_of(item: &Node) -> Option<&str> {
    let Value::Table(table) = &item.value else { return None };
    match &table.get(if is_load(item) { "name" } else { "account" })?.value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

fn one(section: Section<'_>) -> Option<Beside> {
    let account = account(&section);
    let rate = section.number("rate", 0.1..=1000.0);
    if section.node("rate").is_none() {
        section.missing("rate", "write rate = 20, the connections that it opens in a second");
    }
    let keep = section.boolean("keep").is_some_and(|keep| keep.value);
    let most = section.integer("most", 1..=MOST).map_or(USUAL_MOST, |most| most.value);
    section.finish();
    Some(Beside { account: account?, rate: rate?.value, keep, most })
}

fn account(section: &Section<'_>) -> Option<String> {
    let Some(text) = section.text("account") else {
        if section.node("account").is_none() {
            section.missing(
                "account",
                "write account = \"leak\": the run makes it; or workload = \"oltp_read_only\", a load beside the load",
            );
        }
        return None;
    };
    let name = text.value;
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    if !begins || name.len() > 30 || !name.chars().all(fits) || name.starts_with("pg_") {
        let message = format!("{} cannot be \"{name}\"", section.named("account"));
        let hint = "use up to 30 small letters, digits and '_', a letter first";
        section.wrong(section.node("account"), &message, Some(hint.into()));
        return None;
    }
    if TAKEN.contains(&name.as_str()) {
        let message = format!("the account {name} is there already, with other rights");
        section.wrong(section.node("account"), &message, Some("choose another name".into()));
        return None;
    }
    Some(name)
}

pub(super) fn before(load: &Section<'_>) -> Vec<String> {
    let Some(node) = load.node("before") else { return Vec::new() };
    let texts = match &node.value {
        Value::List(items) => items
            .iter()
            .map(|item| match &item.value {
                Value::Text(text) if !text.trim().is_empty() => Some(text.clone()),
                _ => None,
            })
            .collect::<Option<Vec<_>>>(),
        _ => None,
    };
    if texts.is_none() {
        let hint = "write before = [\"ALTER ROLE leak CONNECTION LIMIT 20\"], a text for each statement";
        load.wrong(Some(node), "load.before is no list of statements", Some(hint.into()));
    }
    texts.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::read::refusal;
    use crate::{Beside, Experiment};

    const GOOD: &str = r#"schema = 1
name = "sample"
[server]
flavour = "postgresql"
[fill]
rows = 100
[load]
workload = "oltp_point_select"
beside = [{ account = "shop", rate = 2.5 }, { account = "leak", rate = 20, keep = true, most = 50 }]
[[arm]]
name = "without"
load.beside = []
[[arm]]
name = "with"
load.before = ["ALTER ROLE leak CONNECTION LIMIT 20"]
"#;

    fn refused(from: &str, to: &str, words: [&str; 2]) {
        refusal::refused(GOOD, from, to, 9, words);
    }

    #[test]
    fn an_arms_list_replaces_the_sections() {
        let experiment = Experiment::parse(GOOD).unwrap();
        let [without, with] = &experiment.arms[..] else { panic!("two arms") };
        assert!(without.load.beside.is_empty() && without.load.before.is_empty());
        let leak = Beside { account: "leak".into(), rate: 20.0, keep: true, most: 50 };
        let shop = Beside { account: "shop".into(), rate: 2.5, keep: false, most: 1000 };
        assert_eq!(with.load.beside, [shop, leak]);
        assert_eq!(with.load.before, ["ALTER ROLE leak CONNECTION LIMIT 20"]);
        assert!(!with.restart, "the server goes on");
    }

    #[test]
    fn what_cannot_be_meant_is_told_with_its_line() {
        refused("\"shop\"", "\"Shop'\"", ["cannot be \"Shop'\"", "small letters"]);
        refused("\"shop\"", "\"wringer\"", ["is there already", "another name"]);
        refused("\"shop\"", "\"leak\"", ["twice", "of its own"]);
        refused(", rate = 2.5", "", ["rate is missing", "rate = 20"]);
        refused("rate = 2.5", "rate = 0", ["cannot be 0", "from 0.1"]);
        refused("most = 50", "limit = 50", ["unknown key \"limit\"", ""]);
        refused(
            "beside = [{ account = \"shop\", rate = 2.5 }, { account = \"leak\", rate = 20, keep = true, most = 50 }]",
            "beside = 3",
            ["not a list of tables", "write beside"],
        );
        refused("beside = [", "before = [\"\"]\nbeside = [", ["no list of statements", "a text for each"]);
    }
}
