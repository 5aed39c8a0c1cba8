// SPDX-License-Identifier: Apache-2.0
//! Whose turn it is: the order in which the processes of one server are read.
//!
//! A repeated reading reads only some of many processes in detail: first the server's first process and the one with the most memory of its own, then the
//! one that grew most since it was last read, then those that were read longest ago. A process that was not read keeps the figures of its last
//! reading: see [`Earlier`].

use host::process::Identity;
use ledger::{Earlier, ProcessSeen, shared};
use std::collections::BTreeMap;
use std::time::Instant;

/// What the readings so far have told.
#[derive(Default)]
pub(super) struct Turns {
    of: BTreeMap<Identity, Turn>,
    has_read: bool,
    /// The memory of files and the shared memory of each process, at the last reading.
    shared: BTreeMap<Identity, u64>,
    /// The sum of all its changes, up and down, since the first reading.
    changed: u64,
}

struct Turn {
    /// Of the last reading that told its Pss.
    sized_at: Instant,
    sized: Earlier,
    /// [`Turns::changed`] at that time.
    changed: u64,
    /// Of the last reading in detail. `None`: there was none.
    detailed: Option<(Instant, Earlier)>,
}

pub(super) fn identity(process: &ProcessSeen) -> Identity {
    Identity { pid: process.pid, start_time: process.started_ticks }
}

impl Turns {
    /// Whether nothing has been read yet.
    pub(super) fn is_first(&self) -> bool {
        !self.has_read
    }

    /// The order in which processes are read in detail.
    pub(super) fn in_detail(&self, seen: &[ProcessSeen]) -> Vec<usize> {
        let mut order = in_turn(seen);
        order.sort_by_key(|at| self.detailed(&seen[*at]).map(|(at, _)| *at));
        let others = || (1..seen.len()).rev();
        let grown = others().max_by_key(|at| self.grown(&seen[*at])).filter(|at| self.grown(&seen[*at]) > 0);
        let largest = others().max_by_key(|at| resident(&seen[*at]));
        for front in [grown, largest, (!seen.is_empty()).then_some(0)].into_iter().flatten() {
            order.retain(|at| *at != front);
            order.insert(0, front);
        }
        order
    }

    /// The processes of which only the sum is to be read: those whose sum is known least come first.
    pub(super) fn in_sum(&self, seen: &[ProcessSeen]) -> Vec<usize> {
        let unread = |at: &usize| seen[*at].mappings.is_none() && seen[*at].rollup.is_none();
        let mut order: Vec<usize> = in_turn(seen).into_iter().filter(unread).collect();
        order.sort_by_key(|at| self.of.get(&identity(&seen[*at])).map(|turn| turn.sized_at));
        order
    }

    /// Remembers what was read, and gives to each process that was read before what is known from then. Processes that have ended are forgotten.
    pub(super) fn note(&mut self, seen: &mut [ProcessSeen]) {
        let now = Instant::now();
        self.note_changes(seen);
        let changed = self.changed;
        let mut turns = BTreeMap::new();
        for process in seen {
            let before = self.of.remove(&identity(process));
            let aged = |turn: &Turn| turn.sized.aged(now.duration_since(turn.sized_at), changed - turn.changed);
            process.earlier = before.as_ref().map(aged);
            let told = Earlier::of(process);
            let is_detailed = process.mappings.is_some();
            let turn = match (told, before) {
                (None, before) => before,
                (Some(sized), before) => {
                    let detailed = before.and_then(|turn| turn.detailed);
                    let detailed = if is_detailed { Some((now, sized.clone())) } else { detailed };
                    Some(Turn { sized_at: now, sized, changed, detailed })
                }
            };
            turns.extend(turn.map(|turn| (identity(process), turn)));
        }
        (self.of, self.has_read) = (turns, true);
    }

