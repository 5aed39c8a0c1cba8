// SPDX-License-Identifier: Apache-2.0
use super::{add_logs, add_progress, read};
use evidence::Arrivals;

/// The output of sysbench 1.0.20, with a shortened histogram.
const SYSBENCH: &str = "sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: 4
Initializing random number generator from current time


Initializing worker threads...

Threads started!

Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       1.939 |****                                     10
       1.974 |****************************************  89
      10.274 |                                         1

SQL statistics:
    queries performed:
        read:                            1400
        write:                           0
        other:                           200
        total:                           1600
    transactions:                        100    (49.93 per sec.)
    queries:                             1600   (798.87 per sec.)
    ignored errors:                      2      (1.00 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          2.0028s
    total number of events:              100

Latency (ms):
         min:                                    1.93
         avg:                                    2.05
         max:                                   10.31
         95th percentile:                        1.97
         sum:                                  205.11

Threads fairness:
    events (avg/stddev):           25.0000/0.00
    execution time (avg/stddev):   0.0513/0.00
";

const PGBENCH: &str = "pgbench (15.14 (Debian 15.14-0+deb12u1))
transaction type: <builtin: simple update>
scaling factor: 3
query mode: simple
number of clients: 2
number of threads: 1
maximum number of tries: 1
duration: 1 s
number of transactions actually processed: 4321
number of failed transactions: 0 (0.000%)
latency average = 0.462 ms
initial connection time = 2.500 ms
tps = 4331.500000 (without initial connection time)
";

#[test]
fn sysbench_tells_its_counts_times_and_histogram() {
    let found = read(SYSBENCH).expect("is understood");
    assert_eq!(found.program, "sysbench 1.0.20");
    assert_eq!((found.connections, found.arrivals), (Some(4), Arrivals::Closed));
    let phase = &found.phase;
    assert_eq!((phase.transactions, phase.reads, phase.writes, phase.others), (100, 1400, 0, 200));
    assert_eq!((phase.elapsed_us, phase.errors["ignored by sysbench"]), (2_002_800, 2));
    let response = &phase.transaction.response;
    assert_eq!(response.count(), 100, "each event of its histogram");
    let p50 = response.percentile_ns(50.0) as f64 / 1e6;
    assert!((1.974 * 0.99..1.974 * 1.01).contains(&p50), "{p50} ms, within sysbench's step");
    assert_eq!(phase.transaction.service, *response);
    let figure = |name: &str| found.figures[name];
    assert_eq!((figure("latency_min_us"), figure("latency_p95_us")), (1930.0, 1970.0));
    assert_eq!((figure("transactions_per_second"), figure("queries_per_second")), (49.93, 798.87));
}

/// Neighbouring steps of 1.8 % are one hump together.
#[test]
fn steps_of_its_histogram_are_no_humps() {
    let steps = (0..25i32).map(|step| {
        let (ms, count) = (2.0 * 1.018_17f64.powi(step), 20_000 / (1 + (step - 12).pow(2)));
        format!("{ms:12.3} |****      {count}\n")
    });
    let bars = "       1.939 |****                                     10\n";
    let phase = read(&SYSBENCH.replace(bars, &steps.collect::<String>())).expect("is understood").phase;
    let modes = modes::find(&modes::bins_of(&phase.transaction.service), None);
    assert_eq!(modes.modes.len(), 1, "{modes:#?}");
}

#[test]
fn with_a_rate_its_latencies_are_response_times_alone() {
    let text = SYSBENCH.replace("Number of threads: 4", "Number of threads: 4\nTarget transaction rate: 50/sec");
    let found = read(&text).expect("is understood");
    assert_eq!(found.arrivals, Arrivals::Poisson { per_second: 50.0 });
    assert!(found.phase.transaction.service.is_empty() && !found.phase.transaction.response.is_empty());
}

#[test]
fn pgbench_tells_transactions_and_no_statements() {
    let mut found = read(PGBENCH).expect("is understood");
    assert_eq!((found.program.as_str(), found.connections, found.workers), ("pgbench 15.14", Some(2), Some(1)));
    assert_eq!((found.phase.transactions, found.phase.elapsed_us), (4321, 997_576));
    assert_eq!(found.phase.queries_per_second(), None, "it does not count statements");
    assert_eq!((found.figures["latency_avg_us"], found.figures["transactions_per_second"]), (462.0, 4331.5));
    assert!(found.phase.transaction.response.is_empty());
    add_logs(&mut found, &["0 199 2241 0 1175850568 995598\n1 7 300 0 1175850568 998079\n".to_owned()]);
    let response = &found.phase.transaction.response;
    assert_eq!(response.count(), 2);
    assert!(response.min_ns().abs_diff(300_000) <= 300, "{} ns", response.min_ns());
    assert!(found.phase.timeline.is_empty(), "a log of two of 4321 transactions is a sample");
}

#[test]
fn lines_of_progress_are_a_timeline() {
    let progress = "Threads started!\n\n\
        [ 1s ] thds: 4 tps: 812.34 qps: 12997.44 (r/w/o: 11372.76/0.00/1624.68) lat (ms,95%): 8.13 err/s: 0.00 reconn/s: 0.00\n\
        [ 2s ] thds: 4 tps: 100.00 qps: 1600.00 (r/w/o: 1400.00/0.00/200.00) lat (ms,95%): 0.52 err/s: 2.00 reconn/s: 0.00\n\
        [ 2s ] queue length: 0, concurrency: 1\n\
        [ 4s ] thds: 4 tps: 50.50 qps: 808.00 (r/w/o: 707.00/0.00/101.00) lat (ms,95%): 9.00 err/s: 0.00 reconn/s: 0.00\n";
    let slots = read(&SYSBENCH.replace("Threads started!\n", progress)).expect("is understood").phase.timeline;
    let told: Vec<_> =
        slots.iter().map(|it| (it.at_us, it.length_us, it.transactions, it.queries, it.errors)).collect();
    assert_eq!(
        told,
        [(0, 1_000_000, 812, 12_997, 0), (1_000_000, 1_000_000, 100, 1600, 2), (2_000_000, 2_000_000, 101, 1616, 0)]
    );
    assert_eq!((slots[0].p95_us, slots[0].p99_us, slots[0].mean_us), (Some(8130), 0, None));
    let other = progress.replace("95%", "99%");
    let slots = read(&SYSBENCH.replace("Threads started!\n", &other)).expect("is understood").phase.timeline;
    assert_eq!((slots[0].p95_us, slots[0].p99_us), (None, 8130));
    assert!(read(SYSBENCH).expect("is understood").phase.timeline.is_empty());
}

#[test]
fn pgbench_tells_its_progress_on_standard_error() {
    let of = |text: &str| {
        let mut found = read(PGBENCH).expect("is understood");
        add_progress(&mut found, text);
        let told = |it: &evidence::TimelinePoint| (it.at_us, it.length_us, it.transactions, it.errors, it.mean_us);
        found.phase.timeline.iter().map(told).collect::<Vec<_>>()
    };
    let expected = [(0, 1_000_000, 812, 0, Some(1231)), (1_000_000, 1_000_000, 100, 3, Some(9500))];
    assert_eq!(
        of("pgbench: x\nprogress: 1.0 s, 812.0 tps, lat 1.231 ms stddev 0.412, 0 failed\n\
            progress: 2.0 s, 100.0 tps, lat 9.500 ms stddev 0.412, 3 failed, lag 0.1 ms\n"),
        expected
    );
    assert_eq!(
        of("progress: 1175850568.250 s, 812.0 tps, lat 1.231 ms stddev 0.412, 0 failed\n\
            progress: 1175850569.250 s, 100.0 tps, lat 9.500 ms stddev 0.412, 3 failed\n"),
        expected,
        "with --progress-timestamp"
    );
    assert_eq!(of("progress: 1.0 s, 812.0 tps, lat 1.231 ms stddev 0.412\n"), [expected[0]], "before 15");
}

/// Slots from a log have percentiles; they are preferred to the lines of progress.
#[test]
fn a_whole_log_is_a_timeline() {
    let mut found = read(&PGBENCH.replace("processed: 4321", "processed: 5")).expect("is understood");
    let logs = [
        "0 1 1000 0 1175850568 1000\n0 2 3000 0 1175850568 900000\n".to_owned(),
        "1 1 2000 0 1175850568 500000\n1 2 500000 0 1175850570 100000\n1 3 10 0 1175850571 0\nx\n1 4 failed 0 1175850571 1\n".to_owned(),
    ];
    add_logs(&mut found, &logs);
    add_progress(&mut found, "progress: 1.0 s, 812.0 tps, lat 1.231 ms stddev 0.412, 0 failed\n");
    let told: Vec<_> =
        found.phase.timeline.iter().map(|it| (it.transactions, it.p50_us, it.p99_us, it.max_us)).collect();
    assert_eq!(
        told,
        [(3, 2000, 3000, 3000), (0, 0, 0, 0), (1, 500_000, 500_000, 500_000)],
        "the last second is not whole"
    );
    let mut sums = read(PGBENCH).expect("is understood");
    add_logs(&mut sums, &["1345828501 5601 1542744 483552416 61 2573\n".to_owned()]);
    assert!(sums.phase.transaction.response.is_empty() && sums.phase.timeline.is_empty(), "sums are no latencies");
}

/// No figures are made up for an output in another form.
#[test]
fn what_is_not_known_is_not_understood() {
    for text in [
        "",
        "hello\ntotal time: 1s\n",
        "sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\nFATAL: nothing\n",
        "tps = 5",
    ] {
        assert_eq!(read(text), None, "{text}");
    }
}
