// SPDX-License-Identifier: Apache-2.0
//! Between the server's start and an arm's load: variables that are set while the server runs, and a pause in which nothing happens.

use crate::cell::Phase;
use crate::error::Error;
use crate::lab::Lab;
use evidence::{Measured, Quantity};
use experiment::{is_same_value, sql_value};
use load::admin::Connection;
use std::time::{Duration, Instant};

/// The time between two checks whether the run must end.
const LOOK: Duration = Duration::from_millis(50);

impl Lab<'_> {
    /// Sets each variable by `SET GLOBAL`, also a variable that has its value already: some servers act on each setting. Then it is read back.
    pub(crate) fn set_live(&self, phase: &Phase) -> Result<(), Error> {
        let Some(serving) = self.serving.as_ref().filter(|_| !phase.live.is_empty()) else { return Ok(()) };
        let mut connection = Connection::open(serving.target())?;
        for (name, asked) in &phase.live {
            connection = self.execute(connection, &format!("SET GLOBAL {name} = {}", sql_value(asked)))?;
            let got = connection.query(&format!("SELECT @@GLOBAL.{name}"))?.text(0, 0).unwrap_or_default();
            self.notes.event("load", format!("{}: set {name} to {asked}, it is {got}", phase.name))?;
            let (at_us, arm) = (self.notes.clock.now_us(), Some(phase.name.clone()));
            self.notes.measured(&Measured { at_us, arm, ..measured(name, asked, &got) })?;
        }
        Ok(())
    }

    pub(crate) fn pause(&self, phase: &Phase) -> Result<(), Error> {
        let length = phase.load.pause.0;
        if length.is_zero() {
            return Ok(());
        }
        self.notes.progress.step("load", &format!("{}: waiting for {}", phase.name, phase.load.pause));
        let (began, began_us) = (Instant::now(), self.notes.clock.now_us());
        while let Some(left) = length.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
            self.check_stop()?;
            self.squeezes.check()?;
            std::thread::sleep(left.min(LOOK));
        }
        self.span("load.pause", &phase.name, began_us, &[])
    }
}

fn measured(name: &str, asked: &str, got: &str) -> Measured {
    let is_same = is_same_value(asked, got);
    let numbers = sql_value(asked).parse::<f64>().ok().zip(got.parse::<f64>().ok());
    let (asked_number, got_number, tolerance) = match numbers {
        Some((asked, got)) => (asked, got, "exactly"),
        None => (1.0, f64::from(u8::from(is_same)), "in force (1) or not (0)"),
    };
    Measured {
        asked: Some(Quantity::count(asked_number)),
        got: Some(Quantity::count(got_number)),
        within_tolerance: Some(is_same),
        tolerance: Some(tolerance.to_owned()),
        ..Measured::of(
            format!("server.live.{name}"),
            format!("SET GLOBAL {name} = {asked}"),
            format!("SELECT @@GLOBAL.{name}: {got}"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::measured;

    #[test]
    fn what_the_server_made_of_a_value_stands_beside_what_was_asked() {
        let word = measured("innodb_empty_free_list_algorithm", "legacy", "LEGACY");
        assert_eq!((word.within_tolerance, word.got.unwrap().value), (Some(true), 1.0));
        let clipped = measured("innodb_lru_scan_depth", "10", "100");
        assert_eq!((clipped.asked.unwrap().value, clipped.got.unwrap().value), (10.0, 100.0));
        assert_eq!(clipped.within_tolerance, Some(false));
        assert_eq!(clipped.witness, "SELECT @@GLOBAL.innodb_lru_scan_depth: 100");
    }
}
