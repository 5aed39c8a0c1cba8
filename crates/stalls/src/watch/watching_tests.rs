// SPDX-License-Identifier: Apache-2.0
use super::super::group::STILL;
use super::super::kept::{Recorded, again};
use super::super::kept_parts::KeptParts;
use super::super::sample::{Doing, Says, Sched, Session, Written};
use super::super::seen::Seen;
use super::super::side_evidence::Sung;
use super::super::testing::{self, STEP_US};
use super::*;
use proptest::prelude::*;

fn session(thread: u32, says: Says) -> Session {
    let session = testing::session(thread, says);
    Session { statement: Some(format!("SELECT c FROM t WHERE id = {}", session.connection)), ..session }
}

fn watching(backoff: bool) -> Watching {
    testing::watching(Dialect::Mysql, backoff, 1_000_000_000)
}

fn answer(at_us: u64, sessions: Vec<Session>, wait_free: u64) -> Answer {
    let counters = Some(Counters { wait_free: Some(wait_free), pages_free: Some(0), lru_flushed: None });
    Answer { asked_us: at_us, answered_us: at_us + 500, sessions: Some(sessions), counters, ..Answer::default() }
}

/// Watches a server whose threads do at each moment what the test says. The server is asked whenever the watch wants it.
fn watched(
    watching: &mut Watching,
    until_us: u64,
    is: &dyn Fn(u64, u32) -> (Doing, Says),
    wait_free: &dyn Fn(u64) -> u64,
) -> Vec<Stall> {
    const THREADS: [u32; 4] = [1, 2, 3, 4];
    let list = |at_us: u64| THREADS.map(|thread| session(thread, is(at_us, thread).1)).to_vec();
    watching.answer(answer(0, list(0), wait_free(0)));
    let mut found = Vec::new();
    for at_us in (1000..until_us).step_by(10_000) {
        let samples = THREADS.map(|thread| {
            let doing = is(at_us, thread).0;
            // a thread that waits for a free page wakes up now and then, and looks
            let turns = if doing == Doing::Asleep { at_us / STEP_US } else { 0 };
            Sample { thread, doing, sched: Some(Sched { turns, ..Sched::default() }), stop: None }
        });
        watching.sample(at_us, &samples);
        let wants = watching.wants(at_us);
        if wants.sessions || wants.counters {
            watching.answer(answer(at_us, list(at_us), wait_free(at_us)));
        }
        found.extend(watching.settled(at_us));
    }
    found
}

fn finish(mut watching: Watching, at_us: u64) -> (Vec<Stall>, Watched) {
    watching.stop(at_us);
    let cost = WatchCost { elapsed_us: at_us, interval_p50_us: STEP_US, ..WatchCost::default() };
    let free_list = watching.watch.free_list;
    let (last, watched, mut seen) = watching.finish(cost, None, Vec::new());
    expect_the_same_again(&seen.take(), &watched.stalls, free_list);
    (last, watched)
}

/// From the parts of a recording, the same stalls are concluded once more.
fn expect_the_same_again(seen: &[Seen], stalls: &[Stall], free_list: Option<&'static FreeList>) {
    let judged = seen.iter().filter_map(|it| match it {
        Seen::Judged { kept, .. } => KeptParts::of(kept, 7).kept(),
        _ => None,
    });
    let wholes = seen.iter().filter_map(|it| match it {
        Seen::Whole(whole) => Whole::of(&whole.part()),
        _ => None,
    });
    let sung = seen.iter().filter_map(|it| match it {
        Seen::Sung(sung) => Sung::of(&sung.part()),
        _ => None,
    });
    let (kept, wholes, sung) = (judged.collect(), wholes.collect(), sung.collect());
    let found = again(Recorded { kept, wholes, sung, logged: Vec::new() }, free_list);
    let mut stalls = stalls.to_vec();
    for stall in &mut stalls {
        let victims = stall.victims.iter_mut().map(|victim| &mut victim.started_us);
        victims.chain([&mut stall.started_us]).flatten().for_each(|us| *us -= 1_000_000_000);
    }
    stalls.sort_by_key(|it| it.started_us);
    assert_eq!(found, stalls);
}

