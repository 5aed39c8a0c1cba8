// SPDX-License-Identifier: Apache-2.0
//! From the first byte to the first ReadyForQuery: TLS request, startup, authentication (trust, password, MD5,
//! SCRAM-SHA-256) with the exchanges of `postgres-protocol`.

use crate::protocol::{Broken, Login};
use crate::target::Tls;
use bytes::BytesMut;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use std::io;

pub(super) enum Step {
    More,
    StartTls,
    Done,
}

pub(super) struct Handshake {
    login: Login,
    /// The answer to the TLS request is one byte without a frame.
    asked_for_tls: bool,
    scram: Option<ScramSha256>,
    pub(super) server_version: String,
    /// The server's number of the process that serves this connection.
    pub(super) backend: Option<u32>,
}

impl Handshake {
    pub(super) fn new(login: Login, out: &mut Vec<u8>) -> Self {
        let asked_for_tls = login.tls != Tls::Disable;
        let handshake = Self { login, asked_for_tls, scram: None, server_version: String::new(), backend: None };
        if asked_for_tls {
            let mut buffer = BytesMut::new();
            frontend::ssl_request(&mut buffer);
            out.extend_from_slice(&buffer);
        } else {
            // A name with a zero byte fails here; the server then answers the incomplete startup by closing the connection.
            let _ = handshake.start(out);
        }
        handshake
    }

    pub(super) fn awaits_tls_answer(&self) -> bool {
        self.asked_for_tls
    }

    pub(super) fn tls_answer(&mut self, answer: u8, out: &mut Vec<u8>) -> Result<Step, Broken> {
        self.asked_for_tls = false;
        match answer {
            b'S' => Ok(Step::StartTls),
            _ if self.login.tls.is_required() => Err(Broken::NoTls),
            _ => self.start(out).map(|()| Step::More),
        }
    }

    pub(super) fn start(&self, out: &mut Vec<u8>) -> Result<(), Broken> {
        let user = self.login.user.as_str();
        let parameters = [
            ("user", user),
            ("database", self.login.database.as_deref().unwrap_or(user)),
            ("application_name", "wringer"),
            ("client_encoding", "UTF8"),
        ];
        say(out, |buffer| frontend::startup_message(parameters, buffer))
    }

    /// `frame` is one whole message, header included.
    pub(super) fn message(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Result<Step, Broken> {
        let mut buffer = BytesMut::from(frame);
        let message = Message::parse(&mut buffer).map_err(malformed)?;
        let password = self.login.password.clone();
        match message {
            Some(Message::AuthenticationOk | Message::NoticeResponse(_)) => {}
            Some(Message::BackendKeyData(key)) => self.backend = u32::try_from(key.process_id()).ok(),
            Some(Message::ParameterStatus(status)) => {
                if status.name().map_err(malformed)? == "server_version" {
                    self.server_version = status.value().map_err(malformed)?.to_owned();
                }
            }
            Some(Message::ReadyForQuery(_)) => return Ok(Step::Done),
            Some(Message::AuthenticationCleartextPassword) => {
                say(out, |buffer| frontend::password_message(password.reveal().as_bytes(), buffer))?;
            }
            Some(Message::AuthenticationMd5Password(body)) => {
                let hash = md5_hash(self.login.user.as_bytes(), password.reveal().as_bytes(), body.salt());
                say(out, |buffer| frontend::password_message(hash.as_bytes(), buffer))?;
            }
            Some(Message::AuthenticationSasl(_)) => self.begin_scram(frame, out)?,
            Some(Message::AuthenticationSaslContinue(body)) => {
                let scram = self.scram()?;
                scram.update(body.data()).map_err(malformed)?;
                say(out, |buffer| frontend::sasl_response(scram.message(), buffer))?;
            }
            Some(Message::AuthenticationSaslFinal(body)) => self.scram()?.finish(body.data()).map_err(malformed)?,
            Some(Message::AuthenticationGss | Message::AuthenticationSspi) => return Err(Broken::Method("gss".into())),
            Some(Message::AuthenticationKerberosV5) => return Err(Broken::Method("krb5".into())),
            _ => return Err(Broken::Malformed("an unexpected message while logging in".into())),
        }
        Ok(Step::More)
    }

    /// The frame ends with the names of the mechanisms, each followed by a zero byte.
    fn begin_scram(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        if !frame.split(|byte| *byte == 0).any(|name| name.ends_with(SCRAM_SHA_256.as_bytes())) {
            return Err(Broken::Method("SASL without SCRAM-SHA-256".into()));
        }
        let scram = ScramSha256::new(self.login.password.reveal().as_bytes(), ChannelBinding::unsupported());
        say(out, |buffer| frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), buffer))?;
        self.scram = Some(scram);
        Ok(())
    }

    fn scram(&mut self) -> Result<&mut ScramSha256, Broken> {
        self.scram.as_mut().ok_or_else(|| Broken::Malformed("SCRAM goes on without a beginning".into()))
    }
}

fn say(out: &mut Vec<u8>, write: impl FnOnce(&mut BytesMut) -> io::Result<()>) -> Result<(), Broken> {
    let mut buffer = BytesMut::new();
    write(&mut buffer).map_err(malformed)?;
    out.extend_from_slice(&buffer);
    Ok(())
}

fn malformed(error: io::Error) -> Broken {
    Broken::Malformed(error.to_string())
}
