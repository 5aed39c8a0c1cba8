// SPDX-License-Identifier: Apache-2.0
//! From the text of a workload's file to [`WorkloadFile`].

use super::sent_statements::PARAMETERS_MOST;
use super::source::{Bound, Parameter, Pause, Source};
use super::sql::Sql;
use super::{Problem, StatementOf, TransactionOf, WorkloadFile};
use crate::Kind;
use crate::distribution::{self, Distribution, NUMBERS};
use keyfile::{Node, Problems, Section, Table, Value, suggest, tree};
use units::Span;

/// The version of the file format that this program reads.
const SCHEMA: u32 = 1;
const LONGEST_PAUSE: Span = Span::secs(3600);
/// Types in addition to the kinds of distributions.
const TYPES: [&str; 4] = ["sequence", "constant", "string", "copy"];
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

pub(super) fn file(text: &str) -> Result<WorkloadFile, Vec<Problem>> {
    let problems = Problems::of(text);
    let table = tree::parse(text, &problems);
    if !problems.is_empty() {
        return Err(problems.into_sorted());
    }
    let file = read(&table, text, &problems);
    if problems.is_empty() { Ok(file) } else { Err(problems.into_sorted()) }
}

fn read(table: &Table, text: &str, problems: &Problems) -> WorkloadFile {
    let top = Section::top(table, problems);
    if top.node("schema").is_none() {
        top.missing("schema", &format!("write schema = {SCHEMA} as the first line"));
    }
    top.integer("schema", SCHEMA..=SCHEMA);
    let reader = Reader { problems, parameters: parameters(&top, problems) };
    let think = pause(&top, "think", problems);
    let file = WorkloadFile {
        name: top.text("name").map(|name| name.value),
        text: text.to_owned(),
        transactions: reader.transactions(&top, think),
        retry: retry(&top),
        parameters: Vec::new(),
    };
    top.finish();
    reader.unused(&file.transactions);
    WorkloadFile { parameters: reader.parameters, ..file }
}

fn retry(top: &Section<'_>) -> Option<Vec<String>> {
    let node = top.node("retry")?;
    let hint = || Some("write the codes of errors, such as retry = [\"40001\", \"1213\"]; [] retries none".to_owned());
    let Value::List(items) = &node.value else {
        top.wrong(Some(node), &format!("retry is {}, not a list", node.value.kind()), hint());
        return None;
    };
    let is_code = |text: &str| {
        let number = text.parse::<u16>().is_ok();
        number || (text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()))
    };
    let codes = items.iter().map(|item| {
        let text = item.value.written();
        if !is_code(&text) || !matches!(item.value, Value::Text(_) | Value::Integer(_)) {
            top.wrong(Some(item), &format!("\"{text}\" is not the code of an error"), hint());
        }
        text
    });
    Some(codes.collect())
}

/// `"20ms"`, `{ type = "uniform", min = "10ms", max = "1s" }`, `{ type = "exponential", mean = "1s" }`.
fn pause(section: &Section<'_>, key: &'static str, problems: &Problems) -> Pause {
    let Some(node) = section.node(key) else { return Pause::None };
    if !matches!(node.value, Value::Table(_)) {
        let span = section.unit::<Span>(key, "20ms").map_or(Span::ZERO, |span| span.value);
        limit(section, node, span);
        return if span.is_zero() { Pause::None } else { Pause::Fixed(span) };
    }
    let Some(own) = Section::at(section.named(key), node, problems) else { return Pause::None };
    let required = |key: &'static str| {
        let span = own.unit::<Span>(key, "20ms");
        if own.node(key).is_none() {
            own.missing(key, &format!("write {key} = \"20ms\""));
        }
        let span = span.map_or(Span::ZERO, |span| span.value);
        own.node(key).into_iter().for_each(|node| limit(&own, node, span));
        span
    };
    let found = match own.choice("type", &["uniform", "exponential"]).map(|word| word.value) {
        Some("uniform") => Pause::Uniform { min: required("min"), max: required("max") },
        Some(_) => Pause::Exponential { mean: required("mean") },
        None => {
            if own.node("type").is_none() {
                own.missing(
                    "type",
                    "write type = \"exponential\" with mean = \"1s\", or type = \"uniform\" with min and max",
                );
            }
            Pause::None
        }
    };
    if let Pause::Uniform { min, max } = found
        && min > max
    {
        own.wrong(own.node("min"), &format!("min = {min} is above max = {max}"), Some("swap them".into()));
        return Pause::None;
    }
    own.finish();
    found
}

