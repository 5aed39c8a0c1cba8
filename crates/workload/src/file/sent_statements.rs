// SPDX-License-Identifier: Apache-2.0
//! A file's workload as it is sent to one family of servers.

use super::source::{Pause, Source};
use super::{Problem, WorkloadFile};
use crate::Code;
use crate::distribution::{Draw as _, Sampler};
use crate::{Kind, Param, Rng, StatementSpec, Transaction, Workload};
use capability::Protocol;
use keyfile::Problems;
use std::sync::atomic::{AtomicI64, Ordering};

/// The most parameters: more than any file has. The values of one transaction are on the stack.
pub(super) const PARAMETERS_MOST: usize = 64;

pub(super) struct Played {
    statements: Vec<StatementSpec>,
    values: Vec<Values>,
    scripts: Vec<Script>,
    /// Sum of the weights.
    weight: u64,
    retry: Option<Vec<String>>,
}

struct Values {
    draw: Drawn,
    each_statement: bool,
}

enum Drawn {
    Number { sampler: Sampler, least: i64 },
    Sequence { next: AtomicI64, step: i64 },
    Int(i64),
    Text(Vec<u8>),
    Characters { shortest: u32, longest: u32, of: Vec<char> },
    Copy { of: usize, plus: i64 },
}

/// One kind of transaction.
struct Script {
    weight: u64,
    /// The statements BEGIN and COMMIT.
    frame: Option<(usize, usize)>,
    calls: Vec<Call>,
    think: Pause,
}

struct Call {
    statement: usize,
    parameters: Vec<usize>,
    times: u32,
    pause: Pause,
}

pub(super) fn build(file: &WorkloadFile, protocol: Protocol, table_size: u64) -> Result<Played, Vec<Problem>> {
    let problems = Problems::of(&file.text);
    let values = file.parameters.iter().map(|parameter| {
        let draw = drawn(&parameter.source, table_size).unwrap_or_else(|| {
            let name = &parameter.name;
            let (message, hint) = match &parameter.source {
                Source::Number { min, max, .. } if min.value(table_size) <= max.value(table_size) => {
                    let why = "more than 2^63 numbers lie between its min and its max";
                    (format!("parameter {name}: {why}"), "draw from fewer")
                }
                _ => {
                    let hint = "give the size of the tables, or a max of your own";
                    (format!("parameter {name} has an empty range with tables of {table_size} rows"), hint)
                }
            };
            problems.add(&parameter.at, message, Some(hint.into()));
            Drawn::Int(0)
        });
        Values { draw, each_statement: parameter.each_statement }
    });
    let values = values.collect();
    let mut builder = Builder { protocol, problems: &problems, statements: Vec::new() };
    let scripts: Vec<Script> = file.transactions.iter().map(|transaction| builder.script(transaction)).collect();
    let statements = builder.statements;
    if !problems.is_empty() {
        return Err(problems.into_sorted());
    }
    let weight = scripts.iter().map(|script| script.weight).sum();
    Ok(Played { statements, values, scripts, weight, retry: file.retry.clone() })
}

/// `None`: a range without a number in it.
fn drawn(source: &Source, table_size: u64) -> Option<Drawn> {
    Some(match source {
        Source::Number { distribution, min, max } => {
            let (least, most) = (min.value(table_size), max.value(table_size));
            let span = most.checked_sub(least).and_then(|span| u64::try_from(span).ok())?;
            Drawn::Number { sampler: distribution.sampler(0, span), least }
        }
        Source::Sequence { start, step } => Drawn::Sequence { next: start.value(table_size).into(), step: *step },
        Source::Int(number) => Drawn::Int(*number),
        Source::Text(text) => Drawn::Text(text.clone().into_bytes()),
        Source::Characters { shortest, longest, of } => {
            Drawn::Characters { shortest: *shortest, longest: *longest, of: of.clone() }
        }
        Source::Copy { of, plus } => Drawn::Copy { of: *of, plus: *plus },
    })
}

struct Builder<'a> {
    protocol: Protocol,
    problems: &'a Problems,
    statements: Vec<StatementSpec>,
}

