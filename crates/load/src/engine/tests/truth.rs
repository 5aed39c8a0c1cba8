// SPDX-License-Identifier: Apache-2.0
//! Tests the measured times. The server's service times and its stall are scripted, and so is time itself: it passes when the server says so, or when
//! the engine waits. So the report must equal the computed report, bucket by bucket, however busy the machine is.

use super::super::conduct::LEAD_NS;
use super::super::schedule::Schedule;
use super::fake::ScriptedTime;
use super::*;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

const LENGTH: u64 = 10_000 * MS;
/// The server stands still for 500 ms, three seconds into the phase.
const STALL: (u64, u64) = (3_000 * MS, 3_500 * MS);

/// Mostly around 2 ms, every tenth 8 ms, every 97th 30 ms: 3 ms on average.
fn service_ns(execution: u64) -> u64 {
    match execution {
        n if n % 97 == 96 => 30 * MS,
        n if n % 10 == 9 => 8 * MS,
        n => 2 * MS + n % 7 * 13_579,
    }
}

/// The expected result from the phase's start on: one connection, first come, first served.
#[derive(Default)]
struct Computed {
    response: LatencyHistogram,
    service: LatencyHistogram,
    /// `(end, response)` of each transaction.
    ends: Vec<(u64, u64)>,
    late: u64,
}

impl Computed {
    /// Serves the request intended for `intended` when the connection is free; returns when it is free again.
    fn serve(&mut self, intended: u64, free: u64) -> u64 {
        let start = free.max(intended);
        let served_from = if (STALL.0..STALL.1).contains(&start) { STALL.1 } else { start };
        let end = served_from + service_ns(self.ends.len() as u64);
        self.response.record(end - intended);
        self.service.record(end - start);
        self.ends.push((end, end - intended));
        self.late += u64::from(start - intended > MS);
        end
    }

    fn closed_loop() -> Self {
        let (mut computed, mut now) = (Self::default(), 0);
        while now < LENGTH {
            now = computed.serve(now, now);
        }
        computed
    }

    fn open_loop(intended: impl Iterator<Item = u64>) -> Self {
        let mut computed = Self::default();
        intended.fold(0, |free, intended| computed.serve(intended, free));
        computed
    }
}

fn measure(arrivals: Arrivals) -> evidence::Phase {
    let clock = Arc::new(AtomicU64::new(0));
    let time = Arc::new(ScriptedTime { clock: clock.clone(), service_ns, stall: Mutex::default() });
    let fake = Fake::scripted(time.clone());
    let spec = LoadSpec {
        arrivals,
        time: Some(Duration::from_nanos(LENGTH)),
        timeline: Duration::from_millis(10),
        scripted_clock: Some(clock.clone()),
        ..Point::spec()
    };
    let start = || {
        let start = clock.load(Ordering::SeqCst) + LEAD_NS;
        *time.stall.lock().unwrap() = (start + STALL.0, start + STALL.1);
    };
    drive(&spec, &fake, start).unwrap().measured
}

fn assert_is(what: &str, measured: &evidence::Phase, computed: &Computed) {
    assert_eq!(measured.transactions, computed.ends.len() as u64, "{what}");
    for (clock, got, want) in [
        ("response", &measured.transaction.response, &computed.response),
        ("service", &measured.transaction.service, &computed.service),
        ("response of the class", &measured.statements["point_select"].response, &computed.response),
        ("service of the class", &measured.statements["point_select"].service, &computed.service),
    ] {
        for p in [50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0] {
            assert_eq!(got.percentile_ns(p), want.percentile_ns(p), "{what}, {clock}, p{p}");
        }
        assert_eq!(got, want, "{what}, {clock}: the whole histogram");
    }
    assert_eq!((measured.late, measured.skipped), (computed.late, 0), "{what}");
    assert_eq!(measured.unended, None, "{what}: all ended");
    // also when nothing was due at the end: a rate is over the whole time
    let end = computed.ends.iter().map(|(end, _)| *end).max().unwrap().max(LENGTH);
    assert_eq!(measured.elapsed_us, end.div_ceil(1000), "{what}");
    assert_timeline(what, measured, computed);
}

/// Slots of 10 ms: which requests ended in each, and the slowest of them.
fn assert_timeline(what: &str, measured: &evidence::Phase, computed: &Computed) {
    let mut slots = vec![(0, 0); measured.timeline.len()];
    for (end, response) in &computed.ends {
        let slot: &mut (u64, u64) = &mut slots[usize::try_from(*end / (10 * MS)).unwrap()];
        *slot = (slot.0 + 1, slot.1.max(*response / 1000));
    }
    let got: Vec<_> = measured.timeline.iter().map(|point| (point.transactions, point.max_us)).collect();
    assert_eq!(got, slots, "{what}: the timeline");
}

fn intended(arrivals: Arrivals) -> impl Iterator<Item = u64> {
    // The measured phase makes it in the same way: from its seed, and from its own start.
    let schedule = Schedule::new(arrivals, Point::spec().seed, LEAD_NS, LEAD_NS + LENGTH).unwrap();
    std::iter::from_fn(move || schedule.claim()).map(|at| at - LEAD_NS)
}

#[test]
fn a_closed_loop_reports_what_can_be_computed() {
    let computed = Computed::closed_loop();
    assert!(computed.ends.len() > 3000);
    assert_is("closed loop", &measure(Arrivals::Closed), &computed);
}

#[test]
fn an_open_loop_reports_what_can_be_computed() {
    for arrivals in [Arrivals::Constant { per_second: 100.0 }, Arrivals::Poisson { per_second: 100.0 }] {
        let computed = Computed::open_loop(intended(arrivals));
        assert_is(&format!("{arrivals:?}"), &measure(arrivals), &computed);
    }
}

/// The same server and the same stall in a closed loop: the next request starts only when the last one has ended, so the requests
/// that would have come meanwhile are missing. One in 3000 is slow then, instead of one in 20.
#[test]
fn coordinated_omission_would_have_hidden_the_stall() {
    let closed = measure(Arrivals::Closed).transaction;
    let open = measure(Arrivals::Constant { per_second: 100.0 }).transaction;
    let slow = |histogram: &LatencyHistogram| {
        histogram.buckets().filter(|bucket| bucket.low_ns > 100 * MS).map(|bucket| bucket.count).sum::<u64>()
    };
    assert_eq!((slow(&closed.response), slow(&open.service)), (1, 1), "the clocks that leave the waiting out");
    assert!((40..70).contains(&slow(&open.response)), "{} of a thousand waited", slow(&open.response));
    for hidden in [&closed.response, &closed.service, &open.service] {
        assert!(hidden.percentile_ns(99.0) <= 31 * MS, "{hidden:?}");
    }
    assert!(open.response.percentile_ns(99.0) > 400 * MS, "{:?}", open.response);
}
