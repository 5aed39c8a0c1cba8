// SPDX-License-Identifier: Apache-2.0
//! The clients beside an arm's load, each in a thread of its own: they open connections at a rate, keep them or close them, and count what the
//! server answers.

use crate::cell::Phase;
use crate::error::Error;
use crate::lab::Lab;
use crate::server::Serving;
use evidence::{Measured, Quantity};
use load::admin::Connection;
use load::{Busy, Protocol, Target};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long to wait for a server that does not answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The time between two checks whether the phase is over.
const LOOK: Duration = Duration::from_millis(20);

/// The clients of a phase, while they run. They also end when this is dropped.
pub(crate) struct Running {
    stop: Arc<AtomicBool>,
    clients: Vec<(experiment::Beside, JoinHandle<Tally>)>,
}

/// The results of one account's clients.
#[derive(Debug, Default, Clone, PartialEq)]
struct Tally {
    opened: u64,
    /// How long it tried to open connections at its rate: until it kept its most open, or to the end.
    trying: Duration,
    /// Errors by the server's code; the empty code: the server did not answer.
    refused: BTreeMap<String, u64>,
    elapsed: Duration,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.clients.drain(..).for_each(|(_, client)| drop(client.join()));
    }
}

impl Lab<'_> {
    /// Makes the accounts, runs the phase's statements, and starts its clients.
    pub(crate) fn start_beside(&self, phase: &Phase) -> Result<Running, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut running = Running { stop: stop.clone(), clients: Vec::new() };
        let Some(serving) = &self.serving else { return Ok(running) };
        let target = serving.target();
        if phase.load.beside.is_empty() && phase.load.before.is_empty() {
            return Ok(running);
        }
        for beside in &phase.load.beside {
            serving.ask(|connection| make_account(connection, target, &beside.account))?;
        }
        // not over the connection that is kept: `ask` may ask twice, and these statements are the user's
        let mut connection = Connection::open(target)?;
        for statement in &phase.load.before {
            connection = self.execute(connection, statement)?;
            self.notes.event("load", format!("{}: {statement}", phase.name))?;
        }
        for beside in &phase.load.beside {
            let own = Target { user: beside.account.clone(), ..serving.load_target().clone() };
            let (stop, asked) = (stop.clone(), beside.clone());
            let client = std::thread::spawn(move || open_at_its_rate(&asked, &own, &stop));
            running.clients.push((beside.clone(), client));
        }
        Ok(running)
    }

    /// Ends the clients, and records their results.
    pub(crate) fn end_beside(&self, phase: &Phase, mut running: Running) -> Result<(), Error> {
        running.stop.store(true, Ordering::SeqCst);
        let mut kept = Vec::new();
        for (asked, client) in running.clients.drain(..) {
            let Ok(tally) = client.join() else { continue };
            kept.extend((asked.keep && tally.opened > 0).then(|| asked.account.clone()));
            self.notes.event("load", format!("{}: {}", phase.name, told(&asked, &tally)))?;
            for measured in measured(&asked, &tally) {
                let (at_us, arm) = (self.notes.clock.now_us(), Some(phase.name.clone()));
                self.notes.measured(&Measured { at_us, arm, ..measured })?;
            }
        }
        if let Some(serving) = self.serving.as_ref().filter(|_| !kept.is_empty()) {
            await_room(serving, &kept);
        }
        Ok(())
    }
}

/// Waits until the server has ended the closed connections: for a moment it still counts them, and would refuse the next ones. If they stay, the next
/// connections fail with an error that shows it.
fn await_room(serving: &Serving, accounts: &[String]) {
    let target = serving.target();
    let opened = || Connection::open(target).and_then(|mut it| serving.own.name(&mut it).map(|()| it));
    let deadline = Instant::now() + ANSWER_LIMIT;
    let mut open = None;
    while Instant::now() < deadline {
        let connection = open.take().map_or_else(opened, Ok);
        match connection.and_then(|mut connection| Ok((sessions_of(&mut connection, target, accounts)?, connection))) {
            Ok((0, _)) => return,
            Ok((_, connection)) => open = Some(connection),
            Err(error) if error.busy() == Some(Busy::ServerFull) => {}
            Err(_) => return,
        }
        std::thread::sleep(LOOK);
    }
}

