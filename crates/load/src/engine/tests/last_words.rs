// SPDX-License-Identifier: Apache-2.0
//! An error that a server sends before it closes a connection is reported by its code and text, once, and not as a lost connection.

use super::*;

/// PostgreSQL's `idle_in_transaction_session_timeout`: its class also has errors that do not end a connection.
const TIMED_OUT: &[u8; 5] = b"25P03";

fn assert_told(measured: &evidence::Phase, times: u64) {
    assert_eq!(measured.errors.iter().collect::<Vec<_>>(), [(&"25P03".to_owned(), &times)]);
    assert_eq!(measured.error_messages["25P03"], "the server's words");
}

#[test]
fn a_fatal_error_in_answer_to_a_statement() {
    for connections in [1_u32, 3] {
        let made = connections as usize + 2;
        let fake = Fake::new(Duration::from_millis(1), move |number| match number {
            20 | 40 => Answer::Fatal(TIMED_OUT),
            199 => Answer::RowAfter(made),
            _ => Answer::Row,
        });
        let spec = LoadSpec { events: Some(200), time: None, connections, ..Point::spec() };
        let measured = drive(&spec, &fake, || {}).unwrap().measured;
        assert_told(&measured, 2);
        assert_eq!((measured.transactions, fake.executions()), (198, 200));
        assert_eq!(fake.bound().len(), made, "each is made again");
    }
}

/// The error is reported in both cases: it is read before the next statement is sent, or only after a failed send.
#[test]
fn a_fatal_error_that_nobody_asked_for() {
    for arrivals in [Arrivals::Closed, Arrivals::Constant { per_second: 500.0 }] {
        let fake = Fake::new(Duration::ZERO, |number| match number {
            20 => Answer::LastRow(TIMED_OUT),
            _ => Answer::Row,
        });
        let spec = LoadSpec { arrivals, events: Some(100), time: None, ..Point::spec() };
        let measured = drive(&spec, &fake, || {}).unwrap().measured;
        assert_told(&measured, 1);
        assert_eq!(fake.bound().len(), 2, "{arrivals:?}");
    }
}

#[test]
fn a_server_that_says_nothing_leaves_the_kernels_words() {
    let fake = Fake::new(Duration::ZERO, |number| if number == 20 { Answer::HangUp } else { Answer::Row });
    let spec = LoadSpec { events: Some(100), time: None, ..Point::spec() };
    let measured = drive(&spec, &fake, || {}).unwrap().measured;
    assert_eq!(measured.errors.iter().collect::<Vec<_>>(), [(&"connection lost".to_owned(), &1)]);
    assert!(measured.error_messages["connection lost"].contains("running a statement"), "{measured:?}");
}

/// The server waits for data, and the load for an answer: neither would come.
#[test]
fn a_statement_that_wants_data_ends_its_connection_and_not_the_load() {
    let fake = Fake::new(Duration::ZERO, |number| if number == 20 { Answer::WantsData } else { Answer::Row });
    let spec = LoadSpec { events: Some(100), time: None, ..Point::spec() };
    let measured = drive(&spec, &fake, || {}).unwrap().measured;
    assert_eq!((measured.transactions, measured.reconnects), (99, 1));
    assert!(measured.error_messages["connection lost"].contains("wants data of the client"), "{measured:?}");
}

/// The reason why no connection is accepted any more is reported beside the measured result.
#[test]
fn a_server_that_does_not_come_back_is_reported_with_the_last_refusal() {
    // The second connection lives until the first was refused twice: when all are lost, there is a refusal.
    let fake = Fake::new(Duration::from_millis(1), |number| match number {
        20 => Answer::CloseAfter(2),
        40 => Answer::CloseAfter(4),
        _ => Answer::Row,
    });
    let spec = LoadSpec {
        connections: 2,
        time: None,
        events: Some(u64::MAX >> 1),
        reconnect_limit: Duration::from_millis(200),
        ..Point::spec()
    };
    let error = drive(&spec, &fake, || {}).unwrap_err();
    assert!(matches!(error, Error::ServerLost { .. }), "{error}");
    let cause = std::error::Error::source(&error).expect("the last refusal").to_string();
    assert!(cause.contains("the server's words"), "{cause}");
}
