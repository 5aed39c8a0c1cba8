// SPDX-License-Identifier: Apache-2.0
//! From the server's greeting to its first OK: TLS, and the authentication methods of `mysql_common`
//! (mysql_native_password, caching_sha2_password, sha256_password, client_ed25519, ...).

use super::{WHOLE_BYTES_MAX, error_fields, write_packet};
use crate::protocol::{Broken, Channel, Login};
use crate::target::Tls;
use mysql_common::auth::plugins::{AuthProc, ChallengeResponsePlugin as _, Context, Error as AuthError, Response};
use mysql_common::constants::{CapabilityFlags, MariadbCapabilities};
use mysql_common::io::ParseBuf;
use mysql_common::packets::{AuthPlugin, AuthSwitchRequest, HandshakePacket, HandshakeResponse, SslRequest};
use mysql_common::proto::{MyDeserialize, MySerialize};

/// `utf8mb4_general_ci`, which every server since 5.5.3 has.
const COLLATION: u8 = 45;

pub(super) enum Step {
    More,
    StartTls,
    Done(Features),
}

/// The capabilities that both sides support.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Features {
    pub(super) no_eof: bool,
    pub(super) cached_metadata: bool,
    pub(super) server_version: String,
}

pub(super) struct Handshake {
    login: Login,
    stage: Stage,
    scramble: Vec<u8>,
    secure: bool,
    capabilities: CapabilityFlags,
    mariadb: MariadbCapabilities,
    features: Features,
    method: String,
}

enum Stage {
    Greeting,
    /// The TLS request is sent; the rest of the login follows inside TLS.
    Securing {
        sequence: u8,
    },
    /// `None`: the method has sent its last message.
    Answering(Option<AuthProc>),
}

impl Handshake {
    pub(super) fn new(login: Login) -> Self {
        Self {
            secure: login.channel == Channel::Socket,
            login,
            stage: Stage::Greeting,
            scramble: Vec::new(),
            capabilities: CapabilityFlags::empty(),
            mariadb: MariadbCapabilities::empty(),
            features: Features::default(),
            method: String::new(),
        }
    }

    pub(super) fn packet(&mut self, sequence: u8, payload: &[u8], out: &mut Vec<u8>) -> Result<Step, Broken> {
        let next = sequence.wrapping_add(1);
        if payload.first() == Some(&0xff) {
            let (code, message) = error_fields(payload)?;
            return Err(Broken::Refused { code: code.to_string(), message });
        }
        match (&self.stage, payload.first()) {
            (Stage::Greeting, _) => self.greeting(next, payload, out),
            (Stage::Answering(_), Some(0x00)) => Ok(Step::Done(self.features.clone())),
            (Stage::Answering(_), Some(0xfe)) => self.switch(next, payload, out),
            (Stage::Answering(_), Some(0x01)) => self.challenge(next, &payload[1..], out),
            _ => Err(Broken::Malformed("an unexpected packet while logging in".into())),
        }
    }

    /// TLS is established: the login continues inside it.
    pub(super) fn secured(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        let Stage::Securing { sequence } = self.stage else {
            return Err(Broken::Malformed("TLS started without being asked for".into()));
        };
        self.secure = true;
        self.respond(sequence, out)
    }

    fn greeting(&mut self, next: u8, payload: &[u8], out: &mut Vec<u8>) -> Result<Step, Broken> {
        let greeting: HandshakePacket<'_> = parse(payload, "greeting")?;
        self.negotiate(&greeting);
        self.scramble = greeting.nonce();
        self.features.server_version = greeting.server_version_str().into_owned();
        self.method =
            greeting.auth_plugin_name_str().map_or_else(|| "mysql_native_password".into(), |name| name.into_owned());
        let offered = greeting.capabilities().contains(CapabilityFlags::CLIENT_SSL);
        match self.login.tls {
            tls if tls.is_required() && !offered => return Err(Broken::NoTls),
            tls if tls != Tls::Disable && offered => {
                self.capabilities |= CapabilityFlags::CLIENT_SSL;
                let request = SslRequest::new(self.capabilities, WHOLE_BYTES_MAX, COLLATION)
                    .with_mariadb_capabilities(self.mariadb);
                write_packet(next, out, |out| request.serialize(out));
                self.stage = Stage::Securing { sequence: next.wrapping_add(1) };
                return Ok(Step::StartTls);
            }
            _ => {}
        }
        self.respond(next, out)?;
        Ok(Step::More)
    }

