// SPDX-License-Identifier: Apache-2.0
//! `result.json`. Every key is documented in `docs/report.md`; a test compares both.

use crate::{ArmView, Context, redact, verdict};
use evidence::{
    Arrivals, Delay, DelayMode, Driven, Latencies, LatencyHistogram, LoadResult, Measured, Phase, Quantity,
    TimelinePoint, Unit, Verdict,
};
use explain::{ArmMemory, Reference};
use modes::Mode;
use serde_json::{Map, Value, json};

/// Raised when a key changes its meaning or goes away; a new key does not raise it.
pub const SCHEMA: u64 = 1;

/// The whole result, for machines. Times are microseconds since the start of the run.
pub fn json(context: &Context<'_>) -> Value {
    let (evidence, conditions) = (context.evidence, &context.conditions);
    let mut result = json!({
        "schema": SCHEMA,
        "tool": {
            "name": "wringer",
            "version": conditions.tool.version,
            "command": conditions.tool.command,
            "as_root": conditions.tool.as_root,
        },
        "run": {
            "id": evidence.run_id,
            "name": context.name,
            "description": context.description,
            "started": evidence.started,
            "elapsed_us": evidence.elapsed_us,
            "experiment": context.experiment,
        },
        "verdict": { "sentences": verdict::sentences(context), "warnings": verdict::warnings(context) },
        "conditions": {
            "host": conditions.host,
            "server": conditions.server,
            "mechanisms": conditions.mechanisms,
            "traits": conditions.traits,
            "caveats": conditions.caveats,
            "busy": context.arms.iter().filter_map(busy).collect::<Vec<_>>(),
        },
        "arms": context.arms.iter().map(arm).collect::<Vec<_>>(),
        "measured": evidence.measured.iter().map(measured).collect::<Vec<_>>(),
        "spans": context.spans,
        "snapshots": context.snapshots,
        "findings": context.findings,
        "events": context.events,
    });
    if let Some(data) = &conditions.data {
        result["conditions"]["data"] = json!(data);
    }
    // without inventories there is no such key, and an old result stays the same
    if !context.memory.is_empty() {
        result["memory"] = json!(context.memory.iter().map(memory).collect::<Vec<_>>());
    }
    result
}

/// The columns of the ledger, one row of figures for each time.
fn memory(memory: &ArmMemory) -> Value {
    let mut told = json!(memory.over_time);
    told["arm"] = json!(memory.arm);
    told["unreadable"] = json!(memory.unreadable);
    told
}

fn arm(view: &ArmView<'_>) -> Value {
    let (arm, reads) = (view.arm, view.summary.reads.as_ref());
    let reference = reads.and_then(|reads| reads.reference).unwrap_or(Reference::Server);
    let witnesses = arm.witnesses.iter().map(|witness| {
        json!({
            "of": witness.of,
            "counter": witness.counter,
            "before": witness.before,
            "after": witness.after,
            "delta": witness.grown(),
        })
    });
    json!({
        "name": arm.name,
        "cell": arm.cell,
        "repeat": arm.repeat,
        "settings": arm.settings,
        "delay": arm.delay.map(delay),
        "started_us": arm.started_us,
        "ended_us": arm.ended_us,
        "outcome": arm.outcome.name(),
        "broke_off": arm.broke_off.as_deref().map(redact::text),
        "modes": view.modes().iter().map(mode).collect::<Vec<_>>(),
        "modes_reason": view.reason(),
        "read_us": view.summary.modes.as_ref().and_then(|found| found.read_us),
        "reads_per_query_by_modes": reads.and_then(|reads| reads.by_modes),
        "reads_per_query_by_server": reads.and_then(|reads| reads.by_server),
        "reads_per_query_by_layer": reads.and_then(|reads| reads.by_layer),
        "discrepancy_server_ratio": reads.and_then(|reads| reads.discrepancy_server),
        "discrepancy_layer_ratio": reads.and_then(|reads| reads.discrepancy_layer),
        "reference": reference,
        "witnesses": witnesses.collect::<Vec<_>>(),
        "assertions": arm.verdicts.iter().map(Verdict::json).collect::<Vec<_>>(),
        "load": arm.load.as_ref().map(|it| load(it, arm.driven.is_some())),
        "driven": arm.driven.as_ref().map(driven),
    })
}

fn busy(view: &ArmView<'_>) -> Option<Value> {
    let mut told = json!(view.summary.busy?);
    told["arm"] = json!(view.arm.name);
    Some(told)
}

/// The texts are masked a second time.
fn driven(driven: &Driven) -> Value {
    let outputs = driven.outputs.iter().map(|output| {
        json!({ "name": output.name, "text": redact::lines(&output.text), "left_out_bytes": output.left_out_bytes })
    });
    json!({
        "driver": driven.driver,
        "command": redact::command(&driven.command),
        "exit_code": driven.exit_code,
        "elapsed_us": driven.elapsed_us,
        "client_user_us": driven.client_user_us,
        "client_system_us": driven.client_system_us,
        "understood": driven.understood,
        "figures": driven.figures,
        "outputs": outputs.collect::<Vec<_>>(),
    })
}

