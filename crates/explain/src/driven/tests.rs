// SPDX-License-Identifier: Apache-2.0
use super::{add_log, read};
use evidence::Arrivals;

/// As sysbench 1.0.20 prints it, shortened in the histogram.
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

/// Steps of 1.8 % beside each other are one hump, not one each.
#[test]
fn steps_of_its_histogram_are_no_humps() {
    let steps = (0..25i32).map(|step| {
        let (ms, count) = (2.0 * 1.018_17f64.powi(step), 20_000 / (1 + (step - 12).pow(2)));
        format!("{ms:12.3} |****      {count}\n")
    });
    let bars = "       1.939 |****                                     10\n";
    let phase = read(&SYSBENCH.replace(bars, &steps.collect::<String>())).expect("is understood").phase;
    let modes = crate::modes::find(&crate::modes::bins_of(&phase.transaction.service), None);
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
    add_log(&mut found, "0 199 2241 0 1175850568 995598\n1 7 300 0 1175850568 998079\n");
    let response = &found.phase.transaction.response;
    assert_eq!(response.count(), 2);
    assert!(response.min_ns().abs_diff(300_000) <= 300, "{} ns", response.min_ns());
}

/// Of an output in another form nothing is made up.
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
