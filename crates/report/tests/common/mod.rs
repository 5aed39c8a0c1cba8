// SPDX-License-Identifier: Apache-2.0
//! A recording as a run of three arms leaves it: no delay, 1 ms and 10 ms a read. Made by arithmetic, the same each time.
#![allow(dead_code, unreachable_pub, clippy::cast_possible_truncation)] // each test uses a part; figures of a fixture

mod memory;
mod observed;

use evidence::*;
use explain::{Doubt, Explained, explain};
use observed::{conditions, events, measured, samples, snapshots, spans};
use report::Context;
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000;

/// A small generator of the linear kind: a fixture needs spread, not quality.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 0 to 1.
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Around 0, with a deviation of 1.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// Nearly e^x, by products alone: the same on every machine.
fn exp(x: f64) -> f64 {
    let mut y = 1.0 + x / 16.0;
    (0..4).for_each(|_| y *= y);
    y
}

pub struct Spec {
    pub name: &'static str,
    pub read_us: u64,
    pub started_s: u64,
    pub measured_s: u64,
    pub queries: u64,
}

pub const ARMS: [Spec; 3] = [
    Spec { name: "no delay", read_us: 0, started_s: 38, measured_s: 20, queries: 168_400 },
    Spec { name: "1 ms", read_us: 1_000, started_s: 66, measured_s: 25, queries: 44_300 },
    Spec { name: "10 ms", read_us: 10_000, started_s: 99, measured_s: 60, queries: 13_420 },
];
/// What the three arms have in common: the share of queries that need one read and two.
const ONE: f64 = 0.3871;
const TWO: f64 = 0.0184;

pub struct Sample {
    pub evidence: Evidence,
    pub explained: Explained,
}

impl Sample {
    pub fn of(evidence: Evidence) -> Self {
        Self { explained: explain(&evidence), evidence }
    }

    pub fn context(&self) -> Context<'_> {
        Context::new(&self.evidence, &self.explained)
    }
}

pub fn sample() -> Sample {
    Sample::of(Evidence {
        run_id: "w-20261120-201530-4f2a".into(),
        started: "2026-11-20T20:15:30Z".into(),
        elapsed_us: 171 * SECOND + 402_000,
        is_cut_off: false,
        experiment: EXPERIMENT.into(),
        files: [].into(),
        conditions: conditions(),
        arms: ARMS.iter().map(arm).collect(),
        measured: measured(),
        samples: samples(),
        snapshots: snapshots(),
        spans: spans(),
        events: events(),
    })
}

/// The same, with an inventory of the server's memory each second; the last arm leaks.
pub fn with_memory() -> Sample {
    let mut evidence = sample().evidence;
    let taken = |arm: &Arm| memory::inventories(arm, if arm.name == "10 ms" { 1440.0 } else { 0.0 });
    let taken: Vec<Snapshot> = evidence.arms.iter().flat_map(taken).collect();
    evidence.snapshots.extend(taken);
    Sample::of(evidence)
}

/// The same, with words in it that would harm a page that did not escape them.
pub fn hostile() -> Sample {
    let mut sample = sample();
    let nasty = "</script><script>document.title='broken out'</script><img src=x onerror=\"document.title='broken out'\"> & 'quoted' \u{2028}";
    sample.evidence.arms[1].name = nasty.into();
    sample.evidence.arms[2].settings.insert(nasty.into(), nasty.into());
    sample.evidence.experiment = format!("name = \"{}\"\n# {nasty}", "<b>bold</b>");
    sample.evidence.events[0].text = nasty.into();
    let (snapshot, span) = (&mut sample.evidence.snapshots[0], &mut sample.evidence.spans[0]);
    (snapshot.source, snapshot.content) = (nasty.into(), format!("{nasty}\nmysql://root:hunter2@h/db"));
    (span.kind, span.entity) = (nasty.into(), nasty.into());
    span.attributes = BTreeMap::from([(nasty.into(), "mysql://root:hunter2@h/db".into())]);
    sample.evidence.conditions.server.variables.insert("nasty".into(), nasty.into());
    sample.evidence.conditions.tool.command.push("--password=hunter2".into());
    sample.evidence.measured[0].witness = nasty.into();
    sample.evidence.samples[0].entity = nasty.into();
    let mut sample = Sample::of(sample.evidence);
    let finding = &mut sample.explained.findings[0];
    finding.statement = nasty.into();
    finding.doubts.push(Doubt { id: nasty.into(), text: nasty.into(), hint: Some(nasty.into()) });
    sample
}

