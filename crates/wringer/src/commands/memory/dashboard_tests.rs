// SPDX-License-Identifier: Apache-2.0
//! Tests that the dashboard in `packaging/` uses only metrics that `-o openmetrics` has, with labels that these metrics have.

use super::openmetrics;
use ledger::{Account, Basis, Beside, Inventory, Leaf, Probe, ProcessAccount};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const DASHBOARD: &str = include_str!("../../../../../packaging/grafana-memory.json");

/// The text of `-o openmetrics` for an account with one value of each kind.
fn exposition() -> String {
    let leaf = Leaf {
        path: "data_cache/buffer_pool".into(),
        resident_bytes: 2,
        allocated_bytes: Some(3),
        basis: Basis::Kernel,
        source: String::new(),
        at_us: 0,
    };
    let account = Account {
        kernel_total_bytes: 5,
        explained_share: Some(0.5),
        leaves: vec![leaf],
        processes: vec![ProcessAccount { pid: 7, role: "mariadbd".into(), ..ProcessAccount::default() }],
        beside: vec![Beside { name: "swap".into(), bytes: 1, source: String::new() }],
        probes: vec![Probe { tier: "smaps".into(), ..Probe::default() }],
        ..Account::default()
    };
    let mut inventory = Inventory::default();
    inventory.host.meminfo.insert("MemAvailable".into(), 9);
    openmetrics::text("shop", &account, &inventory)
}

/// The labels of each metric that has a value.
fn metrics() -> BTreeMap<String, BTreeSet<String>> {
    let text = exposition();
    let values = text.lines().filter(|line| !line.starts_with('#'));
    let metric = |line: &str| {
        let (name, labels) = line.split_once(['{', ' ']).expect("a value");
        let labels =
            labels.split('"').filter_map(|part| part.strip_suffix('=')).map(|label| label.trim_start_matches(','));
        (name.to_owned(), labels.map(str::to_owned).collect())
    };
    values.map(metric).collect()
}

fn strings<'a>(value: &'a Value, key: &str, into: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| match value {
            Value::String(text) if name == key => into.push(text),
            other => strings(other, key, into),
        }),
        Value::Array(list) => list.iter().for_each(|value| strings(value, key, into)),
        _ => {}
    }
}

/// The words of a query that begin as the names of our metrics do.
fn asked(query: &str) -> Vec<&str> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("wringer_")).collect()
}

#[test]
fn each_query_of_the_dashboard_names_a_metric_that_is_there() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let metrics = metrics();
    let mut queries = Vec::new();
    strings(&dashboard["panels"], "expr", &mut queries);
    strings(&dashboard["templating"], "query", &mut queries);
    queries.retain(|query| *query != "prometheus");
    assert!(queries.len() > 10, "{queries:?}");
    for query in &queries {
        let asked = asked(query);
        assert!(!asked.is_empty(), "{query}");
        for name in asked {
            assert!(metrics.contains_key(name), "{name} in {query}; there are {:?}", metrics.keys());
        }
    }
    // the dashboard uses every metric except the time of the reading, and what tells the purpose of a leaf
    let shown: BTreeSet<&str> = queries.iter().flat_map(|query| asked(query)).collect();
    let missing: Vec<&String> = metrics.keys().filter(|name| !shown.contains(name.as_str())).collect();
    assert_eq!(missing, ["wringer_memory_leaf_info", "wringer_memory_read_timestamp_seconds"]);
}

/// Each label in a legend (`{{...}}`), and each label by which a sum is made, is a label of the metric or of Prometheus, or is made by the query.
#[test]
fn labels_of_the_dashboard_are_there() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let metrics = metrics();
    let panels = dashboard["panels"].as_array().expect("panels");
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets")) {
        let (query, legend) =
            (target["expr"].as_str().expect("a query"), target["legendFormat"].as_str().expect("a legend"));
        let known: BTreeSet<&str> = asked(query).iter().flat_map(|name| &metrics[*name]).map(String::as_str).collect();
        let named = legend.split("{{").skip(1).map(|part| part.split("}}").next().unwrap_or_default());
        for label in named {
            let is_made = query.contains(&format!("\"{label}\""));
            assert!(label == "instance" || is_made || known.contains(label), "{label} in {legend}: {known:?}");
        }
    }
}
