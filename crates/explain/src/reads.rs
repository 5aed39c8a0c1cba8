// SPDX-License-Identifier: Apache-2.0
//! Reads per query in one arm, asked of three: the histogram, the server, the slow layer.

use crate::modes::{Modes, ReadDelay, bins_of, find};
use evidence::{Arm, Conditions, Delay, Phase};
use serde::{Deserialize, Serialize};

/// The same question, asked of three. Reads are of pages or blocks from storage; queries are statements of every kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reads {
    /// From the service times and the delay alone.
    pub by_modes: Option<f64>,
    pub by_server: Option<f64>,
    pub by_layer: Option<f64>,
    /// `by_modes / by_server - 1`.
    pub discrepancy_server: Option<f64>,
    pub discrepancy_layer: Option<f64>,
    /// The witness that counts: `server`, or `layer` for PostgreSQL, whose own count has page cache hits in it. `None`: there is
    /// none.
    pub reference: Option<String>,
}

/// The modes of one class of statements, where a transaction has several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatementModes {
    pub statement: String,
    pub modes: Modes,
}

/// The humps of an arm's service times.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Humps {
    /// Of the transactions, which are queries where each is one statement.
    pub(crate) whole: Modes,
    /// Empty where a transaction is one statement.
    pub(crate) statements: Vec<StatementModes>,
}

pub(crate) fn humps(phase: &Phase, delay: Option<Delay>) -> Humps {
    let read = ReadDelay::of(delay);
    let several = phase.statements.len() > 1;
    let mut whole = find(&bins_of(&phase.transaction.service), read);
    if phase.writes > 0 && delay.is_some_and(|delay| delay.write_us > 0 || delay.sync_us > 0) {
        unread(&mut whole, "writes or syncs were delayed too, and take their time from the same queries");
    }
    let one = |(statement, latencies): (&String, &evidence::Latencies)| StatementModes {
        statement: statement.clone(),
        modes: find(&bins_of(&latencies.service), read),
    };
    let statements = if several { phase.statements.iter().map(one).collect() } else { Vec::new() };
    Humps { whole, statements }
}

fn unread(modes: &mut Modes, reason: &str) {
    modes.reads_per_query = None;
    modes.reason = Some(reason.to_owned());
    modes.modes.iter_mut().for_each(|mode| mode.reads = None);
}

pub(crate) fn reads(arm: &Arm, phase: &Phase, humps: &Humps, conditions: &Conditions) -> Reads {
    let by_modes = by_modes(phase, humps);
    let postgresql = conditions.server.flavour.eq_ignore_ascii_case("postgresql");
    let counter = if postgresql { "blks_read" } else { "Innodb_buffer_pool_reads" };
    let by_server = witness(arm, phase, "server", counter);
    let by_layer = witness(arm, phase, "layer", "reads");
    let reference = match (postgresql, by_server, by_layer) {
        (true, _, Some(_)) | (false, None, Some(_)) => Some("layer".to_owned()),
        (false, Some(_), _) => Some("server".to_owned()),
        _ => None,
    };
    Reads {
        by_modes,
        by_server,
        by_layer,
        discrepancy_server: discrepancy(by_modes, by_server),
        discrepancy_layer: discrepancy(by_modes, by_layer),
        reference,
    }
}

/// Over all statements. `None` when it is unknown of one class that is more than a hundredth of them.
fn by_modes(phase: &Phase, humps: &Humps) -> Option<f64> {
    if humps.statements.is_empty() {
        let per_transaction = humps.whole.reads_per_query?;
        let statements = phase.queries().max(1) as f64 / phase.transactions.max(1) as f64;
        return Some(per_transaction / statements);
    }
    let total: u64 = humps.statements.iter().map(|class| class.modes.count).sum();
    let mut reads = 0.0;
    for class in &humps.statements {
        match class.modes.reads_per_query {
            Some(per_query) => reads += per_query * class.modes.count as f64,
            None if class.modes.count * 100 > total => return None,
            None => {}
        }
    }
    (total > 0).then(|| reads / total as f64)
}

/// A counter's growth over the measured phase, by query. The counter may carry a prefix: `pg_stat_database.blks_read`.
fn witness(arm: &Arm, phase: &Phase, of: &str, counter: &str) -> Option<f64> {
    let named = |name: &str| {
        name == counter || name.ends_with(&format!(".{counter}")) || name.ends_with(&format!(" {counter}"))
    };
    let found = arm.witnesses.iter().find(|witness| witness.of == of && named(&witness.counter))?;
    (phase.queries() > 0).then(|| found.delta() as f64 / phase.queries() as f64)
}

fn discrepancy(modes: Option<f64>, witness: Option<f64>) -> Option<f64> {
    match (modes?, witness?) {
        (modes, 0.0) => (modes == 0.0).then_some(0.0),
        (modes, witness) => Some(modes / witness - 1.0),
    }
}
