// SPDX-License-Identifier: Apache-2.0
//! The model against the published definitions: moments and quantiles of the distributions, Little's law, what a token bucket promises.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

use diskmodel::{
    Bin, Bucket, Class, Counts, DiskRequest, Distribution, Law, LimitSpec, Model, OperationSpec, Request, closed_loop,
};
use proptest::prelude::*;

fn model(read: &str) -> Model {
    asked(read).model(&mut |_| Err("no file".into())).unwrap()
}

fn asked(read: &str) -> DiskRequest {
    DiskRequest { read: Some(read.parse().unwrap()), ..DiskRequest::default() }
}

fn limited(read: &str, iops: &str) -> Model {
    let iops = Some(LimitSpec::parse(iops, Counts::Operations).unwrap());
    DiskRequest { iops, ..asked(read) }.model(&mut |_| Err("no file".into())).unwrap()
}

/// Times of `count` random reads that are never queued.
fn drawn(model: &Model, count: u64) -> Vec<f64> {
    let mut law = Law::new(model.clone());
    let read = |number| Request { class: Class::Read, file: 0, offset: number * 20_000 + 1, bytes: 4096 };
    let mut times: Vec<f64> =
        (0..count).map(|number| law.takes_ns(&read(number), 1 + number * 100_000_000_000) as f64 / 1000.0).collect();
    times.sort_by(f64::total_cmp);
    times
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

fn at(sorted: &[f64], p: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * p) as usize]
}

fn near(got: f64, wanted: f64, part: f64) -> bool {
    (got - wanted).abs() <= wanted.abs() * part
}

const DRAWS: u64 = 100_000;

#[test]
fn a_constant_is_constant() {
    let times = drawn(&model("10ms"), 1000);
    assert_eq!((times[0], times[999]), (10_000.0, 10_000.0));
}

#[test]
fn a_normal_has_its_mean_and_deviation() {
    let times = drawn(&model("normal:10ms,2ms"), DRAWS);
    assert!(near(mean(&times), 10_000.0, 0.005), "{}", mean(&times));
    assert!(near(deviation(&times), 2_000.0, 0.01), "{}", deviation(&times));
    // 68.27 % within one deviation
    let within = times.iter().filter(|time| (8_000.0..=12_000.0).contains(*time)).count() as f64 / DRAWS as f64;
    assert!(near(within, 0.6827, 0.01), "{within}");
}

#[test]
fn a_lognormal_has_its_median_its_99th_percentile_and_its_mean() {
    let times = drawn(&model("lognormal:p50=1ms,p99=10ms"), DRAWS);
    assert!(near(at(&times, 0.5), 1_000.0, 0.02), "{}", at(&times, 0.5));
    assert!(near(at(&times, 0.99), 10_000.0, 0.05), "{}", at(&times, 0.99));
    // exp(mu + sigma^2 / 2), with z(0.99) = 2.3263
    let sigma = 10f64.ln() / 2.326_348;
    let expected = 1_000.0 * (sigma * sigma / 2.0).exp();
    assert!(near(mean(&times), expected, 0.03), "{} {expected}", mean(&times));
}

#[test]
fn quantiles_are_met_and_the_logarithm_is_straight_between_them() {
    let words = model("quantiles:p1=0.1ms,p50=1ms,p99=4ms,p99.9=16ms");
    let times = drawn(&words, DRAWS);
    for (p, us) in [(0.01, 100.0), (0.5, 1_000.0), (0.99, 4_000.0), (0.999, 16_000.0)] {
        assert!(near(at(&times, p), us, 0.1), "p{p}: {}", at(&times, p));
    }
    // half way between p50 and p99 lies the geometric mean
    assert!(near(words.read.takes.quantile(0.745), 2_000.0, 1e-9));
    assert_eq!((times[0], times[times.len() - 1]), (100.0, 16_000.0), "nothing is made up beyond the ends");
}

#[test]
fn a_tail_is_as_rare_as_it_says() {
    let times = drawn(&model("tail:0.2ms,1/1000:80ms,1/100:5ms"), DRAWS);
    let count = |us: f64| times.iter().filter(|time| **time == us).count() as f64;
    assert!(near(count(80_000.0), DRAWS as f64 / 1000.0, 0.3), "{}", count(80_000.0));
    assert!(near(count(5_000.0), DRAWS as f64 / 100.0, 0.1), "{}", count(5_000.0));
    assert_eq!(count(200.0) + count(5_000.0) + count(80_000.0), DRAWS as f64);
}

