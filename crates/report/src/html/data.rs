// SPDX-License-Identifier: Apache-2.0
//! The data for the script, as one JSON constant. It is thinned, so that a phone can open the file.

use crate::bins::LogBins;
use crate::memory::{self, Layer, Stack};
use crate::series::{self, Line, Panel};
use crate::{ArmView, Context, show};
use evidence::{LatencyHistogram, Phase, TimelinePoint};
use modes::Mode;
use serde_json::{Value, json};

/// The browser joins bars that would be too thin to show.
const PER_DECADE: u32 = 96;
/// The most slots of a timeline; above it neighbouring slots are joined.
const SLOTS: usize = 700;
/// The percentile curve goes up to as many nines as the data has.
const CURVE_POINTS_PER_NINE: u32 = 24;

pub(super) fn data(context: &Context<'_>) -> Value {
    let panels = series::panels(context.evidence).into_iter().chain(memory::panels(context));
    let mut data = json!({
        "elapsed_s": seconds(context.evidence.elapsed_us),
        "arms": context.arms.iter().map(|it| arm(context, it)).collect::<Vec<_>>(),
        "panels": panels.map(|it| panel(&it)).collect::<Vec<_>>(),
    });
    if let Some(found) = memory::stack(context) {
        data["memory"] = stack(&found);
    }
    data
}

fn stack(stack: &Stack) -> Value {
    let layer = |layer: &Layer| {
        let bytes: Vec<Option<f64>> = layer.bytes.iter().map(|bytes| bytes.map(round)).collect();
        json!({ "label": layer.label, "colour": layer.colour, "v": bytes })
    };
    let times: Vec<f64> = stack.t.iter().map(|t| round_to(*t, 2)).collect();
    json!({ "t": times, "layers": stack.layers.iter().map(layer).collect::<Vec<_>>() })
}

fn arm(context: &Context<'_>, view: &ArmView<'_>) -> Value {
    let arm = view.arm;
    let phase = view.response().and(view.measured());
    // the page says "service time" where nothing else is said
    let times = Some(view.times_of_histogram()).filter(|times| *times != "service time");
    let mut data = json!({
        "name": arm.name,
        "started_s": seconds(arm.started_us),
        "ended_s": seconds(context.evidence.end_of(arm)),
        "measured_s": view.measured().map(|phase| [seconds(phase.started_us), seconds(phase.started_us + phase.elapsed_us)]),
        "reason": view.reason(),
        "modes": view.modes().iter().map(mode).collect::<Vec<_>>(),
        "bins": phase.and_then(|_| view.histogram()).map(bins),
        "curve": phase.map(|phase| curve(&phase.response_at_least())),
        "service_curve": phase.filter(|phase| service_differs(phase)).map(|phase| curve(&phase.transaction.service)),
        "timeline": view.measured().filter(|phase| !phase.timeline.is_empty()).map(|phase| timeline(view, phase)),
    });
    if let (Some(data), Some(times)) = (data.as_object_mut(), times) {
        data.insert("times".into(), times.into());
    }
    data
}

fn mode(mode: &Mode) -> Value {
    json!({
        "center_us": round(mode.center_us),
        "low_us": round(mode.low_us),
        "high_us": round(mode.high_us),
        "share": round(mode.share),
        "name": mode.reads.map(show::reads),
    })
}

/// In a closed loop both clocks show the same, and one line is enough.
fn service_differs(phase: &Phase) -> bool {
    let both = &phase.transaction;
    let apart = |percentile: f64| {
        let (response, service) = (both.response.percentile_ns(percentile), both.service.percentile_ns(percentile));
        response.abs_diff(service) as f64 > 0.05 * response as f64
    };
    !both.service.is_empty() && [50.0, 90.0, 99.0, 99.9].into_iter().any(apart)
}

fn bins(histogram: &LatencyHistogram) -> Value {
    let bins = LogBins::of(histogram, PER_DECADE);
    let counts: Vec<f64> = bins.counts.iter().map(|count| round(*count)).collect();
    json!({ "per_decade": bins.per_decade, "first": bins.first, "counts": counts })
}

