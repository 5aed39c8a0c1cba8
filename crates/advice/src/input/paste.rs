// SPDX-License-Identifier: Apache-2.0
//! Reads the output of `mysql -e 'SHOW GLOBAL VARIABLES; SHOW GLOBAL STATUS; SELECT SLEEP(10); SHOW GLOBAL STATUS'`: tables with a head, and a tab between
//! columns.

use super::Problem;
use crate::reading::{Reading, Snapshot};

/// Which table the lines belong to.
enum Part {
    Outside,
    Variables,
    Status,
    Metrics,
    Sleep,
}

/// The last name in the output of `SHOW GLOBAL STATUS` that every version has: if it is missing, lines were lost.
const LAST_OF_STATUS: &str = "Uptime";

pub(super) fn read(text: &str) -> Result<Reading, Problem> {
    let mut it = Paste { reading: Reading::default(), part: Part::Outside, slept: None, has_slept: false };
    let mut end = 1;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_end_matches('\r');
        // the client's own messages on standard error, when both streams are written to one file
        if line.trim().is_empty() || line.starts_with("mysql: [Warning]") || line.starts_with("Warning:") {
            continue;
        }
        end = index + 1;
        it.line(line, end)?;
    }
    it.whole(end)?;
    it.clock_by_uptime();
    Ok(it.reading)
}

struct Paste {
    reading: Reading,
    part: Part,
    /// Seconds from the first reading to the next one, by SELECT SLEEP.
    slept: Option<f64>,
    has_slept: bool,
}

impl Paste {
    fn line(&mut self, line: &str, number: usize) -> Result<(), Problem> {
        if let Some(seconds) = slept(line) {
            self.whole(number)?;
            self.slept = Some(self.slept.unwrap_or(0.0) + seconds);
            self.has_slept = true;
            self.part = Part::Sleep;
            return Ok(());
        }
        if line.starts_with("+-") || line.starts_with("| ") {
            return Err(Problem::at(number, "a drawn table; expected is a tab between the columns: mysql --batch"));
        }
        let Some((name, value)) = line.split_once('\t') else {
            return match self.part {
                Part::Sleep => Ok(()),
                _ => Err(Problem::at(
                    number,
                    format!("expected is a name, a tab, and a value, and there is {:?}", shown(line)),
                )),
            };
        };
        match (name, value) {
            ("Variable_name", "Value") => self.begin(number),
            (name, value) if name.eq_ignore_ascii_case("name") && value.eq_ignore_ascii_case("count") => {
                self.part = Part::Metrics;
                Ok(())
            }
            _ => self.row(name, value, number),
        }
    }

    fn begin(&mut self, number: usize) -> Result<(), Problem> {
        self.whole(number)?;
        if self.reading.variables.is_empty() {
            self.part = Part::Variables;
            return Ok(());
        }
        self.part = Part::Status;
        let at_seconds = self.slept.unwrap_or(0.0);
        self.reading.readings.push(Snapshot { at_seconds, ..Snapshot::default() });
        self.slept.get_or_insert(0.0);
        Ok(())
    }

    fn row(&mut self, name: &str, value: &str, number: usize) -> Result<(), Problem> {
        let last = self.reading.readings.last_mut();
        match (&self.part, last) {
            (Part::Variables, _) => {
                self.reading.variables.insert(name.to_owned(), value.to_owned());
            }
            (Part::Status, Some(last)) => {
                last.status.extend(value.trim().parse().ok().map(|value| (name.to_owned(), value)));
            }
            (Part::Metrics, Some(last)) => {
                last.metrics.extend(value.trim().parse().ok().map(|value| (name.to_owned(), value)));
            }
            _ => {
                let what = "expected is the head of a table first, 'Variable_name', a tab and 'Value': SHOW GLOBAL VARIABLES, without --skip-column-names";
                return Err(Problem::at(number, what));
            }
        }
        Ok(())
    }

    /// Whether the table that ends here has all its lines.
    fn whole(&self, number: usize) -> Result<(), Problem> {
        let cut = |what: &str| Err(Problem::at(number, what));
        match (&self.part, self.reading.readings.last()) {
            (Part::Outside, _) if self.reading.variables.is_empty() && number > 0 && !self.has_slept => Ok(()),
            (Part::Variables, _) if !self.reading.variables.contains_key("version") => {
                cut("SHOW GLOBAL VARIABLES is to come first and whole, and ends here without `version`")
            }
            (Part::Status, Some(last)) if !last.status.contains_key(LAST_OF_STATUS) => {
                cut("SHOW GLOBAL STATUS ends here without `Uptime`: lines are lost, or it is another table")
            }
            _ => Ok(()),
        }
    }

    /// Without SELECT SLEEP between the readings, the server's own clock, in whole seconds.
    fn clock_by_uptime(&mut self) {
        if self.has_slept {
            return;
        }
        let began = self.reading.readings.first().and_then(|it| it.status.get(LAST_OF_STATUS)).copied();
        for snapshot in &mut self.reading.readings {
            if let (Some(began), Some(now)) = (began, snapshot.status.get(LAST_OF_STATUS)) {
                snapshot.at_seconds = now - began;
            }
        }
        if self.reading.readings.len() > 1 {
            self.reading.notes.push("the time between the readings is by Uptime, in whole seconds".to_owned());
        }
    }
}

/// `SLEEP(10)`, as the head of a table.
fn slept(line: &str) -> Option<f64> {
    let line = line.trim();
    let inside = line.strip_prefix("SLEEP(").or_else(|| line.strip_prefix("sleep("))?.strip_suffix(')')?;
    inside.trim().parse().ok().filter(|it: &f64| it.is_finite() && *it > 0.0)
}

fn shown(line: &str) -> String {
    line.chars().take(40).collect()
}
