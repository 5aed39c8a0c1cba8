// SPDX-License-Identifier: Apache-2.0
//! A recording as a run of three arms leaves it: no delay, 1 ms and 10 ms a read. Made by arithmetic, the same each time.
#![allow(dead_code, unreachable_pub, clippy::cast_possible_truncation)] // each test uses a part; figures of a fixture

use evidence::*;
use report::{ArmView, Hump, ReadsPerQuery};
use serde_json::json;
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
    pub findings: Vec<Finding>,
}

impl Sample {
    pub fn views(&self) -> Vec<ArmView<'_>> {
        self.evidence.arms.iter().map(view).collect()
    }
}

pub fn sample() -> Sample {
    let evidence = Evidence {
        run_id: "w-20261120-201530-4f2a".into(),
        started: "2026-11-20T20:15:30Z".into(),
        elapsed_us: 171 * SECOND + 402_000,
        experiment: EXPERIMENT.into(),
        conditions: conditions(),
        arms: ARMS.iter().map(arm).collect(),
        measured: measured(),
        samples: samples(),
        snapshots: snapshots(),
        spans: spans(),
        events: events(),
    };
    Sample { evidence, findings: findings() }
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
    sample.findings[0].statement = nasty.into();
    sample.findings[0].doubts.push(Doubt { id: nasty.into(), text: nasty.into(), hint: Some(nasty.into()) });
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
    sample.findings.truncate(1);
    let why = "arm '10 ms' broke off: the server ended by itself, killed by signal 9; the end of its log:\n  a line\n  the last";
    let text = format!("{}{why}", evidence::ENDED_EARLY);
    sample.evidence.events.push(evidence::Event { at_us: 150 * SECOND, station: "release".into(), text });
    sample
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
        caveats: Vec::new(),
    };
    sample.findings.clear();
    sample
}

fn view(arm: &Arm) -> ArmView<'_> {
    let Some(load) = arm.load.as_ref().filter(|load| load.measured.transactions > 0) else {
        let reason = Some("the histogram is empty".to_owned());
        return ArmView { arm, humps: Vec::new(), reason, read_us: None, reads: ReadsPerQuery::default(), busy: None };
    };
    let histogram = &load.measured.transaction.service;
    let delay_us = arm.delay.map_or(0, |delay| delay.read_us) as f64;
    let bounds = if delay_us > 0.0 { vec![0.0, 0.6 * delay_us, 1.55 * delay_us, 1e12] } else { vec![0.0, 96.0, 1e12] };
    let hump = |(index, pair): (usize, &[f64])| {
        let inside = |bucket: &Bucket| (pair[0]..pair[1]).contains(&(bucket.low_ns as f64 / 1e3));
        let own: Vec<Bucket> = histogram.buckets().filter(inside).collect();
        let count: u64 = own.iter().map(|bucket| bucket.count).sum();
        let mut left = count / 2;
        let middle = own.iter().find(|b| {
            let found = left < b.count;
            left = left.saturating_sub(b.count);
            found
        });
        Hump {
            center_us: middle.map_or(0.0, |bucket| bucket.low_ns as f64 / 1e3),
            low_us: own.first().map_or(0.0, |bucket| bucket.low_ns as f64 / 1e3),
            high_us: own.last().map_or(0.0, |bucket| bucket.high_ns as f64 / 1e3),
            count,
            share: count as f64 / histogram.count() as f64,
            reads: (delay_us > 0.0).then_some(index as f64),
        }
    };
    let humps: Vec<Hump> = bounds.windows(2).enumerate().map(hump).collect();
    let known = delay_us > 0.0;
    let by_modes = known.then(|| humps.iter().map(|hump| hump.share * hump.reads.unwrap_or(0.0)).sum());
    let queries = load.measured.queries() as f64;
    let by = |of: &str| arm.witnesses.iter().find(|w| w.of == of).map(|w| w.delta() as f64 / queries);
    ArmView {
        arm,
        humps,
        reason: (!known).then(|| "no delay was in force, so nothing says how many reads a hump stands for".to_owned()),
        read_us: known.then_some(delay_us + 155.0),
        reads: ReadsPerQuery {
            by_modes,
            by_server: by("server"),
            by_layer: by("layer"),
            off_server: by_modes.zip(by("server")).map(|(modes, count): (f64, f64)| modes / count - 1.0),
            off_layer: by_modes.zip(by("layer")).map(|(modes, count): (f64, f64)| modes / count - 1.0),
            layer_counts: false,
        },
        busy: None,
    }
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
        verdicts: verdicts(spec),
        broke_off: None,
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