#[test]
fn victims_of_one_wait_are_one_stall_with_its_account() {
    let mut it = watching(true);
    let is = |at_us: u64, thread: u32| {
        let sleeps = (300_000 + u64::from(thread) * 7000..700_000).contains(&at_us);
        if sleeps { (Doing::Asleep, Says::Busy) } else { (Doing::Idle, Says::Idle) }
    };
    let lattice = Lattice::new(&LADDER, Lattice::USUAL_OVERHEAD_US);
    let each = lattice.tries(380_000.0) as u64;
    let stalls = watched(&mut it, 3_000_000, &is, &|at_us| if at_us > 700_000 { 4 * each } else { 0 });
    let [stall] = stalls.as_slice() else { panic!("{stalls:#?}") };
    assert_eq!((stall.cause, stall.victim_count), (Cause::FreeListBackoff, 4));
    assert!(stall.length_us.abs_diff(393_000) < 2 * STEP_US, "{stall:?}");
    assert!(stall.started_us.is_some_and(|us| us.abs_diff(1_000_307_000) < 2 * STEP_US));
    assert_eq!(stall.victims[0].connection.as_deref(), Some("101"));
    assert_eq!(&*stall.victims[0].statement, "select c from t where id = ?", "without values");
    let (_, watched) = finish(it, 3_000_000);
    let account = &watched.account;
    assert_eq!((account.unexplained_query_us, account.attributed_query_us), (0, account.lost_query_us));
    let (rose, computed) = (account.wait_free.unwrap_or(0), account.wait_free_by_stalls.unwrap_or(0));
    assert!(computed.abs_diff(rose) * 10 < rose, "{computed} of {rose}");
    assert_eq!((watched.classes.len(), watched.classes[0].victims, watched.resolution_us), (1, 4, 50_000));
}

#[test]
fn one_after_the_other_are_two_stalls_and_decoys_are_none() {
    let mut it = watching(false);
    let is = |at_us: u64, thread: u32| match (thread, at_us / 100_000) {
        (1, 2..6) => (Doing::Blocked, Says::RowLock),
        (2, 8..12) => (Doing::Blocked, Says::RowLock),
        (3, 3..9) => (Doing::Blocked, Says::AskedToWait),
        _ => (Doing::Idle, Says::Idle),
    };
    let stalls = watched(&mut it, 4_000_000, &is, &|_| 0);
    let seen: Vec<_> = stalls.iter().map(|it| (it.cause, it.victims[0].connection.clone(), it.victim_count)).collect();
    let row = |connection: &str| (Cause::RowLock, Some(connection.to_owned()), 1);
    assert_eq!(seen, [row("101"), row("102")]);
    let (_, watched) = finish(it, 4_000_000);
    assert!(watched.account.own_work_query_us.abs_diff(600_000) < 2 * STEP_US, "{:?}", watched.account);
}

#[test]
fn threads_that_serve_nobody_are_not_watched() {
    let mut it = watching(true);
    it.answer(answer(0, vec![session(1, Says::Idle)], 0));
    for at_us in (0..2_000_000).step_by(10_000) {
        let of = |thread, doing| Sample { thread, doing, sched: None, stop: None };
        it.sample(at_us, &[of(1, Doing::Idle), of(50, Doing::Asleep), of(51, Doing::Blocked)]);
        assert_eq!(it.settled(at_us), []);
    }
    assert!(finish(it, 2_000_000).1.stalls.is_empty());
}

