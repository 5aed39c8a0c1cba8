// SPDX-License-Identifier: Apache-2.0
//! `[matrix.follow]`: keys that are computed from others, in each setting: `innodb_buffer_pool_size = "0.7x server_ram"`.

use crate::path;
use crate::quantity::{Kind, Quantity};
use keyfile::{At, Node, Problems, Section, Table, Value, suggest};
use std::collections::BTreeSet;

/// A key that follows another key: its value is `factor` times the other key's value, and `plus` more.
#[derive(Debug, Clone)]
pub(crate) struct Follow {
    pub(crate) path: String,
    pub(crate) key_at: At,
    at: At,
    factor: f64,
    /// The key that is followed, as it is written: the last part of its path is enough where no other key has the same last part.
    of: String,
    plus: Option<Plus>,
}

/// What is added or taken away. It is read as the key that is followed is, because `1m` is a minute for a time and a mebibyte for a size.
#[derive(Debug, Clone)]
struct Plus {
    is_taken_away: bool,
    amount: Value,
}

impl Plus {
    fn of(&self, path: &str) -> Option<Quantity> {
        let amount = Quantity::of(path, &self.amount)?;
        Some(Quantity { value: if self.is_taken_away { -amount.value } else { amount.value }, ..amount })
    }
}

const EXAMPLE: &str = "write it as \"0.7x server_ram\": a factor, and the key that it follows; \"0.7x server_ram - 64M\" \
    takes a size away";

pub(crate) fn read(section: &Section<'_>, problems: &Problems) -> Vec<Follow> {
    let follow = section.section("follow");
    let mut found = Vec::new();
    follow.entries().for_each(|(key, entry)| collect(key, &entry.key_at, &entry.node, problems, &mut found));
    found
}

fn collect(path: &str, key_at: &At, node: &Node, problems: &Problems, found: &mut Vec<Follow>) {
    if let Value::Table(inner) = &node.value {
        let below = |(key, entry): (&String, &keyfile::Entry)| {
            collect(&format!("{path}.{key}"), &entry.key_at, &entry.node, problems, found);
        };
        return inner.0.iter().for_each(below);
    }
    let parsed = match &node.value {
        Value::Text(text) => parse(text),
        _ => None,
    };
    let Some((factor, of, plus)) = parsed else {
        let message = format!("{} does not say what {path} follows", path::written(&node.value));
        problems.add(&node.at, message, Some(EXAMPLE.into()));
        return;
    };
    found.push(Follow { path: path::plain(path), key_at: key_at.clone(), at: node.at.clone(), factor, of, plus });
}

/// `0.7x server_ram - 64M`.
fn parse(text: &str) -> Option<(f64, String, Option<Plus>)> {
    let (factor, rest) = text.trim().split_once(['x', '*'])?;
    let factor: f64 = factor.trim().parse().ok().filter(|factor: &f64| factor.is_finite() && *factor > 0.0)?;
    let mut words = rest.split_whitespace();
    let of = words.next()?.to_owned();
    let plus = match (words.next(), words.next(), words.next()) {
        (None, ..) => None,
        (Some(sign @ ("+" | "-")), Some(amount), None) => {
            let amount = Value::Text(amount.to_owned());
            Quantity::of("", &amount)?;
            Some(Plus { is_taken_away: sign == "-", amount })
        }
        _ => return None,
    };
    Some((factor, of, plus))
}

/// Computes the keys of one setting; a key that others follow is computed before them. A key that cannot be computed is reported, and not set.
pub(crate) fn apply(follows: &[Follow], file: &mut Table, problems: &Problems) {
    let mut due: Vec<(&Follow, String)> =
        follows.iter().filter_map(|follow| Some((follow, resolved(follow, follows, file, problems)?))).collect();
    let mut is_due: BTreeSet<String> = due.iter().map(|(follow, _)| follow.path.clone()).collect();
    loop {
        let (ready, later): (Vec<_>, Vec<_>) = due.into_iter().partition(|(_, of)| !is_due.contains(of));
        if ready.is_empty() {
            return circle(&later, problems);
        }
        for (follow, of) in ready {
            is_due.remove(&follow.path);
            compute(follow, &of, file, problems);
        }
        due = later;
    }
}