fn conditions() -> Conditions {
    let variables = [
        ("innodb_buffer_pool_size", "134217728"),
        ("innodb_flush_method", "O_DIRECT"),
        ("innodb_page_size", "16384"),
        ("innodb_read_io_threads", "4"),
        ("datadir", "/var/tmp/wringer/sandboxes/s1/data/"),
        ("port", "43127"),
        ("report_password", "hunter2"),
        ("version_comment", "Debian 12"),
    ];
    Conditions {
        tool: Tool {
            version: "0.1.0".into(),
            command: ["wringer", "run", "experiments/one-read-or-two.toml", "--to", "wringer-demo"]
                .map(str::to_owned)
                .to_vec(),
            as_root: true,
        },
        host: Host {
            kernel: "6.1.0-28-amd64".into(),
            distribution: "Debian GNU/Linux 12 (bookworm)".into(),
            cpu_model: "AMD EPYC 7B13".into(),
            cpus: 2,
            mem_total_bytes: 25_202_970_624,
            swap_total_bytes: 0,
            page_size_bytes: 4096,
            huge_page_size_bytes: 2 << 20,
            hz: 250,
            virtualisation: "kvm".into(),
            cgroup: "v2".into(),
            storage: "ext4 on /dev/vda1".into(),
            clock_source: "kvm-clock".into(),
        },
        server: Server {
            flavour: "mariadb".into(),
            version: "10.11.14-MariaDB-0+deb12u2".into(),
            binary: "/root/.cache/wringer/mariadb-10.11/usr/sbin/mariadbd".into(),
            source: "distribution package mariadb-server-core 1:10.11.14-0+deb12u2".into(),
            variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        },
        mechanisms: BTreeMap::from([
            ("ram".into(), "huge-page holder: 14.2 GiB reserved in 7270 pages".into()),
            ("disk".into(), "fuse layer over the data directory, in a private mount namespace".into()),
        ]),
        traits: BTreeMap::from([("ram".into(), BTreeMap::from([("mem_total_shrinks".into(), false)]))]),
        caveats: vec!["the host is a virtual machine: what its own host does is not seen".into()],
    }
}

fn measured() -> Vec<Measured> {
    let bytes = Quantity::bytes;
    let mut all = vec![
        Measured {
            at_us: 31 * SECOND,
            arm: None,
            what: "fill.size".into(),
            mechanism: "INSERT".into(),
            asked: Some(bytes(192 << 20)),
            predicted: None,
            got: Some(bytes(201 << 20)),
            witness: "size of sbtest1.ibd".into(),
            within_tolerance: Some(true),
            tolerance: Some("10 % of asked".into()),
            looks: None,
            came_on: None,
        },
        Measured {
            at_us: 32 * SECOND,
            arm: None,
            what: "fill.rows_per_page".into(),
            mechanism: "INSERT".into(),
            asked: Some(Quantity::count(4.0)),
            predicted: None,
            got: Some(Quantity::count(4.0)),
            witness: "rows and pages, as the server counts them".into(),
            within_tolerance: None,
            tolerance: None,
            looks: None,
            came_on: None,
        },
        Measured {
            at_us: 36 * SECOND,
            arm: None,
            what: "ram.available".into(),
            mechanism: "huge-page holder".into(),
            asked: Some(bytes(8 << 30)),
            predicted: Some(bytes((8 << 30) + (2 << 20))),
            got: Some(bytes((8 << 30) + (37 << 20))),
            witness: "MemAvailable, read again after a second".into(),
            within_tolerance: Some(true),
            tolerance: Some("2 % of asked".into()),
            looks: None,
            came_on: None,
        },
    ];
    for spec in &ARMS {
        let (asked, got) =
            (spec.read_us as f64, spec.read_us as f64 + 96.4 + if spec.read_us > 0 { 31.0 } else { 0.0 });
        all.push(Measured {
            at_us: (spec.started_s + 1) * SECOND,
            arm: Some(spec.name.into()),
            what: "disk.read.median".into(),
            mechanism: "fuse layer".into(),
            asked: Some(Quantity::micros(asked)),
            predicted: Some(Quantity::micros(asked + 96.4)),
            got: Some(Quantity::micros(got)),
            witness: "200 direct reads at depth 1 in the server's mount namespace".into(),
            within_tolerance: (asked > 0.0).then_some(true),
            tolerance: (asked > 0.0).then(|| "2 % of predicted".into()),
            looks: None,
            came_on: None,
        });
    }
    all
}

