// SPDX-License-Identifier: Apache-2.0
//! The shape of what is printed, against lines that sysbench 1.0.20 printed.

use super::*;
use crate::Protocol;
use workload::Name;
use workload::distribution::Distribution;

fn result() -> LoadResult {
    let mut measured = Phase {
        elapsed_us: 2_005_100,
        transactions: 971,
        reads: 13_594,
        writes: 3884,
        others: 1942,
        client_user_us: 97_100,
        client_system_us: 194_200,
        fairness: Fairness::of(&[(483, 31_600.0), (488, 51_600.0)]),
        ..Phase::default()
    };
    for us in [830, 4120, 4120, 11_240, 62_930] {
        measured.transaction.response.record(us * 1000);
        measured.transaction.service.record(us * 1000);
    }
    LoadResult {
        workload: "oltp_read_write".into(),
        driver: "mysql".into(),
        connections: 2,
        workers: 1,
        arrivals: Arrivals::Closed,
        seed: 7,
        distribution: "uniform".into(),
        prepared_statements: true,
        connect: LatencyHistogram::new(),
        warmup: None,
        measured,
    }
}

/// The output of sysbench 1.0.20 for such a run, except the deviations at the end, which are those of two made-up connections.
const SYSBENCH: &str = "\
SQL statistics:
    queries performed:
        read:                            13594
        write:                           3884
        other:                           1942
        total:                           19420
    transactions:                        971    (484.27 per sec.)
    queries:                             19420  (9685.30 per sec.)
    ignored errors:                      0      (0.00 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          2.0051s
    total number of events:              971

Latency (ms):
         min:                                    0.83
         avg:                                   16.65
         max:                                   62.95
         95th percentile:                       62.95
         sum:                                   83.24

Threads fairness:
    events (avg/stddev):           485.5000/2.50
    execution time (avg/stddev):   0.0416/0.01
";

/// The output of sysbench 1.0.20 with `--threads=2 --rate=5 --report-interval=3 --rand-seed=7`, except its first line.
const HEAD: &str = "
Running the test with following options:
Number of threads: 2
Target transaction rate: 5/sec
Report intermediate results every 3 second(s)
Initializing random number generator from seed (7).


Initializing worker threads...
";

#[test]
fn sysbenchs_head() {
    let (tables, options) = Default::default();
    let selects =
        workload::build(Name::OltpPointSelect, Protocol::Mysql, &tables, &options, &Distribution::Uniform).unwrap();
    let mut spec = LoadSpec::new("oltp_point_select", selects.into());
    (spec.connections, spec.seed, spec.arrivals) = (2, 7, Arrivals::Poisson { per_second: 5.0 });
    let head = sysbench_head(&spec, Duration::from_secs(3));
    assert_eq!(head.split_once('\n').unwrap().1, HEAD);
    (spec.seed, spec.arrivals) = (1, Arrivals::Closed);
    let head = sysbench_head(&spec, Duration::ZERO);
    assert!(!head.contains("rate") && !head.contains("Report") && head.contains("seed (1)"), "{head}");
}

#[test]
fn sysbenchs_shape() {
    assert_eq!(sysbench(&result(), &[95.0], false), SYSBENCH);
}

#[test]
fn percentiles_are_lines() {
    let several = sysbench(&result(), &[50.0, 99.9], false);
    assert!(several.contains("\n         50th percentile:                        4.12\n"), "{several}");
    assert!(several.contains("\n        99.9th percentile:                      62.95\n"), "{several}");
    let none = sysbench(&result(), &[0.0], false);
    assert!(none.contains("\n         percentile stats:               disabled\n         sum:"), "{none}");
}

#[test]
fn histogram_lines() {
    let text = sysbench(&result(), &[95.0], true);
    let head = "Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       0.826 |********************                     1
       4.101 |**************************************** 2
      11.242 |********************                     1
      63.323 |********************                     1
 \nSQL statistics:\n";
    assert!(text.starts_with(head), "{text}");
}

#[test]
fn our_own_text_has_the_histogram_when_asked() {
    let with = text(&result(), &[50.0], true);
    assert!(with.contains("\n\nLatency histogram (values are in milliseconds)\n") && with.ends_with(" 1"), "{with}");
    assert!(!text(&result(), &[50.0], false).contains("histogram"));
}

#[test]
fn one_line_where_response_and_service_are_the_same() {
    let text = text(&result(), &[50.0], false);
    assert!(text.contains("\n  transaction                        5 "), "{text}");
    assert!(!text.contains("service"), "{text}");
}

/// Values that sysbench 1.0.20 printed in one run.
#[test]
fn buckets_are_sysbenchs() {
    for printed in [0.826, 0.856, 1.025, 1.469, 13.953, 14.995, 20.002, 33.116, 42.611, 63.323] {
        let value = buckets::value_ms(buckets::of(printed));
        assert!((value - printed).abs() < 0.0006, "{printed}: {value}");
    }
    assert_eq!((buckets::of(0.0), buckets::of(1e9)), (0, buckets::COUNT - 1));
    assert!((0..buckets::COUNT).all(|bucket| buckets::of(buckets::value_ms(bucket)) == bucket));
}

#[test]
fn our_own_text() {
    let mut result = result();
    result.measured.errors.insert("1213".into(), 3);
    result.arrivals = Arrivals::Poisson { per_second: 500.0 };
    result.measured.late = 4;
    result.measured.transaction.response.record(90_000_000);
    insta::assert_snapshot!(text(&result, &[50.0, 95.0], false), @r"
    oltp_read_write, mysql, 2 connections on 1 thread, open loop of 500/s, Poisson, prepared statements, keys uniform, seed 7
    measured     2.005 s
    transactions 971        484.3/s
    queries      19420      9685.3/s (read 13594, write 3884, other 1942)
    errors       1213: 3
    open loop    4 started late, 0 not started, 0 waiting at most
    latency in ms                    count       min       avg       p50       p95       max
      transaction, response              6     0.830    28.876     4.121    90.046    90.046
      transaction, service               5     0.830    16.649     4.121    62.947    62.947
    client CPU   5.0 us user and 10.0 us system a query
    ");
}

#[test]
fn an_interval() {
    let progress_now = Progress {
        elapsed: std::time::Duration::from_secs(1),
        interval: std::time::Duration::from_secs(1),
        connections: 2,
        transactions: 421,
        reads: 5894,
        writes: 1684,
        others: 842,
        ..Progress::default()
    };
    assert_eq!(
        progress(&progress_now, &[95.0]),
        "[ 1s ] thds: 2 tps: 421.00 qps: 8420.00 (r/w/o: 5894.00/1684.00/842.00) lat (ms,95%): 0.00 err/s: 0.00 reconn/s: 0.00"
    );
}

#[test]
fn a_series_is_a_table_of_response_times() {
    let mut many = result();
    many.connections = 4096;
    many.measured.errors.insert("1213".into(), 12);
    many.connect.record(1_500_000);
    insta::assert_snapshot!(series(&[&result(), &many], &[50.0, 0.0, 99.9]), @r"
    connections  transactions/s  queries/s  errors  avg ms  p50 ms  p99.9 ms  max ms  connecting ms
              2           484.3     9685.3       0  16.649   4.121    62.947  62.947          0.000
           4096           484.3     9685.3      12  16.649   4.121    62.947  62.947          1.500
    ");
}

#[test]
fn connecting_is_progress_too() {
    let up = Progress {
        elapsed: std::time::Duration::from_secs(2),
        connections: 4096,
        connecting: Some(1200),
        ..Progress::default()
    };
    assert_eq!(progress(&up, &[95.0]), "[ 2s ] 1200 of 4096 connections are up");
}