impl Builder<'_> {
    fn script(&mut self, transaction: &super::TransactionOf) -> Script {
        let frame =
            transaction.begin.as_ref().map(|begin| (self.framing("begin", begin), self.framing("commit", "COMMIT")));
        let calls = transaction.statements.iter().filter_map(|statement| self.call(statement)).collect();
        Script { weight: transaction.weight.into(), frame, calls, think: transaction.think }
    }

    fn framing(&mut self, class: &str, sql: &str) -> usize {
        let same = |known: &StatementSpec| known.class == class && known.sql == sql;
        self.statements.iter().position(same).unwrap_or_else(|| {
            self.add(StatementSpec {
                class: class.into(),
                kind: Kind::Other,
                sql: sql.into(),
                params: 0,
                returns_rows: false,
            })
        })
    }

    fn add(&mut self, statement: StatementSpec) -> usize {
        self.statements.push(statement);
        self.statements.len() - 1
    }

    fn call(&mut self, statement: &super::StatementOf) -> Option<Call> {
        let (family, key) = match self.protocol {
            Protocol::Mysql => ("the MySQL family", "mysql"),
            Protocol::Postgresql => ("PostgreSQL", "postgresql"),
        };
        let Some(sql) = statement.sql(self.protocol) else {
            let message = format!("statement {} has no text for {family}", statement.class);
            self.problems.add(
                &statement.at,
                message,
                Some(format!("write {key} = \"...\" beside the other, or sql = \"...\" for both")),
            );
            return None;
        };
        let own = match self.protocol {
            Protocol::Mysql => sql.question_mark.then_some("?"),
            Protocol::Postgresql => sql.dollar.then_some("$1"),
        };
        if let Some(own) = own {
            let message = format!("statement {} has a placeholder of {family}'s own, {own}", statement.class);
            self.problems.add(&statement.at, message, Some("name a parameter instead: WHERE id = :id".into()));
        }
        let parameters: Vec<usize> = sql.parameters().collect();
        let index = self.add(StatementSpec {
            class: statement.class.clone(),
            kind: statement.kind,
            sql: sql.for_server(self.protocol),
            params: parameters.len(),
            returns_rows: statement.kind == Kind::Read,
        });
        Some(Call { statement: index, parameters, times: statement.times, pause: statement.pause })
    }
}

/// The values that a transaction has drawn so far.
type Slots = [Option<Param>; PARAMETERS_MOST];

impl Workload for Played {
    fn statements(&self) -> &[StatementSpec] {
        &self.statements
    }

    fn next(&self, rng: &mut Rng, transaction: &mut Transaction) {
        let script = self.pick(rng);
        let mut slots: Slots = [None; PARAMETERS_MOST];
        if let Some((begin, _)) = script.frame {
            transaction.step(begin);
        }
        for call in &script.calls {
            for _ in 0..call.times {
                transaction.step(call.statement);
                transaction.pause(call.pause.draw_ns(rng));
                self.forget(&mut slots);
                for parameter in &call.parameters {
                    let value = self.value(*parameter, &mut slots, rng, transaction);
                    transaction.param(value);
                }
            }
        }
        if let Some((_, commit)) = script.frame {
            transaction.step(commit);
        }
        transaction.think(script.think.draw_ns(rng));
    }

    fn retries(&self, code: Code) -> bool {
        match &self.retry {
            None => code.is_retryable(),
            Some(codes) => codes.contains(&code.to_string()),
        }
    }
}

impl Played {
    fn pick(&self, rng: &mut Rng) -> &Script {
        if self.scripts.len() == 1 {
            return &self.scripts[0];
        }
        let mut left = rng.below(self.weight);
        let chosen = self.scripts.iter().find(|script| {
            let here = left < script.weight;
            left = left.saturating_sub(script.weight);
            here
        });
        chosen.unwrap_or(&self.scripts[0])
    }

    /// Forgets the values that the statement before has drawn for itself.
    fn forget(&self, slots: &mut Slots) {
        for (slot, values) in slots.iter_mut().zip(&self.values) {
            if values.each_statement {
                *slot = None;
            }
        }
    }

    fn value(&self, parameter: usize, slots: &mut Slots, rng: &mut Rng, transaction: &mut Transaction) -> Param {
        if let Some(value) = slots[parameter] {
            return value;
        }
        let value = match &self.values[parameter].draw {
            Drawn::Number { sampler, least } => Param::Int(least.saturating_add_unsigned(sampler.sample(rng))),
            Drawn::Sequence { next, step } => Param::Int(next.fetch_add(*step, Ordering::Relaxed)),
            Drawn::Int(number) => Param::Int(*number),
            Drawn::Text(text) => transaction.append(|out| out.extend_from_slice(text)),
            Drawn::Characters { shortest, longest, of } => {
                let length = u64::from(*shortest) + rng.below(u64::from(longest - shortest) + 1);
                transaction.append(|out| (0..length).for_each(|_| push_one(of, rng, out)))
            }
            Drawn::Copy { of, plus } => match self.value(*of, slots, rng, transaction) {
                Param::Int(number) => Param::Int(number.saturating_add(*plus)),
                text @ Param::Text { .. } => text,
            },
        };
        slots[parameter] = Some(value);
        value
    }
}

fn push_one(of: &[char], rng: &mut Rng, out: &mut Vec<u8>) {
    let index = usize::try_from(rng.below(of.len() as u64)).unwrap_or(0);
    out.extend_from_slice(of[index].encode_utf8(&mut [0; 4]).as_bytes());
}