fn samples() -> Vec<Series> {
    let mut dice = Dice::new(3);
    let mut series = |source: &str,
                      entity: &str,
                      name: &str,
                      unit: &str,
                      cumulative: bool,
                      value: &mut dyn FnMut(u64, &mut Dice) -> f64| {
        let points = (0..171).map(|s| Point { at_us: s * SECOND + 120_000, value: value(s, &mut dice) }).collect();
        Series {
            source: source.into(),
            entity: entity.into(),
            name: name.into(),
            unit: unit.into(),
            cumulative,
            points,
        }
    };
    let gib = (1u64 << 30) as f64;
    let hidden = |s: u64| if (35..168).contains(&s) { 14.2 * gib } else { 0.0 };
    let busy =
        |s: u64| ARMS.iter().find(|spec| (spec.started_s + 2..spec.started_s + 5 + spec.measured_s).contains(&s));
    let mut reads = 51_200.0;
    let mut layer = 80_113.0;
    let mut disk = 1_000.0;
    let (mut user, mut system, mut host, mut stalled, mut own) = (0.0, 0.0, 0.0, 0.0, 0.0);
    let rate = move |s: u64| {
        busy(s).map_or(if (33..38).contains(&s) { 900.0 } else { 0.0 }, |a| {
            a.queries as f64 / a.measured_s as f64 * (ONE + 2.0 * TWO)
        })
    };
    vec![
        series("meminfo", "", "MemAvailable", "bytes", false, &mut |s, dice| {
            22.4 * gib - hidden(s) - s.min(40) as f64 * 0.005 * gib + dice.normal() * 2e7
        }),
        series("meminfo", "", "Hugetlb", "bytes", false, &mut |s, _| hidden(s)),
        series("meminfo", "", "Cached", "bytes", false, &mut |s, dice| {
            1.1 * gib + s.min(34) as f64 * 6e6 - if s > 35 { 0.4 * gib } else { 0.0 } + dice.normal() * 1e6
        }),
        series("process.smaps_rollup", "server", "Pss", "bytes", false, &mut |s, _| {
            (90.0 + (s.min(38) as f64) * 3.4) * 1048576.0
        }),
        series("process.stat", "server", "rss", "bytes", false, &mut |s, _| {
            (101.0 + (s.min(38) as f64) * 3.4) * 1048576.0
        }),
        series("server.status", "", "Innodb_buffer_pool_reads", "count", true, &mut |s, _| {
            reads += rate(s);
            reads.floor()
        }),
        series("layer", "", "reads", "count", true, &mut |s, dice| {
            layer += (rate(s) * (1.0 + 0.01 * dice.normal())).max(0.0);
            layer.floor()
        }),
        series("diskstats", "vda", "reads", "count", true, &mut |s, dice| {
            disk += (rate(s) + 4.0 * dice.uniform()).max(0.0);
            disk.floor()
        }),
        series("diskstats", "vdb", "reads", "count", true, &mut |_, _| 12.0),
        series("process.stat", "server", "utime", "us", true, &mut |s, dice| {
            user += busy(s).map_or(2e3, |a| 1e6 * 0.4 / (1.0 + a.read_us as f64 / 500.0)) + 1e4 * dice.uniform();
            user
        }),
        series("process.stat", "server", "stime", "us", true, &mut |s, dice| {
            system += busy(s).map_or(1e3, |a| 1e6 * 0.25 / (1.0 + a.read_us as f64 / 500.0)) + 1e4 * dice.uniform();
            system
        }),
        series("stat", "", "user", "us", true, &mut |s, dice| {
            host += busy(s).map_or(1e5, |a| 1e6 * 0.9 / (1.0 + a.read_us as f64 / 500.0)) + 1e4 * dice.uniform();
            host
        }),
        series("psi.io", "", "some.total", "us", true, &mut |s, dice| {
            stalled += busy(s).map_or(0.0, |a| 1e6 * (rate(s) * a.read_us as f64 / 1e6 + 0.05)) + 3e3 * dice.uniform();
            stalled
        }),
        series("psi.memory", "", "some.total", "us", true, &mut |_, _| 0.0),
        series("observer", "", "cpu", "us", true, &mut |_, _| {
            own += 3_100.0;
            own
        }),
    ]
}

