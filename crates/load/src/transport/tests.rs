// SPDX-License-Identifier: Apache-2.0
//! TLS against a server end of the same library, over a socket pair.

use super::*;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use std::sync::Arc;

fn server() -> rustls::ServerConnection {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a server's configuration");
    rustls::ServerConnection::new(Arc::new(config)).expect("a server")
}

/// Reads `expected` bytes as the server, and gives them back.
fn serve(stream: UnixStream, expected: usize) -> std::thread::JoinHandle<Vec<u8>> {
    let connection = server();
    std::thread::spawn(move || {
        let mut received = vec![0; expected];
        rustls::StreamOwned::new(connection, stream).read_exact(&mut received).expect("all bytes");
        received
    })
}

/// A statement that is larger than the TLS library's buffer, as `fill` sends them, on a blocking and on a non-blocking socket.
#[test]
fn a_large_statement_over_tls() {
    for blocking in [true, false] {
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|at| u8::try_from(at % 251).expect("small")).collect();
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let server = serve(theirs, bytes.len());
        let mut transport = Transport { socket: OwnedFd::from(ours), tls: None };
        transport.start_tls(&"mysql://localhost:1".parse().expect("a target")).expect("a handshake");
        transport.set_blocking(blocking).expect("a mode");
        transport.send(&bytes).expect("everything sent");
        assert_eq!(server.join().expect("the server"), bytes, "blocking: {blocking}");
    }
}

/// Rows that a server sends in records of different lengths, as PostgreSQL 17 does with rows of more than 8 KiB: in one chunk, a record may end before another
/// one ends.
#[test]
fn large_rows_over_tls() {
    for lengths in [[8192, 11_813], [16_384, 5], [9000, 9000], [1, 16_383]] {
        let sent: Vec<u8> = (0..40).flat_map(|nth| vec![u8::try_from(nth).expect("small"); lengths[nth % 2]]).collect();
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let (bytes, mut connection) = (sent.clone(), server());
        let sends = std::thread::spawn(move || {
            let mut theirs = theirs;
            connection.complete_io(&mut theirs).expect("a handshake");
            let mut rest = bytes.as_slice();
            for length in lengths.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (record, after) = rest.split_at(*length);
                connection.writer().write_all(record).expect("takes a record");
                connection.complete_io(&mut theirs).expect("sends it");
                rest = after;
            }
        });
        let mut transport = Transport { socket: OwnedFd::from(ours), tls: None };
        transport.start_tls(&"mysql://localhost:1".parse().expect("a target")).expect("a handshake");
        let (mut received, mut buffer) = (Vec::new(), vec![0; 100_000]);
        while received.len() < sent.len() {
            let count = transport.receive(&mut buffer).unwrap_or_else(|error| panic!("{lengths:?}: {error}"));
            received.extend_from_slice(&buffer[..count]);
        }
        assert_eq!(received, sent);
        sends.join().expect("the server");
    }
}

/// A server end that sends `greeting`, waits for the client's request, and then sends `answer` and `more` at once, in clear text.
fn log_in_to(dsn: &str, greeting: Vec<u8>, answer: Vec<u8>) -> Error {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream.write_all(&greeting).expect("a greeting");
        if !answer.is_empty() {
            let mut request = [0; 8];
            stream.read_exact(&mut request).expect("the request for TLS");
            stream.write_all(&answer).expect("an answer");
        }
        // Until the client has closed the connection.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let target: Target = dsn.replace("PORT", &port.to_string()).parse().expect("a target");
    let error = Link::open(&target).err().expect("refused");
    server.join().expect("the server");
    error
}

/// Clear-text bytes that arrive before TLS may come from an attacker on the way (CVE-2021-23222).
#[test]
fn bytes_before_the_handshake_are_refused() {
    // AuthenticationOk and ReadyForQuery: taken as encrypted, they would end the login.
    let smuggled = [b"S".as_slice(), b"R\0\0\0\x08\0\0\0\0", b"Z\0\0\0\x05I"].concat();
    let refused = log_in_to("postgresql://me@127.0.0.1:PORT/x?tls=require", Vec::new(), smuggled);
    assert!(refused.to_string().contains("15 unencrypted bytes"), "{refused:?}");

    // Protocol 10, a version, thread 1, eight bytes of scramble, a filler, CLIENT_SSL and the required capabilities.
    let mut greeting = b"\x0a8.0.30\0\x01\0\0\0abcdefgh\0\xff\xff\x2d\x02\0\xff\xdf\x15".to_vec();
    greeting.extend_from_slice(&[0; 10]);
    greeting.extend_from_slice(b"abcdefghijkl\0mysql_native_password\0");
    let length = u8::try_from(greeting.len()).expect("short");
    let mut packets = vec![length, 0, 0, 0];
    packets.extend(greeting);
    packets.extend_from_slice(&[7, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0]);
    let refused = log_in_to("mysql://me@127.0.0.1:PORT/x?tls=require", packets, Vec::new());
    assert!(refused.to_string().contains("11 unencrypted bytes"), "{refused:?}");
}

/// A server that takes connections, and then says nothing.
#[test]
fn a_silent_server_is_waited_for_as_long_as_was_asked() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let target: Target = format!("mysql://me@127.0.0.1:{port}/").parse().expect("a target");
    let error = Link::open_within(&target, Duration::from_millis(40)).err().expect("silence");
    let cause = std::error::Error::source(&error).expect("a cause").to_string();
    assert!(matches!(error, Error::Lost { .. }) && cause == "it has said nothing for 40 ms", "{error:?}");
}
