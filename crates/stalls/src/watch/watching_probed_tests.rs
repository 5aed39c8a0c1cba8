// SPDX-License-Identifier: Apache-2.0
use super::super::sample::{Doing, Says};
use super::super::testing::{session, watching};
use super::*;

fn list(at_us: u64, sessions: Vec<Session>) -> Answer {
    Answer { asked_us: at_us, answered_us: at_us + 500, sessions: Some(sessions), ..Answer::default() }
}

/// The thread of a connection ends right after its call. The hit of the return, and a list without the connection, come after that.
#[test]
fn the_last_call_of_a_thread_that_has_ended_is_told() {
    let probe = Some(Probe { symbol: "get_free", least_us: 5_000 });
    let mut it = Watching::new(Watch { probe, ..watching(Dialect::Mysql, true, 0).watch });
    it.answer(list(0, vec![session(1, Says::Busy)]));
    it.hits(&[Hit { thread: 1, at_us: 298_500, is_return: false }]);
    for at_us in (1000..700_000).step_by(10_000) {
        let doing = if at_us > 300_000 { Doing::Asleep } else { Doing::Idle };
        it.sample(at_us, &[Sample { thread: 1, doing, sched: None, stop: None }]);
    }
    it.gone(701_000, 1);
    it.hits(&[]);
    it.answer(list(702_000, Vec::new()));
    it.hits(&[Hit { thread: 1, at_us: 700_900, is_return: true }]);
    let told: Vec<_> = it.settled(3_000_000).iter().map(|stall| (stall.cause, stall.length_us)).collect();
    assert_eq!(told, [(Cause::FreeListBackoff, 402_400)]);
}