/// How many connections of these accounts the server has. The names need no quoting.
fn sessions_of(connection: &mut Connection, target: &Target, accounts: &[String]) -> Result<u64, load::Error> {
    let (table, column) = match target.protocol {
        Protocol::Mysql => ("information_schema.processlist", "user"),
        Protocol::Postgresql => ("pg_stat_activity", "usename"),
    };
    let names: Vec<String> = accounts.iter().map(|name| format!("'{name}'")).collect();
    let rows = connection.query(&format!("SELECT COUNT(*) FROM {table} WHERE {column} IN ({})", names.join(", ")))?;
    match rows.parse(0, 0).unwrap_or_default() {
        0 if target.protocol == Protocol::Mysql => leaving(connection),
        sessions => Ok(sessions),
    }
}

/// Sessions that are no longer in the server's list, and still count against `max_connections` (`connection_count`, which `Threads_connected` shows; MariaDB 10.11
/// takes a session off the list first).
fn leaving(connection: &mut Connection) -> Result<u64, load::Error> {
    let status = connection.query("SHOW GLOBAL STATUS LIKE 'Threads_connected'")?;
    let listed = connection.query("SELECT COUNT(*) FROM information_schema.processlist WHERE command <> 'Daemon'")?;
    let (connected, listed): (u64, u64) = (status.parse(0, 1).unwrap_or(0), listed.parse(0, 0).unwrap_or(u64::MAX));
    Ok(connected.saturating_sub(listed))
}

/// Makes an account with the sandbox's own password, and with rights on the tables only. An account of an earlier arm stays as it is.
fn make_account(connection: &mut Connection, target: &Target, name: &str) -> Result<(), load::Error> {
    let (password, database) = (target.password.reveal(), target.database.clone().unwrap_or_default());
    let statements = match target.protocol {
        Protocol::Mysql => vec![
            format!("CREATE USER IF NOT EXISTS '{name}'@'localhost' IDENTIFIED BY '{password}'"),
            format!("GRANT SELECT, INSERT, UPDATE, DELETE ON `{database}`.* TO '{name}'@'localhost'"),
        ],
        Protocol::Postgresql => {
            let is_there = !connection.query(&format!("SELECT 1 FROM pg_roles WHERE rolname = '{name}'"))?.is_empty();
            let role = format!("CREATE ROLE {name} LOGIN PASSWORD '{password}'");
            let rights = format!("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {name}");
            (!is_there).then_some(role).into_iter().chain([rights]).collect()
        }
    };
    statements.iter().try_for_each(|statement| connection.execute(statement).map(drop))
}

fn open_at_its_rate(asked: &experiment::Beside, target: &Target, stop: &AtomicBool) -> Tally {
    let (began, every) = (Instant::now(), Duration::from_secs_f64(1.0 / asked.rate));
    let (mut tally, mut kept, mut due) = (Tally::default(), Vec::new(), began);
    let mut full = None;
    while !stop.load(Ordering::SeqCst) {
        // it closes none, so once there are enough this lasts to the end
        if kept.len() >= asked.most as usize {
            full.get_or_insert_with(|| began.elapsed());
            std::thread::sleep(LOOK);
            continue;
        }
        let early = due.saturating_duration_since(Instant::now());
        if !early.is_zero() {
            std::thread::sleep(LOOK.min(early));
            continue;
        }
        // a connection that is late does not lead to a burst of further ones
        due = (due + every).max(Instant::now());
        match visit(target, asked.keep) {
            Ok(connection) => {
                tally.opened += 1;
                kept.extend(connection);
            }
            Err(error) => *tally.refused.entry(error.code().unwrap_or_default().to_owned()).or_default() += 1,
        }
    }
    let elapsed = began.elapsed();
    Tally { elapsed, trying: full.unwrap_or(elapsed), ..tally }
}

/// The connection, where the client keeps it open.
fn visit(target: &Target, keep: bool) -> Result<Option<Connection>, load::Error> {
    let mut connection = Connection::open(target)?;
    connection.set_read_limit(Some(ANSWER_LIMIT))?;
    connection.query("SELECT 1")?;
    Ok(keep.then_some(connection))
}