    fn negotiate(&mut self, greeting: &HandshakePacket<'_>) {
        let wanted = CapabilityFlags::CLIENT_PROTOCOL_41
            | CapabilityFlags::CLIENT_SECURE_CONNECTION
            | CapabilityFlags::CLIENT_PLUGIN_AUTH
            | CapabilityFlags::CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
            | CapabilityFlags::CLIENT_TRANSACTIONS
            | CapabilityFlags::CLIENT_MULTI_RESULTS
            | CapabilityFlags::CLIENT_LOCAL_FILES
            | CapabilityFlags::CLIENT_DEPRECATE_EOF;
        self.capabilities = wanted & greeting.capabilities();
        // This flag is set in the request for TLS, too: MariaDB uses that request, and not the login after it.
        self.capabilities.set(CapabilityFlags::CLIENT_CONNECT_WITH_DB, self.login.database.is_some());
        // To a MariaDB server the first bit means "MySQL", and the server then does not mention its own extensions. A MySQL server always sets it.
        if greeting.capabilities().contains(CapabilityFlags::CLIENT_LONG_PASSWORD) {
            self.capabilities |= CapabilityFlags::CLIENT_LONG_PASSWORD;
        } else {
            self.mariadb = MariadbCapabilities::MARIADB_CLIENT_CACHE_METADATA & greeting.mariadb_ext_capabilities();
        }
        self.features.no_eof = self.capabilities.contains(CapabilityFlags::CLIENT_DEPRECATE_EOF);
        self.features.cached_metadata = !self.mariadb.is_empty();
    }

    fn respond(&mut self, sequence: u8, out: &mut Vec<u8>) -> Result<(), Broken> {
        let plugin = AuthPlugin::from_bytes(self.method.as_bytes()).into_owned();
        let mut method = AuthProc::init(&plugin).map_err(|_| Broken::Method(self.method.clone()))?;
        self.check_secrecy(&method)?;
        // A method that needs more than the greeting's twenty bytes waits until the server switches to it.
        let answer = match method.run(&*self, &self.scramble) {
            Ok(answer) => answer,
            Err(AuthError::Challenge) => Response::next_empty(),
            Err(error) => return Err(Broken::Method(format!("{}: {error}", self.method))),
        };
        let response = HandshakeResponse::new(
            Some(answer.data().unwrap_or_default().to_vec()),
            (8, 0, 0),
            Some(self.login.user.as_bytes()),
            self.login.database.as_deref().map(str::as_bytes),
            Some(plugin),
            self.capabilities,
            None,
            WHOLE_BYTES_MAX,
        )
        .with_mariadb_ext_capabilities(self.mariadb);
        write_packet(sequence, out, |out| response.serialize(out));
        self.stage = Stage::Answering(going_on(&answer, method));
        Ok(())
    }

    fn switch(&mut self, next: u8, payload: &[u8], out: &mut Vec<u8>) -> Result<Step, Broken> {
        if payload.len() == 1 {
            return Err(Broken::Method("mysql_old_password".into()));
        }
        let request: AuthSwitchRequest<'_> = parse(payload, "switch of the authentication method")?;
        let plugin = request.auth_plugin().into_owned();
        self.method = String::from_utf8_lossy(plugin.as_bytes()).into_owned();
        self.scramble = request.plugin_data().to_vec();
        let mut method = AuthProc::init(&plugin).map_err(|_| Broken::Method(self.method.clone()))?;
        let challenge = self.scramble.clone();
        self.answer(&mut method, next, &challenge, out).map(|going_on| {
            self.stage = Stage::Answering(going_on.then_some(method));
            Step::More
        })
    }

    fn challenge(&mut self, next: u8, challenge: &[u8], out: &mut Vec<u8>) -> Result<Step, Broken> {
        let Stage::Answering(Some(mut method)) = std::mem::replace(&mut self.stage, Stage::Answering(None)) else {
            return Err(Broken::Malformed("a challenge after the last answer".into()));
        };
        let going_on = self.answer(&mut method, next, challenge, out)?;
        self.stage = Stage::Answering(going_on.then_some(method));
        Ok(Step::More)
    }

    /// Refuses a method that would send the password in clear text over a network. The greeting may name such a method, and a switch may, too.
    fn check_secrecy(&self, method: &AuthProc) -> Result<(), Broken> {
        if matches!(method, AuthProc::MysqlClearPassword(_)) && !self.secure {
            return Err(Broken::Method("mysql_clear_password, over a connection that is not encrypted".into()));
        }
        Ok(())
    }

    /// Runs one step of `method`; true when the server may ask again.
    fn answer(&self, method: &mut AuthProc, next: u8, challenge: &[u8], out: &mut Vec<u8>) -> Result<bool, Broken> {
        self.check_secrecy(method)?;
        let answer =
            method.run(self, challenge).map_err(|error| Broken::Method(format!("{}: {error}", self.method)))?;
        if let Some(data) = answer.data() {
            write_packet(next, out, |out| out.extend_from_slice(data));
        }
        Ok(matches!(answer, Response::Next { .. }))
    }
}

fn going_on(answer: &Response, method: AuthProc) -> Option<AuthProc> {
    matches!(answer, Response::Next { .. }).then_some(method)
}

impl Context for &Handshake {
    fn pass(&self) -> &[u8] {
        self.login.password.reveal().as_bytes()
    }

    fn is_ipc_transport(&self) -> bool {
        self.login.channel == Channel::Socket
    }

    fn is_tls_transport(&self) -> bool {
        self.secure && self.login.channel == Channel::Tcp
    }

    fn scramble(&self) -> &[u8] {
        &self.scramble
    }

    fn server_key_pem(&self) -> Option<&[u8]> {
        None
    }
}

fn parse<'a, T: MyDeserialize<'a, Ctx = ()>>(payload: &'a [u8], what: &str) -> Result<T, Broken> {
    ParseBuf(payload).parse(()).map_err(|error| Broken::Malformed(format!("{what}: {error}")))
}