/// The whole path of the key that is followed.
fn resolved(follow: &Follow, follows: &[Follow], file: &Table, problems: &Problems) -> Option<String> {
    let mut paths: BTreeSet<String> =
        file.0.iter().filter(|(key, _)| *key != "arm").flat_map(|(key, entry)| leaves(key, &entry.node)).collect();
    paths.extend(follows.iter().map(|follow| follow.path.clone()));
    let wanted = path::plain(&follow.of);
    if paths.contains(&wanted) {
        return Some(wanted);
    }
    let wanted = if wanted == "pool" { pool(file) } else { wanted };
    let last = |path: &String| path::keys(path).last().is_some_and(|last| *last == wanted.replace('-', "_"));
    let found: Vec<&String> = paths.iter().filter(|path| **path == wanted || last(path)).collect();
    match found.as_slice() {
        [one] => Some((*one).clone()),
        [] => {
            let names: Vec<&str> = paths.iter().map(|path| path.rsplit('.').next().unwrap_or(path)).collect();
            let hint = suggest(&wanted, &names).filter(|hint| hint.starts_with("did you"));
            let hint = hint.unwrap_or_else(|| "name a key that the file or the matrix sets: squeeze.server_ram".into());
            problems.add(&follow.at, format!("{} follows {}, which nothing sets", follow.path, follow.of), Some(hint));
            None
        }
        several => {
            let all: Vec<&str> = several.iter().map(|path| path.as_str()).collect();
            let message = format!("{} follows {}, which several keys are called", follow.path, follow.of);
            problems.add(&follow.at, message, Some(format!("write one of them: {}", all.join(", "))));
            None
        }
    }
}

/// The server's variable for the size of its own page cache.
fn pool(file: &Table) -> String {
    let flavour = path::find(file, "server.flavour").map(|node| node.value.written());
    let known = experiment::Flavour::ALL.into_iter().find(|it| flavour.as_deref() == Some(it.name()));
    format!("server.options.{}", known.unwrap_or(experiment::Flavour::Mariadb).pool_variable())
}

fn leaves(path: &str, node: &Node) -> Vec<String> {
    match &node.value {
        Value::Table(inner) => {
            inner.0.iter().flat_map(|(key, entry)| leaves(&format!("{path}.{key}"), &entry.node)).collect()
        }
        _ => vec![path::plain(path)],
    }
}

fn compute(follow: &Follow, of: &str, file: &mut Table, problems: &Problems) {
    // a key that could not be computed has been reported already
    let Some(node) = path::find(file, of) else { return };
    let Some(base) = Quantity::of(of, &node.value) else {
        let message = format!(
            "{} follows {of}, which is {} in a setting: no size, time or number",
            follow.path,
            path::written(&node.value)
        );
        let hint = Some("give it a value that can be computed with, or leave this key out of [matrix.follow]".into());
        return problems.add(&follow.at, message, hint);
    };
    let plus = follow.plus.as_ref().and_then(|plus| plus.of(of));
    let fits = plus.is_none_or(|plus| plus.kind == base.kind || (plus.kind, base.kind) == (Kind::Whole, Kind::Number));
    if !fits {
        let message = format!("{} adds something of another kind to {of}", follow.path);
        return problems.add(&follow.at, message, Some(EXAMPLE.into()));
    }
    let value = base.value * follow.factor + plus.map_or(0.0, |plus| plus.value);
    let written = Quantity { value, ..base }.written(&follow.path, file);
    // also what is rounded to nothing
    if value <= 0.0 || Quantity::of(&follow.path, &written).is_some_and(|it| it.value <= 0.0) {
        let would_be = if value > 0.0 { path::written(&written) } else { value.to_string() };
        let message = format!("{} would be {would_be} where {of} is {}", follow.path, path::written(&node.value));
        return problems.add(&follow.at, message, Some("take less away, or leave that value of the matrix out".into()));
    }
    let node = Node { at: follow.at.clone(), value: written };
    if let Err(blocked) = path::set(file, &follow.path, &follow.key_at, node) {
        problems.add(&follow.key_at, format!("{} cannot be set: {blocked} is no table", follow.path), None);
    }
}

fn circle(left: &[(&Follow, String)], problems: &Problems) {
    let Some((first, _)) = left.first() else { return };
    // whichever key it begins at, it is in the circle after as many steps as there are keys
    let next = |path: &String| left.iter().find(|(follow, _)| follow.path == *path).map(|(_, of)| of.clone());
    let mut path = first.path.clone();
    for _ in left {
        path = next(&path).unwrap_or(path);
    }
    let mut round = vec![path.clone()];
    while let Some(of) = next(&round[round.len() - 1]) {
        round.push(of);
        if round[round.len() - 1] == path || round.len() > left.len() + 1 {
            break;
        }
    }
    let at = left.iter().find(|(follow, _)| follow.path == path).map_or(&first.at, |(follow, _)| &follow.at);
    let message = format!("keys of matrix.follow go in a circle: {}", round.join(" follows "));
    problems.add(at, message, Some("let one of them be a value, or vary".into()));
}