fn told(asked: &experiment::Beside, tally: &Tally) -> String {
    let what = if asked.keep { "opened, and kept open," } else { "opened, and closed," };
    let by = |(code, count): (&String, &u64)| match code.as_str() {
        "" => format!("{count} times without an answer"),
        code => format!("{count} times with {code}"),
    };
    let refused: Vec<String> = tally.refused.iter().map(by).collect();
    let refused =
        if refused.is_empty() { "never refused".to_owned() } else { format!("refused {}", refused.join(", ")) };
    let slow = match tally.is_at_its_rate(asked.rate) {
        true => String::new(),
        false => format!("; its rate asks for {:.0} attempts", tally.due(asked.rate)),
    };
    format!("{} {what} {} connections, {refused}{slow}", asked.account, tally.opened)
}

impl Tally {
    fn all_refused(&self) -> u64 {
        self.refused.values().sum()
    }

    /// How many connections the client should have tried to open, as a whole number.
    fn due(&self, rate: f64) -> f64 {
        (rate * self.trying.as_secs_f64()).floor()
    }

    /// Whether it has tried as often as its rate asks for. A tenth may be missing, and one in any case: the last attempt may not be over yet.
    fn is_at_its_rate(&self, rate: f64) -> bool {
        let tried = self.opened.saturating_add(self.all_refused()) as f64;
        tried >= (self.due(rate) * 0.9).min(self.due(rate) - 1.0)
    }
}

fn measured(asked: &experiment::Beside, tally: &Tally) -> Vec<Measured> {
    let refused = tally.all_refused();
    let codes: Vec<&str> = tally.refused.keys().map(String::as_str).filter(|code| !code.is_empty()).collect();
    let codes = if codes.is_empty() { String::new() } else { format!(": {}", codes.join(", ")) };
    let one = |what: &str, count: u64, witness: String| {
        let (what, mechanism) =
            (format!("beside.{}.{what}", asked.account), format!("{} new connections a second", asked.rate));
        Measured { got: Some(Quantity::count(count as f64)), ..Measured::of(what, mechanism, witness) }
    };
    let tried = Measured {
        asked: Some(Quantity::count(tally.due(asked.rate))),
        within_tolerance: Some(tally.is_at_its_rate(asked.rate)),
        tolerance: Some("a tenth less, or one less".into()),
        ..one("tried", tally.opened.saturating_add(refused), "attempts to log in, whatever the server answered".into())
    };
    vec![
        tried,
        one("opened", tally.opened, format!("logins that the server took, in {:.1} s", tally.elapsed.as_secs_f64())),
        one("refused", refused, format!("answers of the server{codes}")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(rate: f64) -> experiment::Beside {
        experiment::Beside { account: "shop".into(), rate, keep: false, most: 1000 }
    }

    fn tally(opened: u64, refused: u64, trying_s: f64) -> Tally {
        let refused = if refused == 0 { BTreeMap::new() } else { BTreeMap::from([("1040".to_owned(), refused)]) };
        let trying = Duration::from_secs_f64(trying_s);
        Tally { opened, refused, trying, elapsed: Duration::from_secs(60) }
    }

    #[test]
    fn a_client_far_below_its_rate_is_told() {
        let tried = |rate, tally: &Tally| {
            let rows = measured(&client(rate), tally);
            rows.into_iter().find(|row| row.what == "beside.shop.tried").unwrap()
        };
        let slow = tried(10.0, &tally(16, 0, 5.4));
        assert_eq!((slow.asked.unwrap().value, slow.got.unwrap().value), (54.0, 16.0));
        assert_eq!(slow.within_tolerance, Some(false));
        assert!(told(&client(10.0), &tally(16, 0, 5.4)).ends_with("never refused; its rate asks for 54 attempts"));
        let refused = tried(10.0, &tally(16, 36, 5.4));
        assert_eq!((refused.got.unwrap().value, refused.within_tolerance), (52.0, Some(true)));
        assert!(told(&client(10.0), &tally(16, 36, 5.4)).ends_with("refused 36 times with 1040"));
        for (rate, opened, trying_s, is_within) in [
            (0.1, 0, 5.0, true),
            (0.1, 1, 19.0, true),
            (1.0, 4, 5.0, true),
            (1.0, 3, 5.0, false),
            (20.0, 89, 5.0, false),
        ] {
            let row = tried(rate, &tally(opened, 0, trying_s));
            assert_eq!(row.within_tolerance, Some(is_within), "{rate} a second, {opened} in {trying_s} s");
        }
    }
}
