// SPDX-License-Identifier: Apache-2.0
//! Reads per query in one arm, from three sources: the histogram, the server, the slow layer.

use evidence::{Arm, Conditions, Delay, LatencyHistogram, Phase};
use modes::{Bin, Modes, ReadDelay, bins_of, find, find_by_reads};
use serde::{Deserialize, Serialize};

/// The same figure from three sources. Reads are reads of pages or blocks from storage; queries are statements of every kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reads {
    /// From the service times and the delay alone.
    #[serde(rename = "reads_per_query_by_modes")]
    pub by_modes: Option<f64>,
    #[serde(rename = "reads_per_query_by_server")]
    pub by_server: Option<f64>,
    /// Without read-ahead, because no query waits for it.
    #[serde(rename = "reads_per_query_by_layer")]
    pub by_layer: Option<f64>,
    /// Read-ahead as a share of the layer's read requests. `None`: the recording does not distinguish it.
    #[serde(default, rename = "read_ahead_share_by_layer")]
    pub read_ahead_share: Option<f64>,
    /// The share of the layer's read requests whose sender could not be determined; read-ahead among them counts as reads.
    #[serde(default, rename = "unseen_share_by_layer")]
    pub unseen_share: Option<f64>,
    /// `by_modes / by_server - 1`.
    pub discrepancy_server: Option<f64>,
    pub discrepancy_layer: Option<f64>,
    /// The witness with which the humps are compared. `None`: there is none.
    pub reference: Option<Reference>,
}

/// A witness with which the humps are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reference {
    Server,
    /// For a server that reads through the page cache, because the server's own count includes hits in the page cache (PostgreSQL; InnoDB without
    /// `O_DIRECT`).
    Layer,
}

impl Reads {
    /// How far the humps are from the reference witness.
    pub fn discrepancy(&self) -> Option<f64> {
        match self.reference {
            Some(Reference::Layer) => self.discrepancy_layer,
            _ => self.discrepancy_server.or(self.discrepancy_layer),
        }
    }
}

/// The modes of one class of statements, when a transaction has several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatementModes {
    pub statement: String,
    pub modes: Modes,
}

/// The humps of an arm's service times.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Humps {
    /// The humps of the transactions; when a transaction is one statement, it is a query.
    pub(crate) whole: Modes,
    /// Empty when a transaction is one statement.
    pub(crate) statements: Vec<StatementModes>,
}

/// `read`: the time of a read, if it is known; `None` without a delay, or when the delay varies. `times`: how long the reads took, by the slow
/// layer's clock.
pub(crate) fn humps(
    phase: &Phase,
    delay: Option<Delay>,
    read: Option<ReadDelay>,
    times: Option<&LatencyHistogram>,
) -> Humps {
    let times: Vec<Bin> = times.map(bins_of).unwrap_or_default();
    let several = phase.statements.len() > 1;
    let varies = delay.is_some_and(|delay| delay.varies);
    let find = |histogram: &LatencyHistogram| {
        let bins = bins_of(histogram);
        let mut modes = read.map_or_else(|| find(&bins, None), |read| find_by_reads(&bins, read, &times));
        if varies {
            unread(&mut modes, "the disk's times varied, so a hump's place does not say how many reads it stands for");
        }
        modes
    };
    // which classes write, commit among them, a recording does not tell
    let others = phase.writes > 0 && delay.is_some_and(|delay| delay.write_us > 0 || delay.sync_us > 0);
    let find = |histogram: &LatencyHistogram| {
        let mut modes = find(histogram);
        if others {
            unread(&mut modes, "writes or syncs were delayed too, and take their time from the same queries");
        }
        modes
    };
    let whole = find(&phase.transaction.service);
    let one = |(statement, latencies): (&String, &evidence::Latencies)| StatementModes {
        statement: statement.clone(),
        modes: find(&latencies.service),
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
    let by_server = per_query(counted(arm, "server", counter), phase);
    let layer_reads = counted(arm, "layer", "reads");
    let read_ahead = counted(arm, "layer", "read-ahead");
    let demanded = layer_reads.map(|reads| reads.saturating_sub(read_ahead.unwrap_or(0)));
    let by_layer = per_query(demanded, phase);
    let of_reads = |part: Option<u64>| match (part?, layer_reads?) {
        (_, 0) => None,
        (part, reads) => Some(part as f64 / reads as f64),
    };
    let buffered = postgresql || innodb_is_buffered(conditions);
    let reference = match (buffered, by_server, by_layer) {
        (true, _, Some(_)) | (false, None, Some(_)) => Some(Reference::Layer),
        (false, Some(_), _) => Some(Reference::Server),
        _ => None,
    };
    Reads {
        by_modes,
        by_server,
        by_layer,
        read_ahead_share: of_reads(read_ahead),
        unseen_share: of_reads(counted(arm, "layer", "reads unseen")),
        discrepancy_server: discrepancy(by_modes, by_server),
        discrepancy_layer: discrepancy(by_modes, by_layer),
        reference,
    }
}

/// Whether InnoDB opens its data files without `O_DIRECT`, by its settings. MySQL 5.5 to 5.7 show their default, which is `fsync`, as an empty text.
fn innodb_is_buffered(conditions: &Conditions) -> bool {
    let is = |variable: &str, values: &[&str]| {
        let set = conditions.server.variables.get(variable);
        set.is_some_and(|set| values.iter().any(|value| set.eq_ignore_ascii_case(value)))
    };
    is("innodb_flush_method", &["", "fsync", "O_DSYNC", "littlesync", "nosync"])
        || is("innodb_data_file_buffering", &["ON", "1"])
}

/// The mean over all statements. `None` when it is unknown for a class that is more than a hundredth of them.
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

/// A counter's growth over the measured phase; `None` also when it began anew. The counter may carry a prefix: `pg_stat_database.blks_read`.
fn counted(arm: &Arm, of: &str, counter: &str) -> Option<u64> {
    let named = |name: &str| {
        name == counter || name.ends_with(&format!(".{counter}")) || name.ends_with(&format!(" {counter}"))
    };
    arm.witnesses.iter().find(|witness| witness.of == of && named(&witness.counter)).and_then(evidence::Witness::grown)
}

fn per_query(count: Option<u64>, phase: &Phase) -> Option<f64> {
    let count = count?;
    (phase.queries() > 0).then(|| count as f64 / phase.queries() as f64)
}

fn discrepancy(modes: Option<f64>, witness: Option<f64>) -> Option<f64> {
    match (modes?, witness?) {
        (modes, 0.0) => (modes == 0.0).then_some(0.0),
        (modes, witness) => Some(modes / witness - 1.0),
    }
}
