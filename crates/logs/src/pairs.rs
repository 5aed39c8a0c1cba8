// SPDX-License-Identifier: Apache-2.0
//! Lines that people extract from a slow log with awk: the moment at which a statement ended, and how long it took. `01:35:41.656535Z: 0.401592`,
//! with or without the day before it.

use crate::clock::{Moment, Told};
use crate::entry::{Found, Gathered, Reader};
use crate::figures::{Figures, decimal};

#[derive(Default)]
pub(crate) struct Pairs;

pub(crate) fn is_pair(line: &str) -> bool {
    pair(line).is_some()
}

/// The moment of the end, the step of its clock, and the time taken.
fn pair(line: &str) -> Option<(Moment, u64, u64)> {
    let (moment, took) = line.trim().rsplit_once(": ")?;
    let ended = Moment::of_day(moment).or_else(|| Moment::of_iso(moment))?;
    let step_us = if moment.contains('.') { 1 } else { 1_000_000 };
    took.contains('.').then(|| decimal(took.trim(), 6))?.map(|took| (ended, step_us, took))
}

impl Reader for Pairs {
    fn line(&mut self, number: u64, line: &str, gathered: &mut Gathered) {
        let Some((ended, step_us, took)) = pair(line) else {
            if !line.trim().is_empty() {
                gathered.trouble(number, "a line without a time and a query time");
            }
            return;
        };
        Told::of_iso(line.trim()).iter().for_each(|told| gathered.zone(&told.zone));
        let figures = Figures { took_us: Some(took), step_us, ..Figures::default() };
        let at = ended.minus_us(i64::try_from(took).unwrap_or(0));
        gathered.found(Found { at, line: number, from: gathered.here.offset, figures, ..Found::default() });
    }

    fn end(&mut self, _: &mut Gathered) {}
}

#[cfg(test)]
mod tests {
    use super::pair;

    #[test]
    fn the_clock_is_that_of_the_moment_and_not_of_the_query_time() {
        let step = |line: &str| pair(line).map(|(_, step_us, took)| (step_us, took));
        assert_eq!(step("01:35:41.656535Z: 0.401592"), Some((1, 401_592)));
        assert_eq!(step("01:35:41: 0.401592"), Some((1_000_000, 401_592)));
        assert_eq!(step("01:35:41: 0"), None);
    }
}