fn limit(section: &Section<'_>, node: &Node, span: Span) {
    if span > LONGEST_PAUSE {
        section.wrong(Some(node), &format!("nobody waits {span} here"), Some(format!("{LONGEST_PAUSE} is the most")));
    }
}

fn parameters(top: &Section<'_>, problems: &Problems) -> Vec<Parameter> {
    let section = top.section("parameters");
    let names: Vec<&String> = section.entries().map(|(name, _)| name).collect();
    let mut found: Vec<Parameter> = Vec::new();
    for (name, entry) in section.entries() {
        let fits = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !fits || name.bytes().next().is_none_or(|first| first.is_ascii_digit()) {
            let hint =
                Some("use letters, digits and '_', not a digit first: it is written :name in a statement".into());
            problems.add(&entry.key_at, format!("a parameter cannot be named \"{name}\""), hint);
        }
        let (source, each_statement) = parameter(name, &entry.node, &names, problems);
        found.push(Parameter { name: name.clone(), source, each_statement, at: entry.key_at.clone() });
    }
    if found.len() > PARAMETERS_MOST {
        let message = format!("there are {} parameters", found.len());
        problems.add(&found[PARAMETERS_MOST].at.clone(), message, Some(format!("{PARAMETERS_MOST} are the most")));
        found.truncate(PARAMETERS_MOST);
    }
    copies(&mut found, problems);
    found
}

/// A copy is drawn when its origin is drawn; a chain of copies that leads back to itself is never drawn.
fn copies(found: &mut [Parameter], problems: &Problems) {
    for index in 0..found.len() {
        let mut origin = index;
        for _ in 0..=found.len() {
            match found[origin].source {
                Source::Copy { of, .. } if of < found.len() => origin = of,
                _ => break,
            }
        }
        if matches!(found[origin].source, Source::Copy { .. }) {
            let hint = Some("let one of them draw its own value".into());
            problems.add(&found[index].at, format!("parameter {} is a copy of itself", found[index].name), hint);
            return;
        }
        if let (Source::Copy { plus, .. }, Source::Text(_) | Source::Characters { .. }) =
            (&found[index].source, &found[origin].source)
            && *plus != 0
        {
            let message =
                format!("parameter {} adds a number to {}, which is a text", found[index].name, found[origin].name);
            problems.add(&found[index].at, message, Some("leave plus out".into()));
        }
        found[index].each_statement = found[origin].each_statement;
    }
}

fn parameter(name: &str, node: &Node, names: &[&String], problems: &Problems) -> (Source, bool) {
    match &node.value {
        Value::Integer(number) => return (Source::Int(*number), false),
        Value::Text(text) => return (Source::Text(text.clone()), false),
        Value::Float(number) => return (Source::Text(number.to_string()), false),
        _ => {}
    }
    let Some(own) = Section::at(format!("parameters.{name}"), node, problems) else { return (Source::Int(0), false) };
    let types: Vec<&str> = distribution::Kind::ALL.map(distribution::Kind::name).into_iter().chain(TYPES).collect();
    let kind = own.choice("type", &types).map(|word| word.value);
    if own.node("type").is_none() {
        own.missing("type", &format!("write type = \"uniform\" with min and max, or one of {}", types.join(", ")));
    }
    let each_statement = own.choice("per", &["transaction", "statement"]).is_some_and(|word| word.value == "statement");
    let source = match kind {
        Some("sequence") => Source::Sequence {
            start: bound(&own, "start").unwrap_or(Bound::of(1)),
            step: own.integer("step", -1_000_000i64..=1_000_000).map_or(1, |step| step.value),
        },
        Some("constant") => constant(&own),
        Some("string") => characters(&own),
        Some("copy") => copy(&own, names),
        Some(kind) => number(&own, kind),
        None => return (Source::Int(0), false), // its other keys depend on the type
    };
    own.finish();
    (source, each_statement)
}