fn events() -> Vec<Event> {
    let event = |s: u64, station: &str, text: &str| Event {
        at_us: s * SECOND + 340_000,
        station: station.into(),
        text: text.into(),
    };
    let mut all = vec![
        event(0, "plan", "3 arms, about 165 s"),
        event(1, "sandbox", "mariadb 10.11.14 deployed, listening on 127.0.0.1:43127"),
        event(4, "fill", "1 table, 12,288 rows, 192 MiB asked"),
        event(31, "fill", "201 MiB on disk, 4 rows a page"),
        event(33, "load", "preheat: 12,288 queries"),
        event(36, "squeeze", "14.2 GiB of RAM hidden; 8.04 GiB available"),
    ];
    for spec in &ARMS {
        all.push(event(spec.started_s, "squeeze", &format!("arm {}: read delay {} us", spec.name, spec.read_us)));
        all.push(event(
            spec.started_s + 2,
            "load",
            &format!("arm {}: warm-up 3 s, then {} s", spec.name, spec.measured_s),
        ));
    }
    all.push(event(168, "release", "RAM given back, server stopped, slow layer ended"));
    all
}

fn spans() -> Vec<Span> {
    let span = |kind: &str, entity: &str, (from_s, to_s): (u64, u64), (name, value): (&str, String)| Span {
        from_us: from_s * SECOND,
        to_us: to_s * SECOND + 310_000,
        kind: kind.into(),
        entity: entity.into(),
        attributes: BTreeMap::from([(name.into(), value)]),
    };
    let version = || ("version", "10.11.14-MariaDB-0+deb12u2".to_owned());
    let mut all = vec![
        span("server.start", "", (1, 3), version()),
        span("fill", "", (4, 31), ("rows a table", "12288".into())),
        span("server.start", "", (32, 33), version()),
    ];
    for spec in &ARMS {
        let began = spec.started_s + 5;
        let transactions = |count: u64| ("transactions", count.to_string());
        all.push(span("load.warmup", spec.name, (began - 3, began), transactions(spec.queries * 3 / spec.measured_s)));
        all.push(span("load.measured", spec.name, (began, began + spec.measured_s), transactions(spec.queries)));
    }
    all
}

fn snapshots() -> Vec<Snapshot> {
    let taken = |spec: &Spec| Snapshot {
        at_us: (spec.started_s + spec.measured_s + 6) * SECOND,
        arm: Some(spec.name.into()),
        source: "server.innodb_status".into(),
        entity: String::new(),
        format: Format::Text,
        content: format!("{STATUS}Pages read {}, created 0, written 12\n", spec.queries / 3),
    };
    ARMS.iter().map(taken).collect()
}

const STATUS: &str = "\n=====================================\n2026-11-20 20:18:19 0x7f1c INNODB MONITOR OUTPUT\n\
    =====================================\nPer second averages calculated from the last 29 seconds\n----------\nSEMAPHORES\n----------\n\
    OS WAIT ARRAY INFO: reservation count 215\n----------------------\nBUFFER POOL AND MEMORY\n----------------------\n\
    Total large memory allocated 136970240\nBuffer pool size   8064\nFree buffers       1024\n";

fn findings() -> Vec<Finding> {
    let of = |arm: &str, statement: &str, evidence: serde_json::Value, doubts: Vec<Doubt>| Finding {
        id: "latency.modes".into(),
        arm: Some(arm.into()),
        statement: statement.into(),
        evidence,
        doubts,
    };
    let shares = |zero: f64, one: f64, two: f64| {
        json!({
            "delay_us": 10_000, "read_us": 10_155.2,
            "modes": [{"reads": 0, "share": zero}, {"reads": 1, "share": one}, {"reads": 2, "share": two}],
            "reads_per_query_by_modes": one + 2.0 * two, "reads_per_query_by_server": 0.4245, "reads_per_query_by_layer": 0.4266,
        })
    };
    vec![
        of(
            "no delay",
            "Without a delay there are two humps, around 52 µs and 150 µs, and nothing says how many reads the second stands for.",
            json!({"modes": [{"center_us": 52.2, "share": 0.594}, {"center_us": 151.0, "share": 0.406}], "reads_per_query_by_modes": null}),
            vec![Doubt {
                id: "modes.undelayed".into(),
                text: "One read and two reads overlap on this disk.".into(),
                hint: Some("An arm with squeeze.disk.read = \"1ms\" pulls them apart.".into()),
            }],
        ),
        of(
            "1 ms",
            "At 1 ms a read, 59.5 % of the queries needed no read, 38.7 % one and 1.8 % two.",
            shares(0.5945, 0.3871, 0.0184),
            vec![],
        ),
        of(
            "10 ms",
            "At 10 ms a read, 59.3 % of the queries needed no read, 38.9 % one and 1.8 % two.",
            shares(0.593, 0.389, 0.018),
            vec![],
        ),
    ]
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
