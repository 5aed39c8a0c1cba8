// SPDX-License-Identifier: Apache-2.0
//! Which slow statements of a load a watch of the server's threads saw wait. The load's numbers of connections are not the server's, so the times decide.

use stalls::recorded::SlowStatement;
use stalls::{Stall, Victim};
use std::collections::{BTreeMap, HashMap};

/// A statement is looked for among the waits that have at least this share of their time together with it; first among those that are nearly as long as it.
const FITS: [f64; 3] = [0.9, 0.7, 0.0];

/// By connection and begin of a statement of the load: the number of the stall in which the watch saw it wait.
#[derive(Debug, Default)]
pub(crate) struct Seen(HashMap<(String, i64), usize>);

impl Seen {
    pub(crate) fn stall_of(&self, victim: &Victim) -> Option<usize> {
        let connection = victim.connection.clone().unwrap_or_default();
        self.0.get(&(connection, victim.started_us?)).copied()
    }
}

/// Finds the waits of the statements among the victims of the stalls, and notes at each statement for how long it was seen to wait. A statement was seen if one
/// connection of the server waited for half of its time or more. A connection has one statement at a time.
pub(crate) fn seen(slow: &mut [SlowStatement], stalls: &[Stall]) -> Seen {
    let mut connections = connections(stalls);
    let mut seen = Seen::default();
    for least in FITS {
        for statement in slow.iter_mut().filter(|it| it.seen_us.is_none()) {
            let time = Time {
                from_us: statement.ended_us.saturating_sub_unsigned(statement.took_us),
                to_us: statement.ended_us,
            };
            let waits = connections.iter().enumerate().filter_map(|(at, it)| Some((at, it.wait(time)?)));
            let best =
                waits.filter(|(_, it)| it.fit >= least).max_by(|(_, one), (_, other)| one.fit.total_cmp(&other.fit));
            let Some((at, wait)) = best else { continue };
            if let Some(connection) = connections.get_mut(at) {
                connection.taken.insert(time.from_us, time.to_us);
            }
            statement.seen_us = Some(wait.shared_us);
            seen.0.insert((statement.connection.clone(), time.from_us), wait.stall);
        }
    }
    seen
}

#[derive(Debug, Clone, Copy)]
struct Time {
    from_us: i64,
    to_us: i64,
}

impl Time {
    fn length_us(self) -> u64 {
        u64::try_from(self.to_us.saturating_sub(self.from_us)).unwrap_or(0)
    }

    fn shared_us(self, other: Self) -> u64 {
        Self { from_us: self.from_us.max(other.from_us), to_us: self.to_us.min(other.to_us) }.length_us()
    }
}

/// A connection of the server.
#[derive(Debug, Default)]
struct Connection {
    /// Its waits, none before another's end, each with the number of its stall.
    waits: Vec<(Time, usize)>,
    /// The statements whose waits they are: from, to.
    taken: BTreeMap<i64, i64>,
}

/// The waits of one connection in the time of a statement.
#[derive(Debug, Clone, Copy)]
struct Wait {
    shared_us: u64,
    /// The shared time, as a share of the time that the statement or these waits took.
    fit: f64,
    /// The stall of the longest of them.
    stall: usize,
}

impl Connection {
    /// `None`: it did not wait for half of this time, or another statement was on this connection.
    fn wait(&self, time: Time) -> Option<Wait> {
        let before = self.taken.range(..time.to_us).next_back();
        if before.is_some_and(|(_, to_us)| *to_us > time.from_us) {
            return None;
        }
        let first = self.waits.partition_point(|(wait, _)| wait.to_us <= time.from_us);
        let of = self.waits.iter().skip(first).take_while(|(wait, _)| wait.from_us < time.to_us);
        let (mut shared_us, mut all_us, mut longest) = (0_u64, time.length_us(), None);
        for (wait, stall) in of {
            let us = wait.shared_us(time);
            shared_us += us;
            all_us += wait.length_us() - us;
            longest = longest.max(Some((us, *stall)));
        }
        let (_, stall) = longest?;
        let fit = shared_us as f64 / all_us.max(1) as f64;
        (shared_us * 2 >= time.length_us()).then_some(Wait { shared_us, fit, stall })
    }
}

fn connections(stalls: &[Stall]) -> Vec<Connection> {
    let mut by_name: BTreeMap<(Option<&str>, Option<u32>), Connection> = BTreeMap::new();
    for (number, stall) in stalls.iter().enumerate() {
        for victim in &stall.victims {
            let Some(from_us) = victim.started_us else { continue };
            let time = Time { from_us, to_us: from_us.saturating_add_unsigned(victim.length_us) };
            // PostgreSQL's connection is its process; a thread counts where the watch has no number of the connection
            let name = (victim.connection.as_deref(), victim.thread.filter(|_| victim.connection.is_none()));
            by_name.entry(name).or_default().waits.push((time, number));
        }
    }
    let in_order = |mut it: Connection| {
        it.waits.sort_by_key(|(time, _)| time.from_us);
        let mut until_us = i64::MIN;
        for (time, _) in &mut it.waits {
            time.from_us = time.from_us.max(until_us);
            until_us = until_us.max(time.to_us);
            time.to_us = time.to_us.max(time.from_us);
        }
        it
    };
    by_name.into_values().map(in_order).collect()
}
