// SPDX-License-Identifier: Apache-2.0
//! The conditions under which a run's figures hold, as a flat list: `host.kernel`, `server.variables.innodb_buffer_pool_size`.

use evidence::{Arm, Conditions, Evidence, Measured};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use units::{Bytes, Span};

/// Variables that differ in every sandbox: ids, ports, and how many statements the binary log has.
const OWN: [&str; 15] = [
    "gtid_binlog_pos",
    "gtid_binlog_state",
    "gtid_current_pos",
    "gtid_executed",
    "gtid_purged",
    "gtid_slave_pos",
    "hostname",
    "mysqlx_port",
    "port",
    "report_port",
    "server_id",
    "server_uid",
    "server_uuid",
    "timestamp",
    "wsrep_node_incoming_address",
];

/// Paths, and names that begin with the host's name (`vm-slow.log`), do not change the server's behaviour either.
fn is_own(name: &str, value: &str, hostname: Option<&String>) -> bool {
    let is_of_host = |hostname: &String| {
        !hostname.is_empty()
            && value.strip_prefix(hostname.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
    };
    OWN.contains(&name) || value.contains('/') || hostname.is_some_and(is_of_host)
}

/// The conditions of the whole run: tool, host, server and its variables, mechanisms, rows of the data.
pub(crate) fn of_run(run: &Evidence) -> BTreeMap<String, Value> {
    let Conditions { tool, host, server, mechanisms, traits, .. } = &run.conditions;
    let hostname = server.variables.get("hostname");
    let variables: BTreeMap<_, _> =
        server.variables.iter().filter(|(name, value)| !is_own(name, value, hostname)).collect();
    // older recordings do not have it
    let build = Some(&server.build).filter(|build| !build.is_empty());
    let server = json!({ "flavour": server.flavour, "version": server.version, "source": server.source, "build": build, "variables": variables });
    let tool = json!({ "version": tool.version, "as_root": tool.as_root });
    let mut flat = BTreeMap::new();
    let all = json!({ "tool": tool, "host": host, "server": server, "mechanisms": mechanisms, "traits": traits, "data": data(run) });
    flatten("", all, &mut flat);
    if let Ok(file) = run.experiment.parse::<toml::Table>()
        && !file.is_empty()
    {
        flat.insert(EXPERIMENT.to_owned(), Value::Bool(true));
        flatten(EXPERIMENT, written(file), &mut flat);
    }
    flat.extend(run.files.iter().map(|(name, text)| (key_of_file(name), content(name, text))));
    flat
}

/// The beginning of the keys of files that the experiment names. A run without such a file hinders nothing: another condition tells its load.
pub(crate) const FILES: &str = "files";

pub(crate) fn key_of_file(name: &str) -> String {
    format!("{FILES}.{name}")
}

/// A short word for what a file says: comments and spaces of a TOML file are no part of it. FNV-1a, 64 bits.
fn content(name: &str, text: &str) -> Value {
    let table = name.ends_with(".toml").then(|| text.parse::<toml::Table>().ok()).flatten();
    let said = table.map_or_else(|| text.to_owned(), |table| format!("{table:?}"));
    let hash = said
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    Value::String(format!("content {hash:016x}"))
}

/// What the experiment's file has for all arms and no other condition tells: how the load is made, its warm-up, the disk with its limits, hidden RAM. What
/// an arm has instead is among its settings. The key itself says that there is a file, which is no condition.
pub(crate) const EXPERIMENT: &str = "experiment";

/// Keys of these sections that other conditions tell, that only choose at random, or that name what is not compared: the content of data of one's own.
const TOLD: [(&str, &[&str]); 3] = [
    ("fill", &["command", "database", "from", "keep", "row_bytes", "rows", "rows_per_page", "size"]),
    ("load", &["cpuset", "events", "prepared", "rate", "replay", "seed", "speed", "threads", "time", "workload"]),
    ("squeeze", &["cpus", "cpuset", "on_miss", "required", "server_ram", "swap"]),
];
/// The beginning of the keys of the ids' distribution, which the result of the load tells.
const OF_DISTRIBUTION: &str = "rand_";

fn written(mut table: toml::Table) -> Value {
    let section = |(name, told): &(&str, &[&str])| {
        let mut section = match table.remove(*name)? {
            toml::Value::Table(section) => section,
            _ => return None,
        };
        // what is off by default may be written or not
        let is_off = |value: &toml::Value| value.as_bool() == Some(false);
        // the result of the load tells its own distribution
        let is_of_load = |key: &str| *name == "load" && key.starts_with(OF_DISTRIBUTION);
        section.retain(|key: &str, value| !(told.contains(&key) || is_of_load(key) || is_off(value)));
        if section.remove("secondary").is_some_and(|it| it.as_bool() == Some(true)) {
            section.insert("secondary_indexes".to_owned(), toml::Value::Integer(1));
        }
        section.retain(|key: &str, value| !is_default(key, value));
        if let Some(disk) = section.get_mut("disk").and_then(toml::Value::as_table_mut) {
            disk.remove("seed");
        }
        Some(((*name).to_owned(), in_one_spelling(serde_json::to_value(section).ok()?)))
    };
    Value::Object(TOLD.iter().filter_map(section).collect())
}

/// What counts where nothing is written, of [fill].
fn is_default(key: &str, value: &toml::Value) -> bool {
    let is_one_of = [("tables", Some(1)), ("secondary_indexes", Some(0))].contains(&(key, value.as_integer()));
    is_one_of || key == "k_distribution" && value.as_str() == Some("uniform")
}

/// Times and sizes as Wringer prints them: `60s` and `1m` are the same condition. A text that would lose digits stays as it is written.
fn in_one_spelling(value: Value) -> Value {
    fn printed<T: FromStr + Display + PartialEq>(text: &str) -> Option<String> {
        let parsed: T = text.parse().ok()?;
        Some(parsed.to_string()).filter(|printed| printed.parse().ok() == Some(parsed))
    }
    match value {
        Value::String(text) => {
            let printed = printed::<Span>(&text).or_else(|| printed::<Bytes>(&text));
            Value::String(printed.unwrap_or(text))
        }
        Value::Array(values) => values.into_iter().map(in_one_spelling).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, in_one_spelling(value))).collect(),
        other => other,
    }
}

