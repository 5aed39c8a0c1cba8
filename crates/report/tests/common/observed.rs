// SPDX-License-Identifier: Apache-2.0
//! What was observed besides the load: conditions, squeezes, samples, events, spans and snapshots.

use super::*;

pub(super) fn conditions() -> Conditions {
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
            build: String::new(),
            variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        },
        mechanisms: BTreeMap::from([
            ("ram".into(), "huge-page holder: 14.2 GiB reserved in 7270 pages".into()),
            ("disk".into(), "fuse layer over the data directory, in a private mount namespace".into()),
        ]),
        traits: BTreeMap::from([("ram".into(), BTreeMap::from([("mem_total_shrinks".into(), false)]))]),
        data: None,
        caveats: vec!["the host is a virtual machine: what its own host does is not seen".into()],
    }
}

pub(super) fn measured() -> Vec<Measured> {
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

pub(super) fn samples() -> Vec<Series> {
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

pub(super) fn events() -> Vec<Event> {
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

pub(super) fn spans() -> Vec<Span> {
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

pub(super) fn snapshots() -> Vec<Snapshot> {
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
