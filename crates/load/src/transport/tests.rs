// SPDX-License-Identifier: Apache-2.0
//! TLS against a server end of the same library, over a socket pair.

use super::*;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use std::sync::Arc;

/// Reads `expected` bytes as the server, and gives them back.
fn serve(stream: UnixStream, expected: usize) -> std::thread::JoinHandle<Vec<u8>> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a server's configuration");
    let connection = rustls::ServerConnection::new(Arc::new(config)).expect("a server");
    std::thread::spawn(move || {
        let mut received = vec![0; expected];
        rustls::StreamOwned::new(connection, stream).read_exact(&mut received).expect("all bytes");
        received
    })
}

/// A statement larger than what the TLS library buffers, as `fill` sends them, on a blocking and a non-blocking socket.
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