/// Pairs of *one in this many* and microseconds: `[100, x]` is the 99th percentile.
fn curve(histogram: &LatencyHistogram) -> Value {
    let most = histogram.count() as f64;
    let at = |one_in: f64| json!([round(one_in), round(histogram.percentile_ns(100.0 - 100.0 / one_in) as f64 / 1e3)]);
    let steps = (0..).map(|step| 10f64.powf(f64::from(step) / f64::from(CURVE_POINTS_PER_NINE)));
    let mut points: Vec<Value> = steps.take_while(|one_in| *one_in < most).map(at).collect();
    points.push(json!([round(most), round(histogram.max_ns() as f64 / 1e3)]));
    Value::Array(points)
}

/// The columns of the timeline; seconds count from the start of the measured phase, so the warm-up is below zero.
fn timeline(view: &ArmView<'_>, phase: &Phase) -> Value {
    let warmup = view.arm.load.iter().filter_map(|load| load.warmup.as_ref());
    let slots: Vec<TimelinePoint> = warmup.flat_map(Phase::whole_slots).chain(phase.whole_slots()).collect();
    let slots: Vec<&TimelinePoint> = slots.iter().collect();
    let chunks: Vec<&[&TimelinePoint]> = slots.chunks(slots.len().div_ceil(SLOTS).max(1)).collect();
    let zero = phase.started_us as f64;
    let column =
        |value: &dyn Fn(&[&TimelinePoint]) -> Value| chunks.iter().map(|chunk| value(chunk)).collect::<Vec<_>>();
    let rate = |of: fn(&TimelinePoint) -> u64, is_told: bool| {
        column(&|chunk| {
            let rate = chunk.iter().map(|slot| of(slot) as f64).sum::<f64>() * 1e6 / length_us(chunk);
            if is_told { json!(round(rate)) } else { Value::Null }
        })
    };
    let highest = |of: fn(&TimelinePoint) -> u64| {
        column(&|chunk| match chunk.iter().map(|slot| of(slot)).max() {
            Some(us) if us > 0 => json!(us),
            _ => Value::Null,
        })
    };
    json!({
        "slot_s": chunks.first().map(|chunk| length_us(chunk) / 1e6),
        "t": column(&|chunk| json!(round((chunk[0].at_us as f64 - zero + length_us(chunk) / 2.0) / 1e6))),
        "queries_per_second": rate(|slot| slot.queries, phase.counts_queries()),
        // pgbench does not count the statements of its transactions
        "transactions_per_second": rate(|slot| slot.transactions, !phase.counts_queries()),
        "p50_us": highest(|slot| slot.p50_us),
        "p95_us": highest(|slot| slot.p95_us.unwrap_or_default()),
        "p99_us": highest(|slot| slot.p99_us),
        "mean_us": highest(|slot| slot.mean_us.unwrap_or_default()),
        "max_us": highest(|slot| slot.max_us),
    })
}

fn length_us(chunk: &[&TimelinePoint]) -> f64 {
    chunk.iter().map(|slot| slot.length_us as f64).sum()
}

fn panel(panel: &Panel) -> Value {
    json!({
        "id": panel.id,
        "title": panel.title,
        "unit": panel.unit,
        "lines": panel.lines.iter().map(line).collect::<Vec<_>>(),
    })
}

fn line(line: &Line) -> Value {
    json!({
        "label": line.label,
        "t": line.points.iter().map(|(t, _)| round_to(*t, 2)).collect::<Vec<_>>(),
        "v": line.points.iter().map(|(_, value)| value.map(round)).collect::<Vec<_>>(),
    })
}

fn seconds(us: u64) -> f64 {
    round_to(us as f64 / 1e6, 3)
}

/// Four significant digits: more than a screen can show.
fn round(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    #[allow(clippy::cast_possible_truncation)] // the exponent of a double is below 400
    round_to(value, 4 - value.abs().log10().ceil() as i32)
}

fn round_to(value: f64, decimals: i32) -> f64 {
    // a division by a power of ten gives a shorter text than a multiplication by its inverse
    match 10f64.powi(decimals.abs()) {
        factor if decimals >= 0 => (value * factor).round() / factor,
        factor => (value / factor).round() * factor,
    }
}