/// The result of the fill: the rows of all tables together, and how many of them were to fit in a page. Empty for data of the user's own.
fn data(run: &Evidence) -> Value {
    let of = |what: &str| run.measured.iter().find(|measured| measured.what == what);
    let rows = of("fill.rows").and_then(|rows| Some(rows.got.as_ref()?.value));
    let per_page = of("fill.rows_per_page").and_then(|rows| Some(rows.predicted.as_ref()?.value));
    json!({ "rows": rows, "rows_per_page": per_page })
}

/// Limits of a server and its load. Hidden RAM and slow disks are not here: other conditions describe them, or their figures differ in each run.
const LIMITS: [&str; 5] = ["server.ram.limit", "server.cpus.limit", "server.swap", "server.cpuset", "load.cpuset"];

/// The conditions of one arm: its load, its delay, its limits, its settings. `prefix`: the beginning of the keys.
pub(crate) fn of_arm(run: &Evidence, arm: &Arm, prefix: &str, into: &mut BTreeMap<String, Value>) {
    let is_of_arm = |measured: &&Measured| measured.arm.as_ref().is_none_or(|name| *name == arm.name);
    let limits: BTreeMap<&str, f64> = run
        .measured
        .iter()
        .filter(is_of_arm)
        .filter(|measured| LIMITS.contains(&measured.what.as_str()))
        .filter_map(|measured| Some((measured.what.as_str(), measured.asked.as_ref()?.value)))
        .collect();
    let load = arm.load.as_ref().map(|load| {
        json!({
            "workload": load.workload, "driver": load.driver, "connections": load.connections,
            "arrivals": load.arrivals, "distribution": load.distribution,
            // a load of another program does not tell it
            "prepared_statements": arm.driven.is_none().then_some(load.prepared_statements),
        })
    });
    let settings: BTreeMap<&String, Value> =
        arm.settings.iter().map(|(key, text)| (key, setting_in_one_spelling(text))).collect();
    flatten(prefix, json!({ "load": load, "delay": arm.delay, "limits": limits, "settings": settings }), into);
}

/// `512M` and `512MiB`, `ON` and `on` are the same setting. A bare number stays as it is written, because the variable has its own unit for it; so does
/// `1m`, which is a minute for Wringer and a MiB for MySQL.
fn setting_in_one_spelling(text: &str) -> Value {
    const SWITCHES: [&str; 4] = ["on", "off", "true", "false"];
    let small = text.to_ascii_lowercase();
    let number = text.strip_suffix('m').unwrap_or(text);
    match number.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Value::String(text.to_owned()),
        false if SWITCHES.contains(&small.as_str()) => Value::String(small),
        false => in_one_spelling(Value::String(text.to_owned())),
    }
}

/// Flattens only objects; a list is one value.
fn flatten(prefix: &str, value: Value, into: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(map) => map.into_iter().for_each(|(key, value)| {
            let name = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
            flatten(&name, value, into);
        }),
        Value::Null => {}
        value => drop(into.insert(prefix.to_owned(), value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_condition_in_two_spellings_is_one() {
        let of = |text: &str| written(text.parse().expect("a table"));
        assert_eq!(of("load.warmup = '60s'"), of("load.warmup = '1m'"));
        assert_eq!(of("squeeze.disk.read = ['0.5ms']"), of("squeeze.disk.read = ['500us']"));
        assert_eq!(of("squeeze.ram = '1G'"), of("squeeze.ram = '1024MiB'"));
        assert_ne!(of("load.warmup = '60s'"), of("load.warmup = '61s'"));
        assert_ne!(of("squeeze.disk.read = '1.2341ms'"), of("squeeze.disk.read = '1.2342ms'"), "printed alike");
        assert_eq!(of("squeeze.disk = 'gp3'")["squeeze"]["disk"], "gp3");
    }

    #[test]
    fn one_setting_of_an_arm_in_two_spellings_is_one() {
        let of = setting_in_one_spelling;
        for (one, other) in [("512M", "512MiB"), ("ON", "on"), ("60s", "1min"), ("False", "false")] {
            assert_eq!(of(one), of(other));
        }
        for (one, other) in [("512M", "513M"), ("1048576", "1M"), ("60s", "1m"), ("ON", "OFF"), ("a.lua", "A.lua")] {
            assert_ne!(of(one), of(other));
        }
    }

    #[test]
    fn the_shape_of_the_tables_is_a_condition() {
        let of = |text: &str| written(text.parse().expect("a table"));
        assert_eq!(
            of("fill.rows = 5"),
            of("fill.rows = 7\nfill.tables = 1\nfill.secondary = false"),
            "or is told by the data"
        );
        assert_eq!(of("fill.secondary = true"), of("fill.secondary_indexes = 1"));
        assert_ne!(of("fill.secondary_indexes = 3"), of("fill.rows = 5"));
        assert_ne!(of("fill.rand_pareto_h = 0.3"), of("fill.rand_pareto_h = 0.2"));
        assert_ne!(of("fill.pgbench = 10"), of("fill.pgbench = 100"));
    }
}
