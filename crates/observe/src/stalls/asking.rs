// SPDX-License-Identifier: Apache-2.0
//! Questions, some of which a server may refuse: each refusal is kept once, with what would help.

use crate::server::Query;
use ::stalls::watch::{Missing, Session};
use load::{Busy, Error as Refused};
use std::collections::{HashMap, HashSet};

/// One of several statements for the same question.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) sql: &'static str,
    /// Whether its answer has everything that is wanted.
    pub(super) is_enough: bool,
}

#[derive(Debug)]
pub(super) struct Row(Vec<Option<String>>);

impl Row {
    /// The text of a column; empty for NULL.
    pub(super) fn text(&self, column: usize) -> &str {
        self.0.get(column).and_then(Option::as_deref).unwrap_or_default()
    }

    pub(super) fn number(&self, column: usize) -> Option<u64> {
        self.text(column).parse().ok()
    }
}

/// The facts that are kept from one question to the next.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// For each question, the statement that the server accepted; `None`: it accepted none.
    taken: HashMap<&'static str, Option<usize>>,
    pub(super) missing: Vec<Missing>,
    pub(super) statements: u64,
    /// Whether wait events of performance_schema are on. `None`: not asked yet.
    pub(super) waits_are_on: Option<bool>,
    /// Whether the server was asked why it names nobody who holds the locks of tables.
    pub(super) has_asked_for_instrument: bool,
    /// How often in a row the question for the free pages of each instance was expensive.
    pub(super) dear_instances: u32,
}

pub(super) struct Asking<'a> {
    pub(super) connection: &'a mut dyn Query,
    pub(super) memory: &'a mut Memory,
    /// Why the connection was lost, or that the server did not answer.
    pub(super) lost: Option<String>,
    /// Whether some answer is missing that the server may give when it is asked again.
    pub(super) may_answer_later: bool,
}

/// Answers that are missing although the server has what was asked for.
pub(super) const SOME: &str = "some answers of the server";

impl<'a> Asking<'a> {
    pub(super) fn new(connection: &'a mut dyn Query, memory: &'a mut Memory) -> Self {
        Self { connection, memory, lost: None, may_answer_later: false }
    }
}

impl Asking<'_> {
    /// The first statement that the server accepts and that returns rows is used from then on.
    pub(super) fn first_of(&mut self, what: &'static str, sources: &[Source], remedy: &str) -> Option<Vec<Row>> {
        if let Some(taken) = self.memory.taken.get(what).copied() {
            return self.rows(what, sources.get(taken?)?.sql);
        }
        let mut why = String::new();
        for (nth, source) in sources.iter().enumerate() {
            match self.ask(source.sql) {
                Ok(rows) if !rows.is_empty() || what != "sessions" || nth + 1 == sources.len() => {
                    self.memory.taken.insert(what, Some(nth));
                    if !source.is_enough {
                        self.thread_is_unknown(&why);
                    }
                    return Some(rows);
                }
                Ok(_) => why.clear(),
                Err(Some(refusal)) => why = refusal,
                Err(None) => return None,
            }
        }
        self.memory.taken.insert(what, None);
        self.missing(what, why, Some(remedy));
        None
    }

    /// `refusal`: of the statement that would have told it; empty where the server has no rows there.
    fn thread_is_unknown(&mut self, refusal: &str) {
        let why = "the server does not say which thread a connection has";
        let (why, remedy) = match right_for(refusal) {
            Some(right) => (format!("{why}: {refusal}"), right),
            None => (why.to_owned(), "performance_schema=ON at the server's start"),
        };
        self.missing("which thread is whose", why, Some(remedy));
    }

    /// `None`: the server refused, or the connection was lost.
    pub(super) fn rows(&mut self, what: &str, sql: &str) -> Option<Vec<Row>> {
        match self.ask(sql) {
            Ok(rows) => Some(rows),
            Err(Some(refusal)) => {
                let remedy = right_for(&refusal);
                self.missing(what, refusal, remedy);
                None
            }
            Err(None) => None,
        }
    }

    pub(super) fn ask(&mut self, sql: &str) -> Result<Vec<Row>, Option<String>> {
        if self.lost.is_some() {
            return Err(None);
        }
        self.memory.statements += 1;
        let error = match self.connection.rows(sql) {
            Ok(rows) => return Ok(rows.into_iter().map(Row).collect()),
            Err(error) => error,
        };
        let why = host::chain(&*error);
        match error.downcast_ref::<Refused>() {
            Some(Refused::Server { code, .. }) if is_for_good(code) => Err(Some(why)),
            // the same statement is sent the next time
            Some(Refused::Server { code, .. }) if Busy::of_code(code).is_none() => {
                self.may_answer_later = true;
                self.missing(SOME, why, None);
                Err(None)
            }
            None => Err(Some(why)),
            // a login that was refused, and may succeed later
            Some(_) => {
                self.may_answer_later = true;
                self.lost = Some(why);
                Err(None)
            }
        }
    }

    /// Notes what is missing, once for each `what`.
    pub(super) fn missing(&mut self, what: &str, why: String, remedy: Option<&str>) {
        if !self.memory.missing.iter().any(|missing| missing.what == what) {
            let remedy = remedy.map(str::to_owned);
            self.memory.missing.push(Missing { what: what.to_owned(), why, remedy });
        }
    }
}