/// A thread that served a client waits for its next client, and serves that one when the wait is judged.
#[test]
fn a_thread_that_waited_for_its_next_client_is_no_victim() {
    let mut it = watching(false);
    let mut stalls = Vec::new();
    for at_us in (0..4_000_000).step_by(10_000) {
        let serves = !(500_000..2_500_000).contains(&at_us);
        let doing = if serves { Doing::Idle } else { Doing::Blocked };
        // the list has the next client before a sample shows that it was served
        if at_us % 500_000 == 0 || it.wants(at_us).sessions {
            it.answer(answer(at_us, serves.then(|| session(1, Says::Idle)).into_iter().collect(), 0));
        }
        it.sample(at_us, &[Sample { thread: 1, doing, sched: None, stop: None }]);
        stalls.extend(it.settled(at_us));
    }
    assert_eq!(stalls, []);
}

/// The server has no CPU either: it answers when the wait is over, and speaks of the statement after it.
#[test]
fn a_wait_for_a_cpu_is_not_denied_by_an_answer_that_came_late() {
    let mut it = watching(false);
    it.answer(answer(0, vec![session(1, Says::Idle)], 0));
    let (mut asked, mut stalls) = (None, Vec::new());
    for at_us in (0..3_000_000).step_by(10_000) {
        let is_frozen = (500_000..800_000).contains(&at_us);
        let sched = Sched { cpu_ns: if is_frozen { 0 } else { at_us * 900 }, queued_ns: 0, turns: 9 };
        let doing = if is_frozen || at_us == 490_000 { Doing::Running } else { Doing::Idle };
        let sched = if is_frozen { Sched { cpu_ns: 490_000 * 900, ..sched } } else { sched };
        if it.wants(at_us).sessions && asked.is_none() {
            asked = Some(at_us);
        }
        if let Some(asked_us) = asked.filter(|_| !is_frozen || at_us == 790_000) {
            let next = Session { age_us: Some(1000), ..session(1, Says::Busy) };
            it.answer(Answer { asked_us, answered_us: at_us, ..answer(at_us, vec![next], 0) });
            asked = None;
        }
        it.sample(at_us, &[Sample { thread: 1, doing, sched: Some(sched), stop: None }]);
        stalls.extend(it.settled(at_us));
    }
    let [stall] = stalls.as_slice() else { panic!("{stalls:#?}") };
    assert!(stall.cause == Cause::Cpu && stall.length_us.abs_diff(300_000) < 2 * STEP_US, "{stall:?}");
}

/// Two statements of 225 ms, one right after the other, of a thread that gets nearly no CPU, as samples cannot tell. `age`: what the server says of the age of a statement.
fn starved(age: fn(u64) -> Option<u64>) -> Vec<Stall> {
    let mut it = watching(false);
    it.answer(answer(0, vec![session(1, Says::Idle)], 0));
    let mut stalls = Vec::new();
    for at_us in (1000..2_000_000).step_by(10_000) {
        let waits = (500_000..950_000).contains(&at_us);
        let sched = Sched { cpu_ns: 0, queued_ns: 0, turns: at_us / 75_000 };
        let doing = if waits { Doing::Running } else { Doing::Idle };
        it.sample(at_us, &[Sample { thread: 1, doing, sched: Some(sched), stop: None }]);
        if it.wants(at_us).sessions {
            let says = if waits { Says::Busy } else { Says::Idle };
            it.answer(answer(at_us, vec![Session { age_us: age(at_us), ..session(1, says) }], 0));
        }
        stalls.extend(it.settled(at_us));
    }
    stalls
}

#[test]
fn a_wait_for_a_cpu_is_cut_where_the_server_says_that_a_statement_began() {
    let told = |stalls: &[Stall]| stalls.iter().map(|it| (it.length_us + STEP_US) / 50_000 * 50).collect::<Vec<_>>();
    let stalls = starved(|at_us| Some((at_us.saturating_sub(500_000)) % 225_000));
    let longest = told(&stalls).into_iter().max();
    assert!(stalls.len() >= 2 && longest >= Some(150) && longest <= Some(200), "{stalls:#?}");
    let of_age = stalls.iter().filter(|it| it.cause == Cause::Cpu && it.evidence.against.is_empty());
    assert!(of_age.count() >= 2, "{stalls:#?}");
    // each turn may be the end of a statement
    let stalls = starved(|_| None);
    assert!(stalls.len() >= 4 && told(&stalls).iter().all(|ms| *ms <= 100), "{stalls:#?}");
    assert!(stalls[0].evidence.against[0].starts_with("the server did not say then how old"), "{stalls:#?}");
}

