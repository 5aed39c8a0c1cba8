// SPDX-License-Identifier: Apache-2.0
//! The protocols' state machines against what real servers have said (`tests/captures`, taken by `examples/capture.rs`), cut into
//! pieces of any size.

#![allow(clippy::unwrap_used)]
#[path = "captures/script.rs"]
#[allow(unreachable_pub)]
mod script;

use load::protocol::{Broken, Event, Login, Reply, Rows, Session};
use load::{Endpoint, Password, Protocol, Target, Tls};
use proptest::prelude::*;
use script::Say;

const MARIADB: &str = include_str!("captures/mariadb-10.11.hex");
const POSTGRESQL: &str = include_str!("captures/postgresql-15.hex");

fn bytes(capture: &str) -> Vec<u8> {
    let hex: String = capture.lines().filter(|line| !line.starts_with('#')).collect();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn target(protocol: Protocol) -> Target {
    Target {
        protocol,
        endpoint: Endpoint::Socket("/nowhere".into()),
        user: "t".into(),
        password: Password::new("pw"),
        database: Some("sbtest".into()),
        tls: Tls::Disable,
        tls_ca: None,
    }
}

#[derive(Debug, Default, PartialEq)]
struct Seen {
    events: Vec<Event>,
    rows: Vec<Vec<u8>>,
    columns: Vec<String>,
    messages: Vec<String>,
    said: Vec<u8>,
}

impl Rows for Seen {
    fn column(&mut self, name: &[u8]) {
        self.columns.push(String::from_utf8_lossy(name).into_owned());
    }

    fn row(&mut self, raw: &[u8]) {
        self.rows.push(raw.to_vec());
    }
}

/// Plays `capture` back in pieces of the given sizes, in turn, and says what the script wants said.
fn play(protocol: Protocol, capture: &[u8], script: &[Say], sizes: &[usize]) -> Result<Seen, Broken> {
    let mut seen = Seen::default();
    let (mut out, mut inbox, mut at) = (Vec::new(), Vec::new(), 0);
    let mut session = Session::new(protocol, Login::new(&target(protocol)), &mut out);
    let (mut script, mut sizes) = (script.iter(), sizes.iter().cycle());
    while at < capture.len() {
        let end = capture.len().min(at + sizes.next().unwrap());
        inbox.extend_from_slice(&capture[at..end]);
        at = end;
        loop {
            let fed = session.feed(&inbox, &mut seen, &mut out)?;
            inbox.drain(..fed.consumed);
            seen.said.append(&mut out);
            let Some(event) = fed.event else { break };
            seen.events.push(event);
            if let Event::Done(Reply { error: Some(_), .. }) = event {
                seen.messages.push(session.message().to_owned());
            }
            if let Some(say) = script.next() {
                script::say(&mut session, *say, &mut out);
                seen.said.append(&mut out);
            }
        }
    }
    assert!(inbox.is_empty(), "{} bytes are left over", inbox.len());
    assert!(script.next().is_none(), "the script is not at its end");
    Ok(seen)
}

fn mariadb(sizes: &[usize]) -> Seen {
    play(Protocol::Mysql, &bytes(MARIADB), script::MYSQL, sizes).unwrap()
}

fn postgresql(sizes: &[usize]) -> Seen {
    play(Protocol::Postgresql, &bytes(POSTGRESQL), script::POSTGRESQL, sizes).unwrap()
}

/// One line an event.
fn describe(seen: &Seen) -> Vec<String> {
    seen.events
        .iter()
        .map(|event| match event {
            Event::Done(Reply { error: Some(code), in_transaction, .. }) => format!("error {code} {in_transaction}"),
            Event::Done(reply) => format!("rows {} changed {} {}", reply.rows, reply.affected, reply.in_transaction),
            other => format!("{other:?}"),
        })
        .collect()
}

#[test]
fn mariadbs_replies_are_understood() {
    let seen = mariadb(&[usize::MAX]);
    let expected = [
        "LoggedIn",
        "rows 0 changed 0 false",
        "Prepared",
        "Prepared",
        "rows 0 changed 1 false",
        "rows 0 changed 1 false",
        "error 1062 false",
        "rows 2 changed 0 false",
        "rows 0 changed 0 false",
        "rows 0 changed 0 true",
        "rows 0 changed 2 true",
        "rows 2 changed 0 true",
        "error 1054 true",
        "rows 0 changed 0 false",
        "CopyIn",
        "rows 0 changed 2 false",
        "error 1146 false",
        "rows 1 changed 0 false",
    ];
    assert_eq!(describe(&seen), expected);
    assert!(seen.messages[0].contains("Duplicate entry '2'"), "{:?}", seen.messages);
    let text = load::protocol::mysql::text_values(&seen.rows[2]);
    assert_eq!(text, [Some(&b"1"[..]), None, Some(&b"one"[..])]);
    assert_eq!(load::protocol::mysql::text_values(seen.rows.last().unwrap())[0].unwrap().len(), 3000);
    assert!(seen.columns.contains(&"id".to_owned()) && seen.columns.contains(&"NULL".to_owned()), "{:?}", seen.columns);
}

#[test]
fn postgresqls_replies_are_understood() {
    let seen = postgresql(&[usize::MAX]);
    let expected = [
        "LoggedIn",
        "rows 0 changed 0 false",
        "Prepared",
        "Prepared",
        "rows 0 changed 1 false",
        "rows 0 changed 1 false",
        "error 23505 false",
        "rows 2 changed 2 false",
        "rows 0 changed 0 false",
        "rows 0 changed 0 true",
        "rows 0 changed 2 true",
        "rows 2 changed 2 true",
        "error 42703 true",
        "rows 0 changed 0 false",
        "CopyIn",
        "rows 0 changed 2 false",
        "error 42P01 false",
        "rows 1 changed 1 false",
    ];
    assert_eq!(describe(&seen), expected);
    let values = load::protocol::postgresql::values(&seen.rows[0]);
    assert_eq!(values, [Some(&b"one"[..]), Some(&b"-5"[..])], "prepared statements answer in text");
    let values = load::protocol::postgresql::values(&seen.rows[2]);
    assert_eq!(values, [Some(&b"1"[..]), None, Some(&b"one"[..])]);
}

#[test]
fn one_byte_at_a_time_is_enough() {
    assert_eq!(mariadb(&[1]), mariadb(&[usize::MAX]));
    assert_eq!(postgresql(&[1]), postgresql(&[usize::MAX]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_pieces_give_the_same(sizes in prop::collection::vec(1usize..3000, 1..50)) {
        prop_assert_eq!(mariadb(&sizes), mariadb(&[usize::MAX]));
        prop_assert_eq!(postgresql(&sizes), postgresql(&[usize::MAX]));
    }

    /// A server that talks nonsense gets an error, never a panic, and never an endless loop.
    #[test]
    fn damage_is_not_fatal(at in any::<prop::sample::Index>(), value in any::<u8>()) {
        for (protocol, capture, script) in
            [(Protocol::Mysql, MARIADB, script::MYSQL), (Protocol::Postgresql, POSTGRESQL, script::POSTGRESQL)]
        {
            let mut capture = bytes(capture);
            capture.truncate(4000);
            let at = at.index(capture.len());
            capture[at] = value;
            replay_damaged(protocol, &capture, script);
        }
    }
}

/// As [`play`], without its closing assertions.
fn replay_damaged(protocol: Protocol, capture: &[u8], script: &[Say]) {
    let (mut seen, mut out, mut rest) = (Seen::default(), Vec::new(), capture);
    let mut session = Session::new(protocol, Login::new(&target(protocol)), &mut out);
    let (mut script, mut prepared) = (script.iter(), 0);
    while let Ok(fed) = session.feed(rest, &mut seen, &mut out) {
        rest = &rest[fed.consumed..];
        let Some(event) = fed.event else { return };
        prepared += usize::from(event == Event::Prepared);
        match script.next() {
            // A client executes what it has prepared, and no more.
            Some(Say::Execute(index, _)) if *index >= prepared => return,
            Some(say) => script::say(&mut session, *say, &mut out),
            None => return,
        }
    }
}

/// A payload of 16 MiB or more comes in several packets, the last of which is shorter and may be empty.
#[test]
fn a_row_of_several_packets_is_one_row() {
    const FULL: usize = 0xff_ffff;
    let packet = |payload: &[u8]| [&payload.len().to_le_bytes()[..3], &[1], payload].concat();
    let (mut seen, mut out) = (Seen::default(), Vec::new());
    let mut session = Session::new(Protocol::Mysql, Login::new(&target(Protocol::Mysql)), &mut out);
    let event = session.feed(&bytes(MARIADB), &mut seen, &mut out).unwrap().event;
    assert_eq!(event, Some(Event::LoggedIn));
    for (count, pieces) in [(FULL - 9, vec![FULL, 0]), (FULL, vec![FULL, 9]), (2 * FULL, vec![FULL, FULL, 9])] {
        // the length of a value that is so long begins with the byte of the reply's end
        let row = [&[0xfe][..], &count.to_le_bytes(), &vec![b'x'; count]].concat();
        let mut rest = row.as_slice();
        // one column that the client knows already
        let mut said = packet(&[1, 0]);
        for length in pieces {
            let (piece, later) = rest.split_at(length);
            said.extend(packet(piece));
            rest = later;
        }
        said.extend(packet(&[0xfe, 0, 0, 0, 0, 0, 0]));
        session.query(&mut out, |out| out.extend_from_slice(b"SELECT c FROM t"));
        let fed = session.feed(&said, &mut seen, &mut out).unwrap();
        assert_eq!((fed.consumed, rest.len()), (said.len(), 0));
        let Some(Event::Done(reply)) = fed.event else { panic!("{:?}", fed.event) };
        assert_eq!((reply.rows, reply.row_bytes, reply.error), (1, row.len() as u64, None));
        assert!(seen.rows.pop().unwrap() == row);
    }
}

/// A server may hang up with words of its own, in an error or, after a crash, in a notice.
mod last_words {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        [&[tag][..], &u32::try_from(body.len() + 4).unwrap().to_be_bytes(), body].concat()
    }

    /// What a running statement is told by `said`.
    fn told(said: &[u8]) -> (Option<Event>, String) {
        let mut out = Vec::new();
        let mut session = Session::new(Protocol::Postgresql, Login::new(&target(Protocol::Postgresql)), &mut out);
        let welcome = [message(b'R', &[0; 4]), message(b'Z', b"I")].concat();
        session.feed(&welcome, &mut load::protocol::Discard, &mut out).unwrap();
        session.query(&mut out, |out| out.extend_from_slice(b"SELECT 1"));
        let event = session.feed(said, &mut load::protocol::Discard, &mut out).unwrap().event;
        (event, session.message().to_owned())
    }

    fn hung_up(code: &[u8; 5]) -> Option<Event> {
        let error = Some(load::protocol::Code::State(*code));
        Some(Event::Done(Reply { error, hangs_up: true, ..Reply::default() }))
    }

    #[test]
    fn severity_decides_in_whatever_language() {
        let fatal = b"SFATALE\0VFATAL\0C25P03\0Mterminazione della connessione\0\0";
        assert_eq!(told(&message(b'E', fatal)), (hung_up(b"25P03"), "terminazione della connessione".into()));
        let old = b"SFATAL\0C08P01\0Mbefore 9.6\0\0";
        assert_eq!(told(&message(b'E', old)).0, hung_up(b"08P01"));
        let plain = b"SERROR\0VERROR\0C25P03\0Mx\0\0";
        assert_eq!(told(&message(b'E', plain)).0, None, "ReadyForQuery follows");
    }

    #[test]
    fn a_notice_of_a_crash_is_the_last_word() {
        let crash =
            b"SWARNING\0VWARNING\0C57P02\0Mterminating connection because of crash of another server process\0\0";
        let (event, words) = told(&message(b'N', crash));
        assert_eq!(event, hung_up(b"57P02"));
        assert!(words.contains("crash of another"), "{words}");
        let chatter = b"SNOTICE\0VNOTICE\0C00000\0Mtable is there already\0\0";
        assert_eq!(told(&message(b'N', chatter)).0, None);
    }
}

/// MariaDB let this in: the answer to its nonce is the signature it wanted.
#[test]
fn an_ed25519_signature_is_what_mariadb_took() {
    let mut login = target(Protocol::Mysql);
    login.user = "e".into();
    let (mut out, mut said) = (Vec::new(), Vec::new());
    let mut session = Session::new(Protocol::Mysql, Login::new(&login), &mut out);
    let capture = bytes(include_str!("captures/mariadb-ed25519.hex"));
    let mut rest = &capture[..];
    let event = loop {
        let fed = session.feed(&rest[..rest.len().min(64)], &mut Seen::default(), &mut out).unwrap();
        assert!(fed.consumed > 0 || rest.len() > 64);
        let fed = if fed.consumed == 0 { session.feed(rest, &mut Seen::default(), &mut out).unwrap() } else { fed };
        rest = &rest[fed.consumed..];
        said.append(&mut out);
        if let Some(event) = fed.event {
            break event;
        }
    };
    assert_eq!(event, Event::LoggedIn);
    let signature: String = said[said.len() - 64..].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        signature,
        "3581cde39c0ea23b4c359f9363b8f5b65e8ec901dae4efa46dfe10723237e87752fc7324b3e2a4740ddde49b7bbda61c111e7647a7930d5306d35e496d08520f"
    );
}

/// The greeting of a MySQL 8 server that wants caching_sha2_password, and the three ways on from it; and the greeting of one that wants the password in
/// clear text.
mod caching_sha2_password {
    use super::*;

    fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = u32::try_from(payload.len()).unwrap().to_le_bytes()[..3].to_vec();
        packet.push(sequence);
        packet.extend_from_slice(payload);
        packet
    }

    fn greeting(method: &str) -> Vec<u8> {
        let mut payload = vec![10];
        payload.extend_from_slice(b"8.0.36\0");
        payload.extend_from_slice(&[1, 0, 0, 0]);
        payload.extend_from_slice(b"abcdefgh\0");
        // capabilities, low half; utf8mb4; autocommit; capabilities, high half (without SSL); length of the scramble
        payload.extend_from_slice(&[0xff, 0xf7, 45, 2, 0, 0xff, 0xdf, 21]);
        payload.extend_from_slice(&[0; 10]);
        payload.extend_from_slice(format!("ijklmnopqrst\0{method}\0").as_bytes());
        packet(0, &payload)
    }

    fn session(channel: load::protocol::Channel) -> (Session, Vec<u8>) {
        let (mut session, mut out) = (fresh(channel), Vec::new());
        assert_eq!(feed(&mut session, &greeting("caching_sha2_password"), &mut out), None);
        (session, out)
    }

    fn fresh(channel: load::protocol::Channel) -> Session {
        let login = Login { channel, ..Login::new(&target(Protocol::Mysql)) };
        Session::new(Protocol::Mysql, login, &mut Vec::new())
    }

    fn feed(session: &mut Session, bytes: &[u8], out: &mut Vec<u8>) -> Option<Event> {
        session.feed(bytes, &mut load::protocol::Discard, out).unwrap().event
    }

    const OK: [u8; 7] = [0, 0, 0, 2, 0, 0, 0];

    #[test]
    fn a_cached_password_needs_the_scramble_alone() {
        let (mut session, mut out) = session(load::protocol::Channel::Tcp);
        // XOR(SHA256(pw), SHA256(SHA256(SHA256(pw)), nonce)), computed apart with Python's hashlib
        let scramble = "ad439090e1914151d1a7f6bf7c21561d283f2fba52fe39ce9dcd29d687813c2c";
        let hex: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(hex.contains(scramble), "{hex}");
        out.clear();
        assert_eq!(feed(&mut session, &packet(2, &[1, 3]), &mut out), None);
        assert!(out.is_empty());
        assert_eq!(feed(&mut session, &packet(3, &OK), &mut out), Some(Event::LoggedIn));
    }

    #[test]
    fn over_a_socket_the_password_follows_in_clear() {
        let (mut session, mut out) = session(load::protocol::Channel::Socket);
        out.clear();
        assert_eq!(feed(&mut session, &packet(2, &[1, 4]), &mut out), None);
        assert_eq!(out, packet(3, b"pw\0"));
        assert_eq!(feed(&mut session, &packet(4, &OK), &mut out), Some(Event::LoggedIn));
    }

    #[test]
    fn over_plain_tcp_it_follows_under_the_servers_key() {
        const KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
            MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAjLIDfTLFUanBZs+lIu3X\n\
            oZbMhrJrj/E7mHYunX9tdgkwZoxAC/3kja7UUnehe6fIrrNqWFg69Vzx3ln635Tl\n\
            QjRHH4Er5khl5SvIeKBvs/qs+JEI1NSca24YEcfpShsWZrBHLgug7hLugksEVybN\n\
            ixg/J3MSrKbfSxugvTLB444OFnxvJT1877prIMQzVipfuX5J9ME88owXmzmM8qQa\n\
            CfmFyRCGMTOHKY6HXo8ecnr1HP4kiYORk8lgeWa7Uoj6I8W6gBd0Q/zl/0gIffGL\n\
            bL7DyBh13I/YeNXYhoLfIitJs3cAmKY7gTYoZ2jbbRASpvhnxJ88RdhSbJCRnYuM\n\
            swIDAQAB\n\
            -----END PUBLIC KEY-----\n";
        // two letters would be in 256 random bytes by chance
        const LONG: &str = "sixteen letters!";
        let named = Target { password: Password::new(LONG), ..target(Protocol::Mysql) };
        let login = Login { channel: load::protocol::Channel::Tcp, ..Login::new(&named) };
        let (mut session, mut out) = (Session::new(Protocol::Mysql, login, &mut Vec::new()), Vec::new());
        assert_eq!(feed(&mut session, &greeting("caching_sha2_password"), &mut out), None);
        out.clear();
        assert_eq!(feed(&mut session, &packet(2, &[1, 4]), &mut out), None);
        assert_eq!(out, packet(3, &[2]), "asks for the key");
        out.clear();
        assert_eq!(feed(&mut session, &packet(4, &[b"\x01", KEY.as_bytes()].concat()), &mut out), None);
        assert_eq!(out.len(), 4 + 256, "one block under a key of 2048 bits");
        assert!(!out.windows(LONG.len()).any(|bytes| bytes == LONG.as_bytes()));
        assert_eq!(feed(&mut session, &packet(6, &OK), &mut out), Some(Event::LoggedIn));
    }

    /// The password in clear text is the whole answer of this method: it is sent over a socket, and never over a network without encryption.
    #[test]
    fn a_greeting_gets_no_clear_password_over_plain_tcp() {
        let greeting = greeting("mysql_clear_password");
        let mut out = Vec::new();
        let refused = fresh(load::protocol::Channel::Tcp).feed(&greeting, &mut load::protocol::Discard, &mut out);
        assert!(matches!(&refused, Err(Broken::Method(why)) if why.contains("not encrypted")), "{refused:?}");
        assert!(out.is_empty(), "nothing was sent: {out:?}");
        assert_eq!(feed(&mut fresh(load::protocol::Channel::Socket), &greeting, &mut out), None);
        assert!(out.windows(3).any(|part| part == b"pw\0"), "{out:?}");
    }
}