fn bound(own: &Section<'_>, key: &'static str) -> Option<Bound> {
    let node = own.node(key)?;
    match &node.value {
        Value::Integer(number) => Some(Bound::of(*number)),
        Value::Text(text) if Bound::parse(text).is_some() => Bound::parse(text),
        other => {
            let message = format!("{} cannot be \"{}\"", own.named(key), other.written());
            own.wrong(Some(node), &message, Some("write a whole number, \"table_size\", or \"table_size + 1\"".into()));
            None
        }
    }
}

fn number(own: &Section<'_>, kind: &str) -> Source {
    let end = |key: &'static str, example: &str| {
        if own.node(key).is_none() {
            own.missing(key, &format!("write {key} = {example}"));
        }
        bound(own, key).unwrap_or(Bound::of(1))
    };
    let (min, max) = (end("min", "1"), end("max", "100000, or max = \"table_size\""));
    if !min.table_size && !max.table_size && min.plus > max.plus {
        own.wrong(own.node("min"), &format!("min = {min} is above max = {max}"), Some("swap them".into()));
    }
    let kind = kind.parse().unwrap_or_default();
    let mut options = distribution::Options { kind, ..distribution::Options::default() };
    for number in NUMBERS.iter().filter(|number| number.of.contains(&kind)) {
        number.read(own, number.in_workload_files, &mut options);
    }
    let distribution = options.check().unwrap_or(Distribution::Uniform);
    Source::Number { distribution, min, max }
}

fn constant(own: &Section<'_>) -> Source {
    match own.node("value").map(|node| &node.value) {
        Some(Value::Integer(number)) => Source::Int(*number),
        Some(Value::Text(text)) => Source::Text(text.clone()),
        Some(Value::Float(number)) => Source::Text(number.to_string()),
        Some(other) => {
            let hint = Some("write a number or a text".into());
            own.wrong(own.node("value"), &format!("{} is {}", own.named("value"), other.kind()), hint);
            Source::Int(0)
        }
        None => {
            own.missing("value", "write value = \"NEW\"");
            Source::Int(0)
        }
    }
}

/// `length = 20`, or `min_length` and `max_length`.
fn characters(own: &Section<'_>) -> Source {
    let lengths = 0..=1_000_000u32;
    let length = own.integer("length", lengths.clone()).map(|length| length.value);
    let shortest = own.integer("min_length", lengths.clone()).map(|length| length.value);
    let longest = own.integer("max_length", lengths).map(|length| length.value);
    let (shortest, longest) = match (length, shortest, longest) {
        (Some(length), None, None) => (length, length),
        (None, Some(shortest), Some(longest)) if shortest <= longest => (shortest, longest),
        (None, Some(shortest), Some(longest)) => {
            let message = format!("min_length = {shortest} is above max_length = {longest}");
            own.wrong(own.node("min_length"), &message, Some("swap them".into()));
            (longest, longest)
        }
        _ => {
            let hint = Some("write length = 20, or min_length = 8 and max_length = 20".into());
            own.wrong(None, &format!("{} has no clear length", own.named("").trim_end_matches('.')), hint);
            (1, 1)
        }
    };
    let of: Vec<char> =
        own.text("characters").map_or_else(|| LETTERS.chars().collect(), |text| text.value.chars().collect());
    if of.is_empty() {
        own.wrong(
            own.node("characters"),
            "there is no character to choose from",
            Some("write characters = \"0123456789\"".into()),
        );
        return Source::Characters { shortest: 0, longest: 0, of };
    }
    Source::Characters { shortest, longest, of }
}

