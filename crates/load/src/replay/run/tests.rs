// SPDX-License-Identifier: Apache-2.0
//! Connections that break in the middle of a replay, at a small PostgreSQL server that answers by a script.

use super::super::plan::Kind;
use super::*;
use crate::target::{Endpoint, Tls};
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

/// The connection ends with an error, or without a word, at the statement of that text.
const ENDS: &str = "ends";
const BREAKS: &str = "breaks";
/// There is no answer.
const HANGS: &str = "hangs";

/// Refuses the logins of these connections, counted from 0. Returns the texts of all statements that arrived on the others.
fn replay(texts: &[&str], refused: std::ops::Range<usize>) -> (Replayed, Vec<String>) {
    replay_until(texts, refused, &AtomicBool::new(false))
}

fn replay_until(texts: &[&str], refused: std::ops::Range<usize>, stop: &AtomicBool) -> (Replayed, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let heard = std::sync::Arc::new(Mutex::new(Vec::new()));
    let hears = heard.clone();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let hears = hears.clone();
            let is_refused = refused.contains(&number);
            thread::spawn(move || serve(stream, is_refused, &hears));
        }
    });
    let target = Target {
        protocol: Protocol::Postgresql,
        endpoint: Endpoint::Socket(path),
        user: "me".into(),
        password: crate::Password::default(),
        database: None,
        tls: Tls::Disable,
        tls_ca: None,
    };
    let work = |text: &&str| Work { at_us: 0, sql: (*text).into(), database: None, class: 0, kind: Kind::Read };
    let plan =
        Plan { classes: vec!["select ?".into()], sessions: vec![texts.iter().map(work).collect()], ..Plan::default() };
    let options = Options { pace: Pace::Max, writes: true, timeline: Duration::from_millis(100) };
    let replayed = run(&plan, &target, options, stop).unwrap();
    let heard = heard.lock().unwrap().clone();
    (replayed, heard)
}

fn serve(mut stream: UnixStream, is_refused: bool, heard: &Mutex<Vec<String>>) -> Option<()> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    read(&mut stream, length)?;
    if is_refused {
        return stream.write_all(&fatal(b"57P03")).ok();
    }
    let ready = message(b'Z', b"I");
    stream.write_all(&[message(b'R', &[0; 4]), ready.clone()].concat()).ok()?;
    loop {
        let mut header = [0; 5];
        stream.read_exact(&mut header).ok()?;
        let body = read(&mut stream, [header[1], header[2], header[3], header[4]])?;
        let text = String::from_utf8_lossy(body.strip_suffix(b"\0")?).into_owned();
        if header[0] != b'Q' {
            return None;
        }
        heard.lock().unwrap().push(text.clone());
        match text.as_str() {
            ENDS => return stream.write_all(&fatal(b"57P01")).ok(),
            BREAKS => return None,
            HANGS => stream.read_exact(&mut [0]).ok()?,
            _ => stream.write_all(&[message(b'C', b"SELECT 0\0"), ready.clone()].concat()).ok()?,
        }
    }
}

fn read(stream: &mut UnixStream, length: [u8; 4]) -> Option<Vec<u8>> {
    let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).ok()?.checked_sub(4)?];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

fn fatal(state: &[u8; 5]) -> Vec<u8> {
    message(b'E', &[b"SFATAL\0VFATAL\0C", &state[..], b"\0Mthe server's words\0\0"].concat())
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[tag], &length[..], body].concat()
}

fn errors(replayed: &Replayed) -> Vec<(&str, u64)> {
    replayed.measured.errors.iter().map(|(code, count)| (code.as_str(), *count)).collect()
}

#[test]
fn an_error_that_ends_the_connection_costs_one_statement() {
    let (replayed, heard) = replay(&["one", ENDS, "two", "three"], 0..0);
    assert_eq!(errors(&replayed), [("57P01", 1)]);
    assert_eq!(heard, ["one", ENDS, "two", "three"]);
    assert_eq!((replayed.measured.transactions, replayed.measured.reconnects), (3, 1));
}

/// The first connection only looks whether the server is there, the second is the session's.
#[test]
fn a_server_that_starts_again_gets_the_rest() {
    for (broken, code) in [(BREAKS, "connection lost"), (ENDS, "57P01")] {
        let (replayed, heard) = replay(&["one", broken, "two"], 2..5);
        assert_eq!(errors(&replayed), [(code, 1)], "the refused logins are not counted");
        assert_eq!(heard, ["one", broken, "two"]);
        assert_eq!((replayed.measured.transactions, replayed.measured.reconnects), (2, 1));
        assert!(replayed.measured.elapsed_us >= 150_000, "three pauses: {}", replayed.measured.elapsed_us);
    }
}

/// A server that stands still: the wait for its answer ends, and nothing more is sent.
#[test]
fn a_replay_that_should_stop_waits_for_no_answer_for_ever() {
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    let (replayed, heard) = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(2 * LEAD);
            stop.store(true, Ordering::Relaxed);
        });
        replay_until(&["one", HANGS, "two"], 0..0, &stop)
    });
    assert_eq!(errors(&replayed), [("no reply", 1)]);
    assert_eq!(heard, ["one", HANGS]);
    assert!(began.elapsed() >= DRAIN, "what was sent has some time to be answered");
    assert_eq!(replayed.measured.transactions, 1);
}

#[test]
fn no_connection_is_made_after_the_last_statement() {
    let (replayed, _) = replay(&["one", BREAKS], 2..usize::MAX);
    assert_eq!(errors(&replayed), [("connection lost", 1)]);
    assert!(replayed.measured.elapsed_us < 4_000_000, "{}", replayed.measured.elapsed_us);
}

#[test]
fn a_server_that_stays_away_is_one_more_error() {
    let (replayed, heard) = replay(&["one", BREAKS, "two", "three"], 2..usize::MAX);
    assert_eq!(errors(&replayed), [("57P03", 1), ("connection lost", 1)]);
    assert_eq!((heard.len(), replayed.measured.skipped), (2, 2));
}