/// Whether a server that refuses a statement with this code refuses it the next time, too: it does not have what the statement names, or has it in another
/// shape (tables of an earlier version), or the account may not read it or log in. Other refusals pass: no memory, a lock, a statement that was killed or took too long.
fn is_for_good(code: &str) -> bool {
    const MYSQL: [&str; 19] = [
        "1044", "1045", "1049", "1054", "1064", "1109", "1142", "1143", "1146", "1193", "1227", "1235", "1286", "1305",
        "1356", "1370", "1558", "1682", "1805",
    ];
    let is_in_class = ["0A", "28", "3F", "42"].iter().any(|class| code.starts_with(class));
    MYSQL.contains(&code) || code == "55000" || code.len() == 5 && is_in_class
}

/// The right that an account lacks, by the number of the error with which MySQL and MariaDB refuse.
fn right_for(refusal: &str) -> Option<&'static str> {
    if refusal.contains("1227: ") {
        Some("GRANT PROCESS ON *.*")
    } else if refusal.contains("1142: ") {
        Some("GRANT SELECT ON performance_schema.*")
    } else {
        None
    }
}

/// Passes each session that waits, and the connection that holds what it waits for, to `tell`. `waits`: rows of these two numbers.
pub(super) fn told_of(waits: Option<Vec<Row>>, sessions: &mut [Session], tell: impl Fn(&mut Session, Option<u64>)) {
    let waits = waits.unwrap_or_default();
    let place: HashMap<u64, usize> = sessions.iter().enumerate().map(|(nth, it)| (it.connection, nth)).collect();
    for wait in waits {
        let nth = wait.number(0).and_then(|connection| place.get(&connection));
        if let Some(session) = nth.and_then(|nth| sessions.get_mut(*nth)) {
            tell(session, wait.number(1));
        }
    }
}

/// The most connections that are kept of those for which one connection waits: in a queue of thousands, each waits for all before it.
const MOST_HOLDERS: usize = 16;

