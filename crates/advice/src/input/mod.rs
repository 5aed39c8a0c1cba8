// SPDX-License-Identifier: Apache-2.0
//! A reading from text.

mod paste;
mod problem;
mod saved;

pub use problem::Problem;

use crate::reading::Reading;

/// JSON as `--save` writes it, or what the `mysql` client prints, with tabs between its columns.
///
/// # Errors
/// [`Problem`]: the line, and what was expected there.
pub fn read(text: &str) -> Result<Reading, Problem> {
    let reading = if text.trim_start().starts_with(['{', '[']) { saved::read(text) } else { paste::read(text) }?;
    let end = text.lines().count().max(1);
    if reading.variable("version").is_none() {
        return Err(Problem::at(
            end,
            "the variable `version` is missing: without it, it is not known which server this is",
        ));
    }
    if reading.readings.len() < 2 {
        return Err(Problem::at(end, "one reading of the status: two are needed, some seconds apart"));
    }
    let ups: Vec<f64> = reading.readings.iter().filter_map(|it| it.status.get("Uptime").copied()).collect();
    if ups.windows(2).any(|two| matches!(two, [before, after] if after < before)) {
        return Err(Problem::at(
            end,
            "the server was started anew between the readings (`Uptime` fell), and its counters began at 0: take new readings",
        ));
    }
    let times: Vec<f64> = reading.readings.iter().map(|it| it.at_seconds).collect();
    let is_ascending = times.windows(2).all(|two| matches!(two, [before, after] if before < after));
    if !is_ascending || times.iter().any(|it| !it.is_finite()) {
        return Err(Problem::at(
            end,
            "no time lies between the readings of the status: SELECT SLEEP(10) between the two, or `at_seconds`",
        ));
    }
    Ok(reading.reduced())
}

#[cfg(test)]
mod tests;