#[test]
fn what_still_waits_at_the_end_is_told_and_not_as_over() {
    let mut it = watching(false);
    let is = |at_us: u64, thread: u32| {
        if thread <= 2 && at_us > 500_000 { (Doing::Blocked, Says::MetadataLock) } else { (Doing::Idle, Says::Idle) }
    };
    assert_eq!(watched(&mut it, 900_000, &is, &|_| 0), []);
    let (last, all) = finish(it, 900_000);
    let [stall] = last.as_slice() else { panic!("{last:#?}") };
    assert_eq!((all.stalls.as_slice(), stall.cause, stall.goes_on), (last.as_slice(), Cause::MetadataLock, true));
    assert!(stall.length_us.abs_diff(400_000) < 2 * STEP_US);
    let said = &stall.evidence.speaks_for;
    assert!(said.contains(&"2 connections waited together, and 2 of them wait still".to_owned()), "{said:?}");
    assert_eq!(stall.evidence.against, [STILL]);
    assert!(all.notes.iter().any(|it| it.starts_with("1 stall went on when watching ended")), "{:?}", all.notes);
}

#[test]
fn what_is_over_when_watching_ends_does_not_go_on() {
    let mut it = watching(false);
    let is = |at_us: u64, thread: u32| match (thread, at_us) {
        (1, 500_000..895_000) => (Doing::Blocked, Says::MetadataLock),
        (1, 895_000..) => (Doing::Running, Says::Busy),
        _ => (Doing::Idle, Says::Idle),
    };
    assert_eq!(watched(&mut it, 920_000, &is, &|_| 0), []);
    let (last, all) = finish(it, 920_000);
    assert!(last.len() == 1 && !last[0].goes_on && all.notes.is_empty(), "{last:#?} {:?}", all.notes);
}

/// The connections 101 to 104 wait for half a second; `blocked_by` tells for whom.
fn queued(blocked_by: fn(u32) -> Vec<u64>) -> Vec<Stall> {
    let mut it = watching(false);
    let list = |at_us: u64, says: Says| {
        let of = |thread: u32| Session { says, blocked_by: blocked_by(thread), ..session(thread, says) };
        answer(at_us, (1..=4).map(of).collect(), 0)
    };
    it.answer(list(0, Says::Idle));
    let mut found = Vec::new();
    for at_us in (1000..1_500_000).step_by(10_000) {
        let waits = (300_000..800_000).contains(&at_us);
        let (doing, says) = if waits { (Doing::Blocked, Says::RowLock) } else { (Doing::Idle, Says::Idle) };
        it.sample(
            at_us,
            &[1, 2, 3, 4].map(|thread| Sample { thread, doing, sched: Some(Sched::default()), stop: None }),
        );
        if it.wants(at_us).sessions {
            it.answer(list(at_us, says));
        }
        found.extend(it.settled(at_us));
    }
    found
}

#[test]
fn queues_behind_two_holders_are_two_stalls_each_with_its_holder() {
    let stalls = queued(|thread| vec![if thread <= 2 { 7 } else { 8 }]);
    let told: Vec<_> = stalls.iter().map(|it| (it.victim_count, it.held_by.join(" "))).collect();
    assert_eq!(told, [(2, "7".to_owned()), (2, "8".to_owned())], "{stalls:#?}");
}