/// Keeps few of those for which each session waits: first those that wait for nobody themselves.
pub(super) fn keep_few_holders(sessions: &mut [Session]) {
    let waiting = sessions.iter().filter(|it| !it.blocked_by.is_empty()).map(|it| it.connection);
    let waiting: HashSet<u64> = waiting.collect();
    for session in sessions.iter_mut().filter(|it| it.blocked_by.len() > MOST_HOLDERS) {
        session.blocked_by.sort_by_key(|holder| waiting.contains(holder));
        session.blocked_by.truncate(MOST_HOLDERS);
        session.blocked_by.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAYS: [Source; 2] =
        [Source { sql: "SELECT new", is_enough: true }, Source { sql: "SELECT old", is_enough: false }];

    #[test]
    fn the_way_that_a_server_takes_is_kept_and_what_it_refuses_is_told_once() {
        let mut asked = Vec::new();
        let mut memory = Memory::default();
        let (send, sent) = std::sync::mpsc::channel();
        let mut server = move |sql: &str| {
            let _ = send.send(sql.to_owned());
            match sql {
                "SELECT old" => Ok(vec![vec![Some("7".to_owned()), None]]),
                _ => Err("1054: Unknown column".to_owned()),
            }
        };
        for _ in 0..2 {
            let mut asking = Asking::new(&mut server, &mut memory);
            let rows = asking.first_of("sessions", &WAYS, "help").expect("the old way");
            assert_eq!((rows[0].number(0), rows[0].text(1)), (Some(7), ""));
            assert!(asking.rows("more", "SELECT nothing").is_none() && asking.lost.is_none());
        }
        asked.extend(sent.try_iter());
        assert_eq!(asked, ["SELECT new", "SELECT old", "SELECT nothing", "SELECT old", "SELECT nothing"]);
        let told: Vec<&str> = memory.missing.iter().map(|missing| missing.what.as_str()).collect();
        assert_eq!((told, memory.statements), (vec!["which thread is whose", "more"], 5));
    }

    /// A server without a free connection refuses the login, and not the statement: it is asked again.
    #[test]
    fn a_refused_login_is_no_answer_to_the_first_question() {
        struct Full(u32);
        impl Query for Full {
            fn rows(&mut self, _: &str) -> Result<Vec<Vec<Option<String>>>, Box<dyn std::error::Error + Send + Sync>> {
                self.0 += 1;
                match self.0 {
                    1 => Err(Refused::Server { code: "1040".into(), message: "Too many connections".into() }.into()),
                    _ => Ok(vec![vec![Some("7".to_owned())]]),
                }
            }
        }
        let (mut server, mut memory) = (Full(0), Memory::default());
        let mut asking = Asking::new(&mut server, &mut memory);
        assert!(asking.first_of("sessions", &WAYS, "help").is_none() && asking.lost.is_some());
        let mut later = Asking::new(&mut server, &mut memory);
        assert_eq!(later.first_of("sessions", &WAYS, "help").expect("rows")[0].number(0), Some(7));
        assert!(memory.missing.is_empty(), "{:?}", memory.missing);
    }

    /// A statement that was killed once is asked again in the same words.
    #[test]
    fn only_a_refusal_for_good_makes_another_statement_of_a_question() {
        struct Fails(&'static str, u32);
        impl Query for Fails {
            fn rows(
                &mut self,
                sql: &str,
            ) -> Result<Vec<Vec<Option<String>>>, Box<dyn std::error::Error + Send + Sync>> {
                self.1 += 1;
                match self.1 {
                    1 => Err(Refused::Server { code: self.0.into(), message: "no".into() }.into()),
                    _ => Ok(vec![vec![Some(sql.to_owned())]]),
                }
            }
        }
        let asked = |code| {
            let (mut server, mut memory) = (Fails(code, 0), Memory::default());
            let mut asking = Asking::new(&mut server, &mut memory);
            let first = asking.first_of("sessions", &WAYS, "help").is_some();
            assert!(asking.lost.is_none() && first != asking.may_answer_later);
            let rows = Asking::new(&mut server, &mut memory).first_of("sessions", &WAYS, "help").expect("rows");
            (first, rows[0].text(0).to_owned(), memory.missing.remove(0).what)
        };
        for code in ["1969", "3024", "1317", "57014", "55P03"] {
            assert_eq!(asked(code), (false, "SELECT new".into(), SOME.into()), "{code}");
        }
        for code in ["1054", "1142", "42P01", "42501"] {
            assert_eq!(asked(code), (true, "SELECT old".into(), "which thread is whose".into()), "{code}");
        }
    }

    #[test]
    fn what_would_help_depends_on_why_the_server_does_not_tell() {
        let remedies = |refusal: Option<&'static str>| {
            let mut memory = Memory::default();
            let mut server = move |sql: &str| match (sql, refusal) {
                ("SELECT old", _) => Ok(vec![vec![Some("7".to_owned())]]),
                (_, None) => Ok(Vec::new()),
                (_, Some(refusal)) => Err(refusal.to_owned()),
            };
            let mut asking = Asking::new(&mut server, &mut memory);
            asking.first_of("sessions", &WAYS, "help");
            asking.rows("more", "SELECT more");
            memory.missing.into_iter().map(|missing| missing.remedy.unwrap_or_default()).collect::<Vec<_>>()
        };
        let (select, process) = ("GRANT SELECT ON performance_schema.*", "GRANT PROCESS ON *.*");
        assert_eq!(remedies(Some("the server answered 1142: SELECT command denied")), [select, select]);
        assert_eq!(remedies(Some("the server answered 1227: Access denied")), [process, process]);
        assert_eq!(remedies(None), ["performance_schema=ON at the server's start"]);
    }

    #[test]
    fn of_a_long_queue_the_holder_is_kept() {
        let session = |connection, blocked_by| Session {
            connection,
            thread: None,
            says: ::stalls::watch::Says::RowLock,
            words: String::new(),
            statement: None,
            age_us: None,
            blocked_by,
            perhaps_blocked_by: Vec::new(),
        };
        let mut sessions: Vec<Session> = (100..200).map(|nth| session(nth, (100..nth).chain([7]).collect())).collect();
        keep_few_holders(&mut sessions);
        let holders = &sessions[99].blocked_by;
        assert_eq!((holders.len(), holders[0], holders[1]), (MOST_HOLDERS, 7, 100));
        let rows =
            [("199", "8"), ("3", "8")].map(|(waiter, holder)| Row(vec![Some(waiter.into()), Some(holder.into())]));
        told_of(Some(rows.into()), &mut sessions, |session, holder| session.blocked_by = holder.into_iter().collect());
        assert_eq!(sessions[99].blocked_by, [8]);
    }
}