    fn note_changes(&mut self, seen: &[ProcessSeen]) {
        let now: BTreeMap<Identity, u64> = seen.iter().map(|it| (identity(it), shared(it))).collect();
        let before = std::mem::take(&mut self.shared);
        if self.has_read {
            let of_live = now.iter().map(|(it, bytes)| bytes.abs_diff(before.get(it).copied().unwrap_or(0)));
            let of_ended = before.iter().filter(|(it, _)| !now.contains_key(it)).map(|(_, bytes)| *bytes);
            self.changed = of_live.chain(of_ended).fold(self.changed, u64::saturating_add);
        }
        self.shared = now;
    }

    fn detailed(&self, process: &ProcessSeen) -> Option<&(Instant, Earlier)> {
        self.of.get(&identity(process))?.detailed.as_ref()
    }

    /// By how much its own memory has grown since it was last read in detail; of a process that was not: all of it.
    fn grown(&self, process: &ProcessSeen) -> u64 {
        self.detailed(process).map_or_else(|| resident(process), |(_, earlier)| earlier.grown(process))
    }
}

/// Its own memory; kernels before 4.5 tell all of it only.
fn resident(process: &ProcessSeen) -> u64 {
    let of = |name: &str| process.status.get(name).copied();
    of("RssAnon").or_else(|| of("VmRSS")).unwrap_or(0)
}

/// The order of reading: one process of each role, in the order of their start; then one more of each role, and so on. The processes of a role are
/// chosen from early and late starts alike, because early processes have often touched other memory than late ones.
pub(super) fn in_turn(seen: &[ProcessSeen]) -> Vec<usize> {
    let mut of_role: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, process) in seen.iter().enumerate() {
        of_role.entry(&process.role).or_default().push(at);
    }
    let spread =
        of_role.into_values().flat_map(|members| all_over(&members).into_iter().enumerate().collect::<Vec<_>>());
    let mut rounds: Vec<(usize, usize)> = spread.collect();
    rounds.sort_unstable();
    rounds.into_iter().map(|(_, at)| at).collect()
}