#[test]
fn a_histogram_is_replayed_with_its_gaps() {
    let bins = [(90.0, 110.0, 700), (900.0, 1100.0, 200), (9_000.0, 11_000.0, 100)];
    let bins: Vec<Bin> = bins.map(|(low_us, high_us, count)| Bin { low_us, high_us, count }).to_vec();
    let model = asked("histogram:some.json").model(&mut |file| {
        assert_eq!(file, "some.json");
        Ok(bins.clone())
    });
    let times = drawn(&model.unwrap(), DRAWS);
    for bin in &bins {
        let inside = times.iter().filter(|us| (bin.low_us - 0.01..=bin.high_us + 0.01).contains(*us)).count() as f64;
        assert!(near(inside / DRAWS as f64, bin.count as f64 / 1000.0, 0.03), "{bin:?}: {inside}");
    }
}

#[test]
fn a_larger_request_takes_so_much_longer_for_each_kib() {
    let mut law = Law::new(model("1ms +5us/KiB"));
    let mut takes = |bytes| law.takes_ns(&Request { class: Class::Read, file: 0, offset: 99, bytes }, 1);
    assert_eq!([takes(512), takes(4096), takes(16 * 1024)], [1_000_000, 1_000_000, 1_060_000]);
}

#[test]
fn the_same_seed_gives_the_same_times_and_another_gives_others() {
    let with = |seed| Model { seed, ..model("lognormal:p50=1ms,p99=10ms") };
    assert_eq!(drawn(&with(7), 100), drawn(&with(7), 100));
    assert_ne!(drawn(&with(7), 100), drawn(&with(8), 100));
}

#[test]
fn one_class_does_not_move_the_draws_of_another() {
    let spec = || model("lognormal:p50=1ms,p99=10ms");
    let read = Request { class: Class::Read, file: 0, offset: 5, bytes: 4096 };
    let (mut alone, mut beside) = (Law::new(spec()), Law::new(spec()));
    for round in 1..100 {
        beside.takes_ns(&Request { class: Class::Write, ..read }, round);
        assert_eq!(alone.takes_ns(&read, round), beside.takes_ns(&read, round));
    }
}

/// As in the kernel's own throttle it is not: there p50 is microseconds and p99 a slice of 100 ms.
#[test]
fn a_cap_at_depth_32_makes_every_request_wait_as_long_as_little_says() {
    let seen = closed_loop(&limited("0", "1000"), Class::Read, 32, 20_000, 4096, 60.0);
    assert!(near(seen.quantile_us(0.5), 32_000.0, 0.001), "{}", seen.quantile_us(0.5));
    assert!(near(seen.quantile_us(0.99), 32_000.0, 0.001), "{}", seen.quantile_us(0.99));
    assert!(near(seen.per_second, 1000.0, 0.01), "{}", seen.per_second);
}

#[test]
fn a_cap_that_is_not_used_costs_nothing() {
    let seen = closed_loop(&limited("10ms", "1000"), Class::Read, 4, 1000, 4096, 0.0);
    assert!(near(seen.quantile_us(0.99), 10_000.0, 0.2) && near(seen.per_second, 400.0, 0.02), "{seen:?}");
}

/// 32 requests are always there: somebody waits for the limit that binds from the second request to the end, and nobody for another one.
#[test]
fn who_waits_is_counted_for_the_limit_that_lets_it_go_last() {
    let share = |limits: [&str; 2], bytes: u64| {
        let mut both = limited("0", limits[0]);
        let mut bandwidth = limited("0", limits[1]).limits.remove(0);
        bandwidth.counts = Counts::Bytes;
        both.limits.push(bandwidth);
        let mut law = Law::new(both);
        let (mut free, mut last) = ([1u64; 32], 0);
        for number in 0..3200u64 {
            let slot = (number % 32) as usize;
            free[slot] +=
                law.takes_ns(&Request { class: Class::Read, file: 0, offset: number * 99_991, bytes }, free[slot]);
            last = last.max(free[slot]);
        }
        let waited = law.waited();
        [waited.operations_ns, waited.bytes_ns, waited.queue_ns].map(|ns| ns as f64 / last as f64)
    };
    let by_operations = share(["1000", "100000000"], 4096);
    assert!(by_operations[0] > 0.98 && by_operations[1] < 0.02, "{by_operations:?}");
    let by_bytes = share(["1000", "1000000"], 4096);
    assert!(by_bytes[1] > 0.98 && by_bytes[0] < 0.02, "{by_bytes:?}");
}