/// The third arm broke off, the second has an empty load.
pub fn cut_off() -> Sample {
    let mut sample = sample();
    sample.evidence.arms[2].load = None;
    sample.evidence.arms[2].witnesses.clear();
    sample.evidence.arms[2].verdicts.clear();
    sample.evidence.arms[2].ended_us = 0;
    if let Some(load) = &mut sample.evidence.arms[1].load {
        load.measured = Phase { started_us: 70 * SECOND, ..Phase::default() };
        load.warmup = None;
    }
    let why = "arm '10 ms' broke off: the server ended by itself, killed by signal 9; the end of its log:\n  a line\n  the last";
    let text = format!("{}{why}", evidence::ENDED_EARLY);
    sample.evidence.events.push(evidence::Event { at_us: 150 * SECOND, station: "release".into(), text });
    Sample::of(sample.evidence)
}

/// Nothing but the fact that there was a run.
pub fn empty() -> Sample {
    let mut sample = sample();
    let evidence = &mut sample.evidence;
    evidence.arms.clear();
    evidence.measured.clear();
    evidence.samples.clear();
    evidence.snapshots.clear();
    evidence.spans.clear();
    evidence.events.clear();
    evidence.experiment.clear();
    evidence.elapsed_us = 0;
    evidence.conditions = Conditions {
        tool: Tool::default(),
        host: Host::default(),
        server: Server::default(),
        mechanisms: BTreeMap::new(),
        traits: BTreeMap::new(),
        data: None,
        caveats: Vec::new(),
    };
    Sample::of(sample.evidence)
}

fn arm(spec: &Spec) -> Arm {
    let load = load(spec);
    let reads = (spec.queries as f64 * (ONE + 2.0 * TWO)) as u64;
    let witness = |of: &str, counter: &str, before: u64, delta: u64| Witness {
        of: of.into(),
        counter: counter.into(),
        before,
        after: before + delta,
    };
    Arm {
        name: spec.name.into(),
        cell: spec.name.into(),
        repeat: 1,
        settings: if spec.read_us == 0 {
            BTreeMap::new()
        } else {
            BTreeMap::from([
                ("squeeze.disk.read".into(), spec.name.into()),
                ("load.time".into(), format!("{} s", spec.measured_s)),
            ])
        },
        delay: Some(Delay { read_us: spec.read_us, write_us: 0, sync_us: 0, mode: DelayMode::Add, varies: false }),
        load: Some(load),
        driven: None,
        witnesses: vec![
            witness("server", "Innodb_buffer_pool_reads", 51_200, reads + 11),
            witness("layer", "slow layer reads", 80_113, reads + 39),
        ],
        layer_reads: None,
        verdicts: verdicts(spec),
        broke_off: None,
        outcome: evidence::ArmOutcome::Measured,
        started_us: spec.started_s * SECOND,
        ended_us: (spec.started_s + spec.measured_s + 7) * SECOND,
    }
}

fn verdicts(spec: &Spec) -> Vec<Verdict> {
    let verdict = |assertion: &str, passed, value, unit, measured| Verdict {
        assertion: assertion.into(),
        passed,
        asked: Quantity { value, unit },
        measured: Some(measured),
        at_least: false,
    };
    match spec.read_us {
        0 => Vec::new(),
        read_us => vec![
            verdict("p99<5ms", read_us < 2000, 5000.0, Unit::Microseconds, read_us as f64 * 2.1),
            verdict("queries/s>10", true, 10.0, Unit::PerSecond, spec.queries as f64 / spec.measured_s as f64),
            verdict("errors=0", true, 0.0, Unit::Count, 0.0),
        ],
    }
}

