// SPDX-License-Identifier: Apache-2.0
//! The stalls that are kept one by one: as many as memory allows, and those that cost the most time.

use crate::explained::Stall;
use std::cmp::Reverse;

/// The most stalls that are kept, and the most victims of all of them together.
const MOST_STALLS: usize = 2000;
const MOST_VICTIMS: usize = 20_000;

#[derive(Debug, Default)]
pub(crate) struct Dearest {
    /// With the place of each in the order in which they came.
    kept: Vec<(u64, Stall)>,
    victims: usize,
    came: u64,
}

impl Dearest {
    pub(crate) fn add(&mut self, stall: Stall) {
        self.victims += stall.victims.len();
        self.kept.push((self.came, stall));
        self.came += 1;
        // not with each one, so that a stall costs little time
        if self.kept.len() >= 2 * MOST_STALLS || self.victims >= 2 * MOST_VICTIMS {
            self.leave_out();
        }
    }

    fn leave_out(&mut self) {
        self.kept.sort_by_key(|(place, stall)| (Reverse(stall.lost_query_us), *place));
        let mut victims = 0;
        let fits = |(_, stall): &&(u64, Stall)| {
            victims += stall.victims.len();
            victims <= MOST_VICTIMS
        };
        let fitting = self.kept.iter().take(MOST_STALLS).take_while(fits).count();
        self.kept.truncate(fitting);
        self.victims = self.kept.iter().map(|(_, stall)| stall.victims.len()).sum();
    }

    /// The stalls in the order in which they came, and how many were left out.
    pub(crate) fn into_stalls(mut self) -> (Vec<Stall>, u64) {
        self.leave_out();
        self.kept.sort_by_key(|(place, _)| *place);
        let left_out = self.came - self.kept.len() as u64;
        (self.kept.into_iter().map(|(_, stall)| stall).collect(), left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::{Cause, Evidence};
    use crate::explained::Victim;

    fn stall(lost_query_us: u64, victims: usize) -> Stall {
        let victim = Victim {
            connection: None,
            thread: None,
            statement: "".into(),
            statement_with_values: None,
            started_us: None,
            length_us: lost_query_us,
            lost_query_us,
        };
        Stall {
            started_us: None,
            length_us: lost_query_us,
            cause: Cause::Unknown,
            confidence: 0.0,
            lost_query_us,
            ends_within_us: 0,
            goes_on: false,
            evidence: Evidence::default(),
            held_by: Vec::new(),
            victim_count: victims as u64,
            victims: vec![victim; victims],
        }
    }

    #[test]
    fn the_stalls_that_cost_most_stay_in_the_order_in_which_they_came() {
        let mut dearest = Dearest::default();
        (1..=9000).for_each(|lost| dearest.add(stall(if lost % 2 == 0 { lost } else { 1 }, 1)));
        let (kept, left_out) = dearest.into_stalls();
        let lost: Vec<u64> = kept.iter().map(|stall| stall.lost_query_us).collect();
        let expected: Vec<u64> = (5001..=9000).filter(|lost| lost % 2 == 0).collect();
        assert_eq!((lost, left_out), (expected, 7000));
    }

    #[test]
    fn their_victims_are_bounded_together() {
        let mut dearest = Dearest::default();
        (1..=500).for_each(|lost| dearest.add(stall(lost, 200)));
        let (kept, left_out) = dearest.into_stalls();
        assert_eq!((kept.len(), left_out, kept[0].lost_query_us), (100, 400, 401));
    }
}
