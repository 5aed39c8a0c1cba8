// SPDX-License-Identifier: Apache-2.0
//! Dotted paths of keys, and the values at these paths.

use keyfile::{At, Entry, Node, Table, Value};

/// Tables whose keys are the server's own names: `-` and `_` are the same letter in them, and a dot is part of a name.
const FREE: [&str; 2] = ["server.options.", "server.live."];

/// The keys of `server.options.innodb_buffer_pool_size`, one below the other.
pub(crate) fn keys(path: &str) -> Vec<String> {
    match FREE.iter().find_map(|table| path.strip_prefix(table).map(|name| (table, name))) {
        Some((table, name)) => {
            let tables = table.trim_end_matches('.').split('.').map(str::to_owned);
            tables.chain([name.replace('-', "_")]).collect()
        }
        None => path.split('.').map(str::to_owned).collect(),
    }
}

/// The path as messages show it, and as paths are compared.
pub(crate) fn plain(path: &str) -> String {
    keys(path).join(".")
}

/// Whether the two paths are the same, or one of them is a table around the other.
pub(crate) fn overlap(a: &str, b: &str) -> bool {
    let inside = |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'));
    a == b || inside(a, b) || inside(b, a)
}

/// The value at a path.
pub(crate) fn find<'t>(table: &'t Table, path: &str) -> Option<&'t Node> {
    let keys = keys(path);
    let (last, tables) = keys.split_last()?;
    let table = tables.iter().try_fold(table, |table, key| table.table(key))?;
    table.get(last).or_else(|| {
        let same = |key: &&String| key.replace('-', "_") == *last;
        table.0.keys().find(same).and_then(|key| table.get(key))
    })
}

/// Sets the value at a path, and makes the tables around it where they are missing.
///
/// # Errors
/// The path of a value that is in the way because it is no table.
pub(crate) fn set(table: &mut Table, path: &str, key_at: &At, node: Node) -> Result<(), String> {
    let keys = keys(path);
    let Some((last, tables)) = keys.split_last() else { return Ok(()) };
    let mut table = table;
    for (depth, key) in tables.iter().enumerate() {
        let empty = || Node { at: node.at.clone(), value: Value::Table(Table::default()) };
        let entry = table.0.entry(key.clone()).or_insert_with(|| Entry { key_at: key_at.clone(), node: empty() });
        match &mut entry.node.value {
            Value::Table(inner) => table = inner,
            _ => return Err(keys[..=depth].join(".")),
        }
    }
    if FREE.iter().any(|free| path.starts_with(free)) {
        table.0.retain(|key, _| key.replace('-', "_") != *last);
    }
    table.0.insert(last.clone(), Entry { key_at: key_at.clone(), node });
    Ok(())
}

/// A value as a person would write it on one line.
pub(crate) fn written(value: &Value) -> String {
    match value {
        Value::Table(table) => {
            let each: Vec<String> =
                table.0.iter().map(|(key, entry)| format!("{key} = {}", written(&entry.node.value))).collect();
            format!("{{ {} }}", each.join(", "))
        }
        Value::List(items) => {
            let each: Vec<String> = items.iter().map(|item| written(&item.value)).collect();
            format!("[{}]", each.join(", "))
        }
        other => other.written(),
    }
}
