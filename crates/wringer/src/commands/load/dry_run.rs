// SPDX-License-Identifier: Apache-2.0
//! `--dry-run`: the statements that a connection would send, without a connection.

use crate::terminal;
use load::Protocol;
use load::engine::{LoadSpec, preview};
use load::protocol::Template;
use serde_json::{Value, json};
use workload::{Kind, Transaction, Workload};

/// Prints the first transactions of connection 1, values filled in.
pub fn show(spec: &LoadSpec, protocol: Protocol, transactions: u32, as_json: bool) {
    let (workload, seed) = (&*spec.workload, spec.seed);
    let drawn = preview(workload, seed, transactions);
    let family = match protocol {
        Protocol::Mysql => "the MySQL family",
        Protocol::Postgresql => "PostgreSQL",
    };
    if as_json {
        let statements: Vec<Value> = workload
            .statements()
            .iter()
            .map(|it| json!({ "class": it.class, "kind": kind(it.kind), "sql": it.sql }))
            .collect();
        let drawn: Vec<Value> = drawn.map(|transaction| in_json(workload, &transaction, protocol)).collect();
        let document = json!({
            "schema": 1, "workload": spec.name, "distribution": spec.distribution, "server": family, "seed": seed,
            "statements": statements, "transactions": drawn,
        });
        return terminal::json(&document);
    }
    terminal::data(format_args!(
        "-- {} as connection 1 begins it, for {family}, seed {seed}; nothing was sent",
        spec.name
    ));
    terminal::data(format_args!("-- values: {}", spec.distribution));
    for (number, transaction) in (1..).zip(drawn) {
        terminal::data(format_args!("-- transaction {number}"));
        for step in 0..transaction.len() {
            wait("waits", transaction.pause_ns(step));
            terminal::data(format_args!("{};", text(workload, &transaction, step, protocol)));
        }
        wait("thinks", transaction.think_ns());
    }
}

fn wait(verb: &str, ns: u64) {
    if ns > 0 {
        terminal::data(format_args!("-- {verb} {:.3} ms", ns as f64 / 1e6));
    }
}

fn text(workload: &dyn Workload, transaction: &Transaction, step: usize, protocol: Protocol) -> String {
    let (statement, params) = transaction.get(step);
    let mut out = Vec::new();
    Template::new(&workload.statements()[statement].sql, protocol).render(params, transaction.texts(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn in_json(workload: &dyn Workload, transaction: &Transaction, protocol: Protocol) -> Value {
    let steps = (0..transaction.len()).map(|step| {
        let class = &workload.statements()[transaction.get(step).0].class;
        json!({ "class": class, "sql": text(workload, transaction, step, protocol), "wait_before_us": transaction.pause_ns(step) as f64 / 1e3 })
    });
    json!({ "statements": steps.collect::<Vec<_>>(), "think_after_us": transaction.think_ns() as f64 / 1e3 })
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Other => "other",
    }
}
