// SPDX-License-Identifier: Apache-2.0
//! A load that empties the list of free pages, what its clients felt, and for how long they had no CPU: by the kernel's count.

use super::{Client, Felt};
use crate::accounted::Server;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a client felt, and for how long its own thread and the server's thread could run meanwhile and had no CPU.
#[derive(Debug, Clone)]
pub struct Waited {
    pub felt: Felt,
    pub queued_us: u64,
}

impl Waited {
    /// No tenth of the time in the queue for a CPU.
    pub fn has_cpu(&self) -> bool {
        self.queued_us * 10 <= self.felt.took_us
    }
}

/// Of a thread, from `schedstat`.
fn queued_us(folder: &str) -> u64 {
    let text = fs::read_to_string(format!("{folder}/schedstat")).unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1000
}

/// The folder below /proc of the thread that serves the client.
pub fn thread_of(server: &Server, client: &mut Client) -> String {
    let sql = format!("SELECT TID FROM information_schema.PROCESSLIST WHERE ID = {}", client.number);
    format!("/proc/{}/task/{}", server.pid, client.connection.query(&sql).unwrap().text(0, 0).unwrap())
}

/// Statements one after another, each of a page of its own of `rows` rows, until it is to stop; those are kept that took 20 ms and more.
pub fn point_selects(
    mut client: Client,
    thread: &str,
    rows: u64,
    seed: u64,
    stop: &AtomicBool,
    kept: &Mutex<Vec<Waited>>,
) {
    let mut state = seed;
    let queued = || queued_us(thread) + queued_us("/proc/thread-self");
    while !stop.load(Ordering::Relaxed) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (id, before_us) = ((state >> 33) % rows + 1, queued());
        let felt = client.run(&format!("SELECT c FROM sbtest1 WHERE id = {id}"));
        let waited = Waited { felt, queued_us: queued() - before_us };
        kept.lock().unwrap().extend(Some(waited).filter(|it| it.felt.took_us >= 20_000));
    }
}

/// Waits at the same time are of one stall: what holds of one of them holds of the others, so a stall counts once.
pub fn by_stall(waited: &[Waited]) -> Vec<Vec<Waited>> {
    let mut sorted = waited.to_vec();
    sorted.sort_by_key(|it| it.felt.started_us);
    let mut stalls: Vec<Vec<Waited>> = Vec::new();
    let mut ended_us = 0;
    for one in sorted {
        let (from_us, until_us) = (one.felt.started_us, one.felt.ended_us());
        match stalls.last_mut() {
            Some(stall) if from_us < ended_us => stall.push(one),
            _ => stalls.push(vec![one]),
        }
        ended_us = ended_us.max(until_us);
    }
    stalls
}

/// Those of which it holds for half of the waits.
pub fn count_by_half(stalls: &[Vec<Waited>], holds: impl Fn(&Waited) -> bool) -> usize {
    stalls.iter().filter(|stall| stall.iter().filter(|it| holds(it)).count() * 2 >= stall.len()).count()
}

/// Ends the clients, also when the test fails.
pub struct Stops<'a>(pub &'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
