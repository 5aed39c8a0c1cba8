// SPDX-License-Identifier: Apache-2.0
//! Actions at times of an arm that the file names: statements beside the load, and variables that are set while the server runs.

use serde::Serialize;
use units::Span;

/// The text in [`At::sql`] that is replaced by the number of the sending, from 0.
const TURN: &str = "{turn}";

/// A statement that is sent at a moment of the measured phase.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct At {
    /// The time from the beginning of the measured phase.
    pub time: Span,
    pub sql: String,
    /// The time from one sending to the next; `None`: it is sent once.
    pub every: Option<Span>,
    /// Statements with the same name share one connection, and are sent one after the other. `None`: a connection of its own.
    pub connection: Option<String>,
    /// Its connection stays open to the end of the arm, the time without load included.
    pub stay: bool,
}

impl At {
    /// When the statement is due for the `turn`-th time, from 0; `None`: it is not sent that often.
    pub fn due(&self, turn: u32) -> Option<Span> {
        match (turn, self.every) {
            (0, _) => Some(self.time),
            (_, None) => None,
            (turn, Some(every)) => every.0.checked_mul(turn).and_then(|later| self.time.0.checked_add(later)).map(Span),
        }
    }

    pub fn statement(&self, turn: u32) -> String {
        self.sql.replace(TURN, &turn.to_string())
    }
}

/// A value as `SET GLOBAL` takes it: numbers bare, sizes as bytes (only option files know `128M`), and all other values in quotes.
pub fn sql_value(written: &str) -> String {
    let is_number = |text: &str| !text.is_empty() && text.parse::<f64>().is_ok_and(f64::is_finite);
    let digits = written.trim_end_matches(|c: char| "kKmMgGtT".contains(c));
    let is_whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let size = written.parse::<units::Bytes>().ok().filter(|_| is_whole && digits.len() + 1 == written.len());
    match size {
        _ if is_number(written) => written.to_owned(),
        Some(bytes) => bytes.0.to_string(),
        None => format!("'{}'", written.replace('\\', "\\\\").replace('\'', "''")),
    }
}

/// Whether a server's value of a variable is the asked one: `ON` is the same as 1, and upper and lower case do not matter.
pub fn is_same_value(asked: &str, got: &str) -> bool {
    let plain = |text: &str| {
        let bare = sql_value(text.trim()).trim_matches('\'').to_ascii_lowercase();
        match bare.as_str() {
            "on" | "true" => "1".to_owned(),
            "off" | "false" => "0".to_owned(),
            other => other.parse::<f64>().map_or_else(|_| other.to_owned(), |number| number.to_string()),
        }
    };
    plain(asked) == plain(got)
}

#[cfg(test)]
mod tests {
    use super::{At, is_same_value, sql_value};
    use units::Span;

    #[test]
    fn a_statement_without_every_is_due_once_and_with_it_again_and_again() {
        let once = At { time: Span::secs(10), sql: "DO {turn}".into(), ..At::default() };
        assert_eq!([once.due(0), once.due(1)], [Some(Span::secs(10)), None]);
        let again = At { every: Some(Span::secs(120)), ..once };
        assert_eq!([again.due(0), again.due(2)], [Some(Span::secs(10)), Some(Span::secs(250))]);
        assert_eq!([again.statement(0), again.statement(7)], ["DO 0", "DO 7"]);
    }

    #[test]
    fn values_are_written_so_that_set_global_takes_them() {
        let cases = [
            ("1024", "1024"),
            ("0.05", "0.05"),
            ("128M", "134217728"),
            ("legacy", "'legacy'"),
            ("ON", "'ON'"),
            ("it's", "'it''s'"),
            ("M", "'M'"),
            ("inf", "'inf'"),
            ("1kk", "'1kk'"),
        ];
        for (written, sql) in cases {
            assert_eq!(sql_value(written), sql, "{written}");
        }
    }

    #[test]
    fn a_value_that_the_server_says_in_its_own_words_is_the_same() {
        for (asked, got) in
            [("ON", "1"), ("off", "0"), ("128M", "134217728"), ("LEGACY", "legacy"), ("0.05", "0.050000")]
        {
            assert!(is_same_value(asked, got), "{asked} {got}");
        }
        for (asked, got) in [("ON", "0"), ("100", "128"), ("legacy", "backoff")] {
            assert!(!is_same_value(asked, got), "{asked} {got}");
        }
    }
}