#[test]
fn who_waits_in_the_queue_is_no_holder() {
    let stalls = queued(|thread| std::iter::once(7).chain((1..thread).map(|it| u64::from(it) + 100)).collect());
    let [stall] = stalls.as_slice() else { panic!("{stalls:#?}") };
    assert_eq!((stall.victim_count, stall.held_by.as_slice()), (4, ["7".to_owned()].as_slice()));
    assert!(stall.evidence.speaks_for.contains(&"held by connection 7".to_owned()), "{stall:#?}");
}

/// The connection 101 is waited for, and waits for somebody whom the server does not name.
#[test]
fn who_waits_is_no_holder_even_where_the_server_names_nobody_else() {
    let stalls = queued(|thread| if thread == 1 { Vec::new() } else { vec![101] });
    let [stall] = stalls.as_slice() else { panic!("{stalls:#?}") };
    assert_eq!((stall.victim_count, stall.held_by.len()), (4, 0), "{stall:#?}");
    assert!(!stall.evidence.speaks_for.iter().any(|it| it.starts_with("held by")), "{stall:#?}");
}

#[test]
fn in_a_deadlock_those_who_wait_for_each_other_are_the_holders() {
    let stalls = queued(|thread| vec![[102, 101, 101, 103][thread as usize - 1]]);
    let [stall] = stalls.as_slice() else { panic!("{stalls:#?}") };
    assert_eq!((stall.victim_count, stall.held_by.join(" ")), (4, "101 102".to_owned()), "{stall:#?}");
}

#[test]
fn a_guess_is_in_the_evidence_and_names_no_holder() {
    let mut it = watching(false);
    let list = |at_us: u64, says: Says| {
        let perhaps_blocked_by = vec![102, 107];
        answer(
            at_us,
            [1, 2].map(|nth| Session { perhaps_blocked_by: perhaps_blocked_by.clone(), ..session(nth, says) }).into(),
            0,
        )
    };
    it.answer(list(0, Says::Idle));
    for at_us in (1000..800_000).step_by(10_000) {
        let (doing, says) =
            if at_us > 300_000 { (Doing::Blocked, Says::MetadataLock) } else { (Doing::Idle, Says::Idle) };
        it.sample(at_us, &[1, 2].map(|thread| Sample { thread, doing, sched: None, stop: None }));
        if it.wants(at_us).sessions {
            it.answer(list(at_us, says));
        }
    }
    let (last, _) = finish(it, 800_000);
    let [stall] = last.as_slice() else { panic!("{last:#?}") };
    let said = stall.evidence.speaks_for.join("; ");
    assert!(stall.held_by.is_empty() && said.contains("a guess: connection 107, whose"), "{stall:#?}");
}

#[test]
fn a_stall_is_told_before_its_end_and_counted_once() {
    let mut it = watching(false);
    let is = |at_us: u64, thread: u32| {
        let waits = thread <= 2 && (100_000..6_000_000).contains(&at_us);
        if waits { (Doing::Blocked, Says::RowLock) } else { (Doing::Idle, Says::Idle) }
    };
    assert_eq!(watched(&mut it, 3_000_000, &is, &|_| 0), []);
    assert_eq!(it.going_on(3_000_000, 5_000_000), []);
    let now = it.going_on(3_000_000, 2_000_000);
    assert_eq!((now.len(), now[0].cause, now[0].victim_count), (1, Cause::RowLock, 2));
    assert!(now[0].length_us.abs_diff(2_900_000) < 2 * STEP_US && now[0].goes_on, "{now:?}");
    let (last, all) = finish(it, 3_000_000);
    assert_eq!((last.len(), all.account.by_cause[&Cause::RowLock].stalls), (1, 1));
}