fn load(spec: &Spec) -> LoadResult {
    let started_us = (spec.started_s + 5) * SECOND;
    let measured = phase(spec, started_us, spec.measured_s, spec.queries, 7);
    let warmup = phase(spec, started_us - 3 * SECOND, 3, spec.queries * 3 / spec.measured_s, 8);
    let mut connect = LatencyHistogram::new();
    connect.record(1_240_000);
    LoadResult {
        workload: "oltp_point_select".into(),
        driver: "mysql".into(),
        connections: 1,
        workers: 1,
        arrivals: Arrivals::Closed,
        seed: 20_240_628,
        distribution: "uniform".into(),
        prepared_statements: true,
        connect,
        warmup: Some(warmup),
        measured,
    }
}

fn phase(spec: &Spec, started_us: u64, seconds: u64, queries: u64, seed: u64) -> Phase {
    let mut dice = Dice::new(seed ^ spec.read_us);
    let mut transaction = Latencies::default();
    for _ in 0..queries {
        let ns = latency_ns(&mut dice, spec.read_us as f64);
        transaction.service.record(ns - 400);
        transaction.response.record(ns);
    }
    let timeline = timeline(&mut dice, spec, started_us, seconds, queries);
    Phase {
        started_us,
        elapsed_us: seconds * SECOND + 3_100,
        transactions: queries,
        reads: queries,
        statements: BTreeMap::from([("SELECT c FROM sbtest1 WHERE id = ".to_owned(), transaction.clone())]),
        transaction,
        timeline,
        client_user_us: queries * 5,
        client_system_us: queries * 9,
        ..Phase::default()
    }
}

fn latency_ns(dice: &mut Dice, delay_us: f64) -> u64 {
    let pick = dice.uniform();
    let reads = if pick < TWO {
        2.0
    } else if pick < TWO + ONE {
        1.0
    } else {
        0.0
    };
    let base = 52.0 * exp(0.13 * dice.normal());
    let device = (0..2).take(reads as usize).map(|_| 95.0 * exp(0.32 * dice.normal())).sum::<f64>();
    let tail = if dice.uniform() < 0.002 { 900.0 * dice.uniform() * dice.uniform() } else { 0.0 };
    ((base + device + reads * (delay_us + 61.0 * (delay_us > 0.0) as u64 as f64) + tail) * 1e3) as u64
}

fn timeline(dice: &mut Dice, spec: &Spec, started_us: u64, seconds: u64, queries: u64) -> Vec<TimelinePoint> {
    let slots = seconds * 10;
    let each = queries as f64 / slots as f64;
    (0..slots)
        .map(|slot| {
            let done = (each + dice.normal() * (each * 0.6).sqrt()).max(0.0) as u64;
            let p99 =
                spec.read_us as f64 * (if dice.uniform() < 0.6 { 2.0 } else { 1.0 }) + 210.0 + 60.0 * dice.uniform();
            TimelinePoint {
                at_us: started_us + slot * 100_000,
                length_us: 100_000,
                queries: done,
                transactions: done,
                errors: 0,
                p50_us: if done == 0 { 0 } else { (53.0 + 4.0 * dice.uniform()) as u64 },
                p99_us: if done == 0 { 0 } else { p99 as u64 },
                max_us: if done == 0 { 0 } else { (p99 * (1.0 + dice.uniform())) as u64 },
                ..TimelinePoint::default()
            }
        })
        .collect()
}

const EXPERIMENT: &str = r#"schema = 1
name = "one-read-or-two"
description = "Point selects on a table a little larger than the buffer pool: without delay, with 1 ms, with 10 ms a read"
question = "reads"

[server]
flavour = "mariadb"

[[arm]]
name = "10 ms"
squeeze.disk.read = "10ms"
"#;