fn copy(own: &Section<'_>, names: &[&String]) -> Source {
    let plus = own.integer("plus", -1_000_000_000_000i64..=1_000_000_000_000).map_or(0, |plus| plus.value);
    let Some(of) = own.text("of") else {
        if own.node("of").is_none() {
            own.missing("of", "write of = \"low\", the name of another parameter");
        }
        return Source::Int(0);
    };
    match names.iter().position(|name| **name == of.value) {
        Some(of) => Source::Copy { of, plus },
        None => {
            let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
            own.wrong(own.node("of"), &format!("there is no parameter \"{}\"", of.value), suggest(&of.value, &names));
            Source::Int(0)
        }
    }
}

struct Reader<'a> {
    problems: &'a Problems,
    parameters: Vec<Parameter>,
}

impl Reader<'_> {
    fn transactions(&self, top: &Section<'_>, think: Pause) -> Vec<TransactionOf> {
        let example = "write [[transaction]] with statements = [\"SELECT ...\"]";
        let items = match top.node("transaction").map(|node| (node, &node.value)) {
            Some((_, Value::List(items))) if !items.is_empty() => items,
            Some((node, _)) => {
                top.wrong(
                    Some(node),
                    "transaction is not a list of tables",
                    Some("write [[transaction]], with two brackets".into()),
                );
                return Vec::new();
            }
            None => {
                top.missing("transaction", example);
                return Vec::new();
            }
        };
        let read = |(index, node): (usize, &Node)| {
            let own = Section::at("transaction".into(), node, self.problems)?;
            let transaction = self.transaction(&own, index, think);
            own.finish();
            Some(transaction)
        };
        items.iter().enumerate().filter_map(read).collect()
    }

    fn transaction(&self, own: &Section<'_>, index: usize, think: Pause) -> TransactionOf {
        let name = own.text("name").map_or_else(|| format!("t{}", index + 1), |name| name.value);
        let statements = self.statements(own, &name);
        let sent: u64 = statements.iter().map(|statement| u64::from(statement.times)).sum();
        TransactionOf {
            weight: own.integer("weight", 1..=1_000_000u32).map_or(1, |weight| weight.value),
            begin: begin(own, sent > 1),
            think: if own.node("think").is_some() { pause(own, "think", self.problems) } else { think },
            statements,
            name,
        }
    }

    fn statements(&self, own: &Section<'_>, transaction: &str) -> Vec<StatementOf> {
        let items = match own.node("statements").map(|node| (node, &node.value)) {
            Some((_, Value::List(items))) if !items.is_empty() => items,
            Some((node, _)) => {
                own.wrong(
                    Some(node),
                    "statements is no list with something in it",
                    Some("write statements = [\"SELECT 1\"]".into()),
                );
                return Vec::new();
            }
            None => {
                own.missing("statements", "write statements = [\"SELECT c FROM sbtest1 WHERE id = :id\"]");
                return Vec::new();
            }
        };
        let alone = items.len() == 1;
        let read = |(index, node): (usize, &Node)| {
            let class = if alone { transaction.to_owned() } else { format!("{transaction}.{}", index + 1) };
            self.statement(node, class)
        };
        items.iter().enumerate().filter_map(read).collect()
    }

    fn statement(&self, node: &Node, class: String) -> Option<StatementOf> {
        let at = node.at.clone();
        if let Value::Text(text) = &node.value {
            let sql = self.sql(text, node)?;
            let kind = kind_of(&sql);
            return Some(StatementOf {
                class,
                kind,
                mysql: Some(sql.clone()),
                postgresql: Some(sql),
                times: 1,
                pause: Pause::None,
                at,
            });
        }
        let own = Section::at("statements".into(), node, self.problems)?;
        let text = |key: &'static str| own.text(key).and_then(|text| self.sql(&text.value, own.node(key)?));
        let both = text("sql");
        let (mysql, postgresql) = (text("mysql").or_else(|| both.clone()), text("postgresql").or(both));
        if ["sql", "mysql", "postgresql"].iter().all(|key| own.node(key).is_none()) {
            own.missing("sql", "write sql = \"SELECT ...\", or mysql = \"...\" and postgresql = \"...\"");
        }
        let kind = match own.choice("kind", &["read", "write", "other"]).map(|word| word.value) {
            Some("read") => Kind::Read,
            Some("write") => Kind::Write,
            Some(_) => Kind::Other,
            None => mysql.as_ref().or(postgresql.as_ref()).map_or(Kind::Other, kind_of),
        };
        let statement = StatementOf {
            class: own.text("name").map_or(class, |name| name.value),
            kind,
            mysql,
            postgresql,
            times: own.integer("repeat", 1..=10_000u32).map_or(1, |times| times.value),
            pause: pause(&own, "think", self.problems),
            at,
        };
        own.finish();
        Some(statement)
    }

    fn sql(&self, text: &str, node: &Node) -> Option<Sql> {
        let index_of = |name: &str| self.parameters.iter().position(|parameter| parameter.name == name);
        if text.contains('\0') {
            let hint = Some("leave it out: the statement would end there".into());
            self.problems.add(&node.at, "a statement cannot hold a zero byte", hint);
            return None;
        }
        match Sql::parse(text, index_of) {
            Ok(sql) if sql.is_empty() => {
                self.problems.add(&node.at, "a statement is empty", Some("write it, or leave it out".into()));
                None
            }
            Ok(sql) => Some(sql),
            Err(unknown) => {
                let names: Vec<&str> = self.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
                for name in unknown {
                    let hint = match suggest(&name, &names) {
                        Some(hint) => format!("{hint} Else write {name} = ... below [parameters]"),
                        None => {
                            format!("write {name} = {{ type = \"uniform\", min = 1, max = 1000 }} below [parameters]")
                        }
                    };
                    self.problems.add(&node.at, format!("there is no parameter \"{name}\" for :{name}"), Some(hint));
                }
                None
            }
        }
    }

    /// A parameter that no statement uses is most often a mistake.
    fn unused(&self, transactions: &[TransactionOf]) {
        let statements = transactions.iter().flat_map(|transaction| &transaction.statements);
        let texts = statements.flat_map(|statement| statement.mysql.iter().chain(&statement.postgresql));
        let mut used: Vec<usize> = texts.flat_map(Sql::parameters).collect();
        used.extend(self.parameters.iter().filter_map(|parameter| match parameter.source {
            Source::Copy { of, .. } => Some(of),
            _ => None,
        }));
        // a statement that could not be read may have used it
        if !self.problems.is_empty() {
            return;
        }
        for (index, parameter) in self.parameters.iter().enumerate().filter(|(index, _)| !used.contains(index)) {
            debug_assert!(index < self.parameters.len());
            let message = format!("no statement uses the parameter {}", parameter.name);
            self.problems.add(
                &parameter.at,
                message,
                Some(format!("write :{} in a statement, or leave it out", parameter.name)),
            );
        }
    }
}

/// `begin = true` or `false`, or the text of the statement that opens the transaction.
fn begin(own: &Section<'_>, default: bool) -> Option<String> {
    let wanted = match own.node("begin").map(|node| &node.value) {
        Some(Value::Text(text)) if !text.trim().is_empty() => {
            return Some(text.trim().trim_end_matches(';').to_owned());
        }
        Some(_) => own.boolean("begin").is_none_or(|wanted| wanted.value),
        None => default,
    };
    wanted.then(|| "BEGIN".to_owned())
}

/// The kind as sysbench counts the statement, by the first word.
fn kind_of(sql: &Sql) -> Kind {
    match sql.first_word().as_str() {
        "select" | "with" | "values" | "table" | "show" | "explain" | "fetch" => Kind::Read,
        "insert" | "update" | "delete" | "replace" | "merge" | "truncate" | "load" | "copy" => Kind::Write,
        _ => Kind::Other,
    }
}