/// A process of PostgreSQL waits at one descriptor for its client, and at another one for a lock: told apart once it was idle.
#[test]
fn where_a_process_polls_tells_what_it_waits_for() {
    let mut it = watching(false);
    let is = |at_us: u64, thread: u32| match (thread, at_us / 100_000) {
        (1, 10..14) => (Doing::Polling(4), Says::RowLock),
        _ => (Doing::Polling(9), Says::Idle),
    };
    let list = |at_us: u64| [1, 2].map(|thread| session(thread, is(at_us, thread).1)).to_vec();
    let mut stalls = Vec::new();
    for at_us in (0..3_000_000).step_by(10_000) {
        it.sample(at_us, &[1, 2].map(|thread| Sample { thread, doing: is(at_us, thread).0, sched: None, stop: None }));
        if at_us % 500_000 == 20_000 || it.wants(at_us).sessions {
            it.answer(answer(at_us, list(at_us), 0));
        }
        stalls.extend(it.settled(at_us));
    }
    let [stall] = stalls.as_slice() else { panic!("{stalls:#?}") };
    assert!(stall.cause == Cause::RowLock && stall.length_us.abs_diff(400_000) < 2 * STEP_US, "{stall:?}");
}

proptest! {
    /// Whatever the samples and answers are: the account is the sum of its stalls, and no victim lost more time than was watched.
    #[test]
    fn the_account_is_the_sum_of_the_stalls(
        seen in prop::collection::vec((0_u32..4, 0_usize..6, 0_usize..5, 1000_u64..60_000), 0..400), backoff in any::<bool>()
    ) {
        const DOING: [Doing; 6] =
            [Doing::Idle, Doing::Running, Doing::Asleep, Doing::Blocked, Doing::Reading, Doing::Syncing(Written::Unknown)];
        const SAYS: [Says; 5] = [Says::Idle, Says::Busy, Says::RowLock, Says::AskedToWait, Says::DiskRead];
        let mut it = watching(backoff);
        let (mut at_us, mut told) = (0, 0);
        for (nth, (thread, doing, says, later)) in seen.iter().enumerate() {
            at_us += later;
            it.sample(at_us, &[Sample { thread: *thread, doing: DOING[*doing], sched: None, stop: None }]);
            if it.wants(at_us).sessions || nth == 0 {
                it.answer(answer(at_us, (0..4).map(|thread| session(thread, SAYS[*says])).collect(), nth as u64));
            }
            told += it.settled(at_us).len();
        }
        let (last, all) = finish(it, at_us);
        let account = &all.account;
        let sum = |of: &dyn Fn(&Stall) -> u64| all.stalls.iter().map(of).sum::<u64>();
        prop_assert_eq!(told + last.len(), all.stalls.len());
        prop_assert_eq!(sum(&|stall| stall.lost_query_us), account.lost_query_us);
        prop_assert_eq!(account.attributed_query_us + account.unexplained_query_us, account.lost_query_us);
        prop_assert!(account.lost_query_us + account.own_work_query_us <= 4 * at_us);
        prop_assert!(all.stalls.iter().all(|stall| stall.length_us >= 50_000));
        prop_assert!(backoff || !account.by_cause.contains_key(&Cause::FreeListBackoff));
    }
}

