// SPDX-License-Identifier: Apache-2.0
//! How often a repeated reading may be taken: at most a hundredth of the interval may be spent on it, by the server or by the reader.

use ledger::{Interval, Probe};
use std::time::Duration;

/// One part in this many of the interval may be spent on a reading.
const SHARE: u32 = 100;

/// What one reading cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// For how long the server's processes were held.
    pub(super) held: Duration,
    /// For how long the server answered questions.
    pub(super) answered: Duration,
    /// The CPU time of the reader.
    pub(super) cpu: Duration,
}

impl Cost {
    pub(super) fn of(probes: &[Probe], cpu: Duration) -> Self {
        let sum = |is_counted: fn(&Probe) -> bool| {
            Duration::from_micros(probes.iter().filter(|probe| is_counted(probe)).map(|probe| probe.held_us).sum())
        };
        Self { held: sum(Probe::is_hold), answered: sum(|probe| probe.tier == Probe::SQL), cpu }
    }

    /// The larger of the server's part and the reader's part. They are not added: the reader's CPU works while it holds a process.
    fn counted(self) -> Duration {
        self.cpu.max(self.held + self.answered)
    }

    /// The cheaper of two readings: a single wait for a CPU says nothing.
    pub(super) fn or_cheaper(self, other: Self) -> Self {
        if other.counted() < self.counted() { other } else { self }
    }

    fn words(self) -> String {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let (held, answered, cpu) = (ms(self.held), ms(self.answered), ms(self.cpu));
        format!(
            "a reading held the server for {held:.1} ms, its questions took {answered:.1} ms, and the reader used {cpu:.1} ms of CPU time"
        )
    }
}

/// The budget of one reading.
pub(super) fn granted(interval: Duration) -> Duration {
    interval / SHARE
}

/// The next interval, after readings at this interval had this cost: the asked one, or two, four, ... times as long. It is shortened only if there is
/// much room; otherwise it would change back and forth.
pub(super) fn next(asked: Duration, now: Duration, cost: Cost) -> Duration {
    let needed = cost.counted() * SHARE;
    let mut next = now;
    while needed > next {
        next *= 2;
    }
    if next > asked && needed * 4 <= next { next / 2 } else { next }
}

/// What is told of a change.
pub(super) fn changed(asked: Duration, next: Duration, cost: Cost) -> String {
    let (asked, next) = (asked.as_secs_f64(), next.as_secs_f64());
    let why = cost.words();
    format!(
        "{why}, and a hundredth of the interval is granted; every {asked:.1} s was asked, from here on it is read every {next:.1} s"
    )
}

/// What each reading tells. `why`: the cost for which the interval was last changed.
pub(super) fn told(asked: Duration, now: Duration, why: Cost) -> Interval {
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    Interval { asked_us: us(asked), got_us: us(now), why: (now > asked).then(|| why.words()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn cost([held, answered, cpu]: [u64; 3]) -> Cost {
        Cost { held: ms(held), answered: ms(answered), cpu: ms(cpu) }
    }

    #[test]
    fn what_is_held_what_is_asked_and_the_readers_cpu_count() {
        let after = |of| next(ms(1000), ms(1000), cost(of)).as_millis();
        assert_eq!(after([10, 0, 10]), 1000, "as much as is granted");
        assert_eq!(after([6, 4, 0]), 1000);
        assert_eq!(after([6, 5, 0]), 2000, "holds and questions are added");
        assert_eq!(after([0, 25, 0]), 4000, "questions alone");
        assert_eq!(after([0, 0, 41]), 8000, "the reader's CPU alone");
        assert_eq!(after([9, 0, 9]), 1000, "the reader's CPU works during a hold, and is not added");
    }

    #[test]
    fn it_is_shortened_where_there_is_much_room_and_never_below_what_was_asked() {
        let after = |now, of| next(ms(1000), ms(now), cost([of, 0, 0])).as_millis();
        assert_eq!(
            [after(8000, 21), after(8000, 20), after(4000, 10), after(2000, 5), after(1000, 0)],
            [8000, 4000, 2000, 1000, 1000]
        );
    }

    #[test]
    fn the_probes_that_hold_the_server_and_those_that_it_answers() {
        let probe = |tier: &str, held_us| Probe { tier: tier.into(), held_us, ..Probe::default() };
        let probes = [probe("smaps", 2000), probe("pagemap", 1000), probe("sql", 4000), probe("unanswered", 5_000_000)];
        assert_eq!(Cost::of(&probes, ms(9)), cost([3, 4, 9]), "a server that does not answer does nothing for it");
        let (cheap, dear) = (cost([1, 2, 0]), cost([0, 0, 4]));
        assert_eq!((cheap.or_cheaper(dear), dear.or_cheaper(cheap)), (cheap, cheap));
    }

    #[test]
    fn what_is_told() {
        let why = cost([20, 5, 12]);
        let words =
            "a reading held the server for 20.0 ms, its questions took 5.0 ms, and the reader used 12.0 ms of CPU time";
        let said = changed(ms(1000), ms(4000), why);
        assert_eq!(
            said,
            format!(
                "{words}, and a hundredth of the interval is granted; every 1.0 s was asked, from here on it is read every 4.0 s"
            )
        );
        let slower = Interval { asked_us: 1_000_000, got_us: 4_000_000, why: Some(words.into()) };
        assert_eq!(told(ms(1000), ms(4000), why), slower);
        assert_eq!(told(ms(1000), ms(1000), why), Interval { asked_us: 1_000_000, got_us: 1_000_000, why: None });
        assert_eq!(granted(ms(1000)), ms(10));
    }
}