#[test]
fn a_server_that_is_waited_for_is_counted_as_the_queue() {
    let mut law = Law::new(Model { depth: Some(1), ..model("10ms") });
    let read = Request { class: Class::Read, file: 0, offset: 9, bytes: 4096 };
    // three at once: the second waits 10 ms, the third 20 ms, the first half of them beside the second
    (0..3).for_each(|_| {
        law.takes_ns(&read, 1);
    });
    assert_eq!(law.waited().queue_ns, 20_000_000);
    assert_eq!(law.waited().operations_ns + law.waited().bytes_ns, 0);
}

#[test]
fn one_server_works_off_one_request_after_the_other() {
    let one = Model { depth: Some(1), ..model("10ms") };
    let seen = closed_loop(&one, Class::Read, 8, 400, 4096, 0.0);
    assert!(near(seen.per_second, 100.0, 0.01), "{}", seen.per_second);
    assert!(near(seen.quantile_us(0.5), 80_000.0, 0.001), "{}", seen.quantile_us(0.5));
    let eight = closed_loop(&Model { depth: Some(8), ..model("10ms") }, Class::Read, 8, 400, 4096, 0.0);
    assert!(near(eight.quantile_us(0.99), 10_000.0, 0.001));
}

#[test]
fn credits_are_spent_at_the_burst_rate_and_then_the_base_rate_holds() {
    // like gp2 of 100 GiB, with a bucket a hundredth as large: credits / (burst - base) = 20 s
    let burst = limited("0", "300,burst=3000,capacity=54000");
    let seen = closed_loop(&burst, Class::Read, 32, 59_000, 4096, 0.0);
    assert!(near(seen.per_second, 3000.0, 0.01), "{}", seen.per_second);
    let longer = closed_loop(&burst, Class::Read, 32, 60_000 + 3_000, 4096, 0.0);
    let seconds = 63_000.0 / longer.per_second;
    assert!(near(seconds, 30.0, 0.02), "20 s at 3000/s, then 10 s at 300/s: {seconds}");
    let empty =
        closed_loop(&limited("0", "300,burst=3000,capacity=54000,credits=0"), Class::Read, 32, 3_000, 4096, 0.0);
    assert!(near(empty.per_second, 300.0, 0.02), "{}", empty.per_second);
}

#[test]
fn large_requests_cost_several_operations_and_adjoining_small_ones_are_counted_as_one() {
    let unit = limited("0", "1000,unit=16K,merge");
    assert!(near(closed_loop(&unit, Class::Read, 1, 1000, 64 * 1024, 0.0).per_second, 250.0, 0.02));
    let mut law = Law::new(unit);
    let mut last = 0;
    for number in 0..4_000u64 {
        let request = Request { class: Class::Read, file: 0, offset: number * 4096, bytes: 4096 };
        last += law.takes_ns(&request, 1 + last);
    }
    assert!(near(last as f64 / 1e9, 1.0, 0.01), "4000 adjoining reads of 4 KiB are 1000 of 16 KiB: {last}");
}

#[test]
fn a_stall_comes_when_it_says_and_lasts_as_long() {
    let stalls = Some("every=10s,lasting=1s,factor=50".parse().unwrap());
    let mut law = Law::new(Model { stalls, ..model("1ms") });
    let read = Request { class: Class::Read, file: 0, offset: 9, bytes: 4096 };
    let begin = 5_000_000_000;
    let mut takes = |ms: u64| law.takes_ns(&read, begin + ms * 1_000_000);
    assert_eq!(
        [0, 8_999, 9_000, 9_999, 10_000, 19_500].map(&mut takes),
        [1_000_000, 1_000_000, 50_000_000, 50_000_000, 1_000_000, 50_000_000]
    );
}

#[test]
fn only_what_is_said_is_limited() {
    let mut reads = limited("0", "100");
    reads.limits[0].of = diskmodel::Of::Reads;
    assert!(near(closed_loop(&reads, Class::Read, 8, 400, 4096, 10.0).per_second, 100.0, 0.03));
    assert!(closed_loop(&reads, Class::Write, 8, 400, 4096, 10.0).per_second > 100_000.0);
    assert!(closed_loop(&limited("0", "100"), Class::Sync, 8, 400, 0, 10.0).per_second > 100_000.0, "a sync is free");
}