fn delay(delay: Delay) -> Value {
    let mode = match delay.mode {
        DelayMode::Add => "add",
        DelayMode::Total => "total",
    };
    let Delay { read_us, write_us, sync_us, varies, .. } = delay;
    json!({ "read_us": read_us, "write_us": write_us, "sync_us": sync_us, "mode": mode, "varies": varies })
}

fn mode(mode: &Mode) -> Value {
    json!({
        "center_us": mode.center_us,
        "low_us": mode.low_us,
        "high_us": mode.high_us,
        "count": mode.count,
        "share_ratio": mode.share,
        "reads": mode.reads,
    })
}

/// A figure that another program does not tell is `null`.
fn load(load: &LoadResult, is_driven: bool) -> Value {
    let own = |value: Value| if is_driven { Value::Null } else { value };
    let arrivals = match load.arrivals {
        Arrivals::Closed => json!({ "kind": "closed" }),
        Arrivals::Constant { per_second } => json!({ "kind": "constant", "per_second": per_second }),
        Arrivals::Poisson { per_second } => json!({ "kind": "poisson", "per_second": per_second }),
        Arrivals::Recorded { times } => json!({ "kind": "recorded", "times": times }),
    };
    json!({
        "workload": load.workload,
        "driver": load.driver,
        "connections": load.connections,
        "workers": load.workers,
        "arrivals": arrivals,
        "seed": own(json!(load.seed)),
        "distribution": own(json!(load.distribution)),
        "prepared_statements": own(json!(load.prepared_statements)),
        "connect": latency(&load.connect),
        "warmup": load.warmup.as_ref().map(|it| phase(it, is_driven)),
        "measured": phase(&load.measured, is_driven),
    })
}

fn phase(phase: &Phase, is_driven: bool) -> Value {
    let counted = |count: u64| phase.counts_queries().then_some(count);
    let own = |count: u64| (!is_driven).then_some(count);
    let statements = phase.statements.iter().map(|(statement, both)| (statement.clone(), latencies(both)));
    let client_us = phase.client_user_us + phase.client_system_us;
    json!({
        "started_us": phase.started_us,
        "elapsed_us": phase.elapsed_us,
        "transactions": phase.transactions,
        "queries": counted(phase.queries()),
        "reads": counted(phase.reads),
        "writes": counted(phase.writes),
        "others": counted(phase.others),
        "transactions_per_second": phase.transactions_per_second(),
        "queries_per_second": phase.queries_per_second(),
        "errors": phase.errors,
        "reconnects": phase.reconnects,
        "late": own(phase.late),
        "skipped": own(phase.skipped),
        "backlog_max": own(phase.backlog_max),
        "transaction": latencies(&phase.transaction),
        "unconnected_us": phase.unconnected_us,
        "unended": phase.unended.as_ref().map(latencies),
        "statements": statements.collect::<Map<_, _>>(),
        "timeline": phase.timeline.iter().map(|slot| point(*slot, phase, is_driven)).collect::<Vec<_>>(),
        "client_user_us": phase.client_user_us,
        "client_system_us": phase.client_system_us,
        "client_cpu_us_per_query": (phase.queries() > 0).then(|| client_us as f64 / phase.queries() as f64),
    })
}

fn point(slot: TimelinePoint, phase: &Phase, is_driven: bool) -> Value {
    let mut point = json!(slot);
    if is_driven {
        for (key, us) in [("p50_us", slot.p50_us), ("p99_us", slot.p99_us), ("max_us", slot.max_us)] {
            point[key] = json!((us > 0).then_some(us));
        }
        point["queries"] = json!(phase.counts_queries().then_some(slot.queries));
    }
    point
}

fn latencies(both: &Latencies) -> Value {
    json!({ "response": latency(&both.response), "service": latency(&both.service) })
}

/// `None` for each figure of an empty histogram.
fn latency(histogram: &LatencyHistogram) -> Value {
    let known = |value: f64| (!histogram.is_empty()).then_some(value);
    let at = |percentile: f64| known(us(histogram.percentile_ns(percentile)));
    json!({
        "count": histogram.count(),
        "min_us": known(us(histogram.min_ns())),
        "mean_us": known(histogram.mean_ns() / 1e3),
        "stdev_us": known(histogram.stdev_ns() / 1e3),
        "p50_us": at(50.0),
        "p75_us": at(75.0),
        "p90_us": at(90.0),
        "p95_us": at(95.0),
        "p99_us": at(99.0),
        "p99_9_us": at(99.9),
        "p99_99_us": at(99.99),
        "max_us": known(us(histogram.max_ns())),
        "histogram": histogram,
    })
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn measured(measured: &Measured) -> Value {
    json!({
        "at_us": measured.at_us,
        "arm": measured.arm,
        "what": measured.what,
        "mechanism": measured.mechanism,
        "asked": measured.asked.map(value),
        "predicted": measured.predicted.map(value),
        "got": measured.got.map(value),
        "witness": measured.witness,
        "within_tolerance": measured.within_tolerance,
        "tolerance": measured.tolerance,
        "looks": measured.looks,
        "came_on": measured.came_on,
    })
}

fn value(quantity: Quantity) -> Value {
    json!({ "value": quantity.value, "unit": unit(quantity.unit) })
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "bytes",
        Unit::Microseconds => "microseconds",
        Unit::Count => "count",
        Unit::PerSecond => "per_second",
        Unit::Ratio => "ratio",
    }
}