#[test]
fn a_probed_call_is_a_stall_of_its_own_length_and_the_samples_of_it_are_not_told_again() {
    let probe = Some(Probe { symbol: "get_free", least_us: 5_000 });
    let of = |watch: Watch| Watching::new(Watch { probe, ..watch });
    let mut watching = of(watching(true).watch);
    watching.seen().keep();
    let slept = |at_us: u64, thread: u32| {
        let is_in = thread == 1 && (300_000..700_000).contains(&at_us);
        if is_in { (Doing::Asleep, Says::Busy) } else { (Doing::Idle, Says::Idle) }
    };
    let list = |at_us: u64| [1, 2].map(|thread| session(thread, slept(at_us, thread).1)).to_vec();
    watching.answer(answer(0, list(0), 0));
    let hit = |thread, at_us, is_return| Hit { thread, at_us, is_return };
    let mut told = Vec::new();
    for at_us in (1000..1_200_000).step_by(10_000) {
        let samples = [1, 2].map(|thread| Sample { thread, doing: slept(at_us, thread).0, sched: None, stop: None });
        watching.sample(at_us, &samples);
        match at_us {
            301_000 => watching.hits(&[hit(1, 298_500, false), hit(2, 299_000, false)]),
            // too short for samples; too short to be told; a thread of the server's own
            311_000 => watching.hits(&[
                hit(2, 307_000, true),
                hit(2, 307_100, false),
                hit(2, 310_000, true),
                hit(9, 309_000, false),
            ]),
            701_000 => watching.hits(&[hit(1, 699_100, true), hit(9, 700_000, true)]),
            _ => {}
        }
        let wants = watching.wants(at_us);
        if wants.sessions || wants.counters {
            watching.answer(answer(at_us, list(at_us), 80));
        }
        told.extend(watching.settled(at_us));
    }
    let (last, watched) = finish(watching, 1_200_000);
    told.extend(last);
    let victims = told.iter().flat_map(|it| it.victims.iter().map(|victim| (victim.length_us, it.cause)));
    let backoff = Cause::FreeListBackoff;
    assert_eq!(victims.collect::<Vec<_>>(), [(400_600, backoff), (8_000, backoff)], "{told:#?}");
    let tiers: Vec<(&str, u64)> = watched.tiers.iter().map(|it| (it.tier, it.resolution_us)).collect();
    assert_eq!(tiers, [("default", 50_000), ("probes", 5_000)]);
    // the account has the tries of all calls, also of those that are too short and of the server's own threads
    let lattice = Lattice::new(&LADDER, Lattice::USUAL_OVERHEAD_US);
    let tries: usize = [8_000.0, 2_900.0, 400_600.0, 391_000.0].map(|us| lattice.tries(us)).iter().sum();
    assert_eq!(watched.account.wait_free_by_stalls, Some(tries as u64));
}

#[test]
fn an_algorithm_that_is_set_while_it_watches_names_what_comes_then() {
    let probe = Some(Probe { symbol: "get_free", least_us: 5_000 });
    let free_list = capability::free_list(capability::Flavour::Mariadb, &capability::Version::of(&[10, 1, 23]));
    let mut watching = Watching::new(Watch { probe, free_list, ..watching(true).watch });
    watching.seen().keep();
    for (from_us, backoff) in [(0, None), (5_000_000, Some(false)), (10_000_000, Some(true))] {
        let list = vec![session(1, Says::Busy)];
        watching.answer(Answer { backoff, ..answer(from_us, list.clone(), 0) });
        let hit = |at_us, is_return| Hit { thread: 1, at_us, is_return };
        watching.hits(&[hit(from_us + 100_000, false), hit(from_us + 150_000, true)]);
        watching.answer(answer(from_us + 160_000, list, 0));
        watching.settled(from_us + 200_000);
        watching.settled(from_us + 400_000);
    }
    let (_, watched) = finish(watching, 12_000_000);
    let told: Vec<Cause> = watched.stalls.iter().map(|it| it.cause).collect();
    assert_eq!(told, [Cause::FreeListBackoff, Cause::FreeListLegacy, Cause::FreeListBackoff]);
    let lattice = Lattice::new(&LADDER, Lattice::USUAL_OVERHEAD_US);
    assert_eq!(watched.account.wait_free_by_stalls, Some(2 * lattice.tries(50_000.0) as u64), "legacy makes no tries");
}

#[test]
fn looks_that_came_too_late_to_see_a_stall_are_told() {
    let notes = |interval_max_us| {
        let cost = WatchCost { interval_p50_us: STEP_US, interval_max_us, ..WatchCost::default() };
        watching(false).finish(cost, None, Vec::new()).1.notes
    };
    assert_eq!(notes(50_000), Vec::<String>::new());
    assert!(notes(310_000)[0].contains("310.0 ms apart"), "{:?}", notes(310_000));
}