fn words() -> impl Strategy<Value = String> {
    let us = 1u32..120_000;
    prop_oneof![
        us.clone().prop_map(|us| format!("{us}us")),
        (3u32..1_000_000).prop_map(|us| format!("normal:{us}us,{}us", us / 3)),
        (us.clone(), 2u32..50).prop_map(|(us, factor)| format!("lognormal:p50={us}us,p99={}us", us * factor)),
        (us.clone(), 1u32..9, 1u32..9).prop_map(|(us, a, b)| format!(
            "quantiles:p1={us}us,p50={}us,p99.99={}us",
            us * a,
            us * a * b
        )),
        (us, 2u32..10_000, 1u32..9).prop_map(|(us, one, factor)| format!("tail:{us}us,1/{one}:{}us", us * factor)),
    ]
}

proptest! {
    /// Never more than rate x time + credits, and the one request that went into debt.
    #[test]
    fn a_bucket_never_gives_more_than_its_rate_and_its_credits(
        rate in 1.0f64..10_000.0,
        credits in 0.0f64..1_000.0,
        burst in proptest::option::of(1.1f64..10.0),
        gaps in proptest::collection::vec((0u64..20_000_000, 1u32..20), 1..300),
    ) {
        let mut bucket = Bucket::new(rate, burst.map(|factor| rate * factor), credits, credits);
        let (mut now, mut out) = (1u64, Vec::new());
        for (gap, cost) in gaps {
            now += gap;
            let go = bucket.admit(now, f64::from(cost));
            prop_assert!(go >= now, "not before it came");
            prop_assert!(out.last().is_none_or(|(last, _)| *last <= go), "in order");
            out.push((go, f64::from(cost)));
        }
        for first in 0..out.len() {
            let mut taken = 0.0;
            for (go, cost) in &out[first..] {
                let seconds = (go - out[first].0) as f64 / 1e9;
                prop_assert!(taken <= credits + rate * seconds + out[first].1.max(20.0) + 1e-6, "{taken} within {seconds} s");
                taken += cost;
            }
        }
    }

    /// In a closed loop clients = throughput x latency (Little 1961), whatever the model.
    #[test]
    fn littles_law_holds(read in words(), depth in 1u32..64, servers in proptest::option::of(1u32..64), iops in 10u32..100_000) {
        let model = Model { depth: servers, ..limited(&read, &iops.to_string()) };
        let requests = 200 * depth;
        let seen = closed_loop(&model, Class::Read, depth, requests, 4096, 50.0);
        // the last requests of all clients run out: that end is at most the longest one
        let total = f64::from(requests) / seen.per_second;
        let in_flight = seen.mean_us() / 1e6 * f64::from(requests) / total;
        prop_assert!(in_flight <= f64::from(depth) * 1.000_001, "{in_flight} of {depth}");
        let end = seen.quantile_us(1.0) / 1e6 / total;
        prop_assert!(in_flight >= f64::from(depth) * (1.0 - end) - 1e-6, "{in_flight} of {depth}, end {end}");
        prop_assert!(seen.per_second <= f64::from(iops) * (1.0 + 2.0 / total) + 2.0 / total);
    }

    /// A quantile function never falls, and what is drawn is what it says.
    #[test]
    fn samples_come_from_the_quantile_function(read in words(), seed: u64) {
        let words: OperationSpec = read.parse().unwrap();
        let takes: &Distribution = words.known().unwrap();
        let values: Vec<f64> = (0..=100).map(|percent| takes.quantile(f64::from(percent) / 100.0)).collect();
        prop_assert!(values.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9), "{values:?}");
        let times = drawn(&Model { seed, ..model(&read) }, 4_000);
        // the share below the median of the function: within 5 deviations of the binomial
        let below = times.iter().filter(|time| **time <= takes.quantile(0.5) + 0.001).count() as f64 / 4_000.0;
        prop_assert!(below >= 0.46, "{below}");
        prop_assert!(at(&times, 0.99) <= takes.quantile(0.998) + 0.001, "p99 {}", at(&times, 0.99));
        prop_assert!(at(&times, 0.99) >= takes.quantile(0.97) - 0.001, "p99 {}", at(&times, 0.99));
    }
}