/// The first one, then the others by the binary digits of their places read backwards: so each beginning of this order is spread over all of them.
fn all_over(members: &[usize]) -> Vec<usize> {
    let digits = usize::BITS - members.len().leading_zeros();
    let backwards = |place: usize| if digits == 0 { 0 } else { place.reverse_bits() >> (usize::BITS - digits) };
    let mut placed: Vec<(usize, usize)> =
        members.iter().enumerate().map(|(place, at)| (backwards(place), *at)).collect();
    placed.sort_unstable();
    placed.into_iter().map(|(_, at)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::Mapping;

    const MIB: u64 = 1 << 20;

    fn of(pid: u32, role: &str, own: u64) -> ProcessSeen {
        let status = [("RssAnon".to_owned(), own * MIB)].into();
        ProcessSeen { pid, role: role.to_owned(), status, ..ProcessSeen::default() }
    }

    /// Reads some of them in detail, and of some the sum.
    fn reading(turns: &mut Turns, seen: &[ProcessSeen], detailed: &[usize], summed: &[usize]) -> Vec<ProcessSeen> {
        let mut seen = seen.to_vec();
        for (at, process) in seen.iter_mut().enumerate() {
            let pss = process.status["RssAnon"];
            let mapping = Mapping { rss: pss, pss, ..Mapping::default() };
            process.mappings = detailed.contains(&at).then(|| vec![mapping]);
            process.rollup = summed.contains(&at).then(|| [("Pss".to_owned(), pss)].into());
        }
        turns.note(&mut seen);
        seen
    }

    #[test]
    fn every_role_has_its_turn_before_one_has_a_second() {
        let seen = ["postmaster", "client backend", "client backend", "checkpointer"].map(|role| of(1, role, 0));
        assert_eq!(in_turn(&seen), [0, 1, 3, 2]);
        assert_eq!(all_over(&[10, 11, 12, 13, 14, 15, 16]), [10, 14, 12, 16, 11, 15, 13]);
        assert!(all_over(&[]).is_empty());
    }

    /// One session ends and another one begins: together they have as much as before, and not the same pages.
    #[test]
    fn what_begins_and_what_ends_are_changes_of_all() {
        let with = |pid: u32, mib: u64| {
            let mut process = of(pid, "b", 1);
            process.status.insert("RssShmem".to_owned(), mib * MIB);
            process
        };
        let mut turns = Turns::default();
        reading(&mut turns, &[with(1, 8), with(2, 400)], &[0], &[]);
        let changed = |seen: Vec<ProcessSeen>| seen[0].earlier.as_ref().map(|it| it.changed_by_all / MIB);
        assert_eq!(changed(reading(&mut turns, &[with(1, 8), with(2, 400)], &[], &[])), Some(0));
        assert_eq!(changed(reading(&mut turns, &[with(1, 9), with(3, 400)], &[], &[])), Some(801));
    }

    /// A backend that loses memory is read each time: it is the largest, or the one that grew most.
    #[test]
    fn the_largest_and_the_one_that_grew_most_come_before_those_that_were_read_longest_ago() {
        let mut turns = Turns::default();
        let mut seen: Vec<ProcessSeen> =
            [5, 1, 2, 90, 3, 4].into_iter().zip(1..).map(|(own, pid)| of(pid, "b", own)).collect();
        assert_eq!(turns.in_detail(&seen)[..2], [0, 3]);
        reading(&mut turns, &seen, &[0, 3, 4], &[1]);
        seen[4] = of(5, "b", 10);
        assert_eq!(
            turns.in_detail(&seen)[..3],
            [0, 3, 4],
            "one that was read and has grown by 7 MiB, before one that nobody has read"
        );
        reading(&mut turns, &seen, &[0, 3, 4], &[]);
        let order = turns.in_detail(&seen);
        assert_eq!(
            (&order[..3], order[5]),
            (&[0, 3, 5][..], 4),
            "none has grown: those that nobody has read come first"
        );
        reading(&mut turns, &seen, &[0, 3, 5, 1, 2], &[]);
        assert_eq!(turns.in_detail(&seen)[2], 4, "all were read, and that one longest ago");
        let grown = of(2, "b", 2);
        seen[1] = grown;
        assert_eq!(turns.in_detail(&seen)[..3], [0, 3, 1]);
    }

    #[test]
    fn what_was_not_read_keeps_what_was_told_before() {
        let mut turns = Turns::default();
        let seen: Vec<ProcessSeen> = (1..=4).map(|pid| of(pid, "b", 3)).collect();
        assert!(turns.is_first());
        let first = reading(&mut turns, &seen, &[0], &[2]);
        assert!(!turns.is_first() && first.iter().all(|it| it.earlier.is_none()));
        assert_eq!(turns.in_sum(&seen), [1, 3, 0, 2], "those of which nothing is known come first");
        let second = reading(&mut turns, &seen[..3], &[], &[1]);
        let known = |seen: &[ProcessSeen]| seen.iter().map(|it| it.earlier.is_some()).collect::<Vec<_>>();
        assert_eq!(known(&second), [true, false, true]);
        let third = reading(&mut turns, &seen, &[], &[]);
        assert_eq!(known(&third), [true, true, true, false]);
        let ages: Vec<u64> = third.iter().filter_map(|it| Some(it.earlier.as_ref()?.age_us)).collect();
        assert!(ages[1] < ages[0] && ages[0] == ages[2], "{ages:?}");
        let another = ProcessSeen { started_ticks: 9, ..seen[0].clone() };
        assert_eq!(known(&reading(&mut turns, &[another], &[], &[])), [false], "a later process with its number");
        assert_eq!(known(&reading(&mut turns, &seen, &[], &[])), [false; 4], "all of them had ended");
    }
}
