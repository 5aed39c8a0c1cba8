// SPDX-License-Identifier: Apache-2.0
use super::login::{Handshake, Step};
use super::{HEADER_BYTES, Said, affected, message, said, write_message};
use crate::protocol::{Broken, Event, Fed, Login, Reply, Rows};
use std::io::Write as _;
use workload::Param;

/// Object identifiers of the types that go in binary form (`pg_type.dat`).
const OID_INT8: u32 = 20;
const OID_INT2: u32 = 21;
const OID_INT4: u32 = 23;

/// The protocol state of one connection to a PostgreSQL server.
pub struct Session {
    state: State,
    statements: Vec<Statement>,
    reply: Reply,
    message: String,
    server_version: String,
    backend: Option<u32>,
}

enum State {
    Login(Box<Handshake>),
    Idle,
    /// Waits for ReadyForQuery.
    Running,
    Preparing,
}

struct Statement {
    /// A Bind message up to the values: portal, statement name, parameter formats, parameter count.
    bind: Vec<u8>,
    types: Vec<u32>,
}

impl Session {
    pub fn new(login: Login, out: &mut Vec<u8>) -> Self {
        Self {
            state: State::Login(Box::new(Handshake::new(login, out))),
            statements: Vec::new(),
            reply: Reply::default(),
            message: String::new(),
            server_version: String::new(),
            backend: None,
        }
    }

    pub(crate) fn secured(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        match &mut self.state {
            State::Login(handshake) => handshake.start(out),
            _ => Ok(()),
        }
    }

    #[inline]
    pub(crate) fn query(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        self.expect(State::Running);
        write_message(b'Q', out, |out| {
            write(out);
            out.push(0);
        });
    }

    pub(crate) fn prepare(&mut self, sql: &str, out: &mut Vec<u8>) {
        self.expect(State::Preparing);
        let name = format!("w{}\0", self.statements.len());
        write_message(b'P', out, |out| {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(sql.as_bytes());
            // no parameter types: the server infers them
            out.extend_from_slice(&[0, 0, 0]);
        });
        write_message(b'D', out, |out| {
            out.push(b'S');
            out.extend_from_slice(name.as_bytes());
        });
        write_message(b'S', out, |_| {});
    }

    #[inline]
    pub(crate) fn execute(&mut self, index: usize, params: &[Param], texts: &[u8], out: &mut Vec<u8>) {
        self.expect(State::Running);
        let statement = &self.statements[index];
        write_message(b'B', out, |out| {
            out.extend_from_slice(&statement.bind);
            for (param, oid) in params.iter().zip(&statement.types) {
                write_value(*param, *oid, texts, out);
            }
            // result formats: none given, so text
            out.extend_from_slice(&[0, 0]);
        });
        // Execute the unnamed portal without a limit of rows, then Sync.
        out.extend_from_slice(&[b'E', 0, 0, 0, 9, 0, 0, 0, 0, 0, b'S', 0, 0, 0, 4]);
    }

    pub(crate) fn copy_data(&mut self, data: &[u8], out: &mut Vec<u8>) {
        write_message(b'd', out, |out| out.extend_from_slice(data));
    }

    pub(crate) fn copy_end(&mut self, out: &mut Vec<u8>) {
        write_message(b'c', out, |_| {});
    }

    pub(crate) fn quit(&mut self, out: &mut Vec<u8>) {
        write_message(b'X', out, |_| {});
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn server_version(&self) -> &str {
        &self.server_version
    }

    pub(crate) fn backend(&self) -> Option<u32> {
        self.backend
    }

    #[inline]
    pub(crate) fn feed(&mut self, bytes: &[u8], rows: &mut impl Rows, out: &mut Vec<u8>) -> Result<Fed, Broken> {
        let mut consumed = 0;
        if matches!(self.state, State::Login(_)) {
            let (used, event) = self.log_in(bytes, out)?;
            // The login's last message: from then on statements may be sent.
            return Ok(Fed { consumed: used, event });
        }
        while let Some((tag, body)) = message(&bytes[consumed..])? {
            consumed += HEADER_BYTES + body.len();
            if let Some(event) = self.message_in(tag, body, rows)? {
                return Ok(Fed { consumed, event: Some(event) });
            }
        }
        Ok(Fed { consumed, event: None })
    }

    fn log_in(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(usize, Option<Event>), Broken> {
        let mut consumed = 0;
        let State::Login(handshake) = &mut self.state else { return Ok((0, None)) };
        loop {
            let rest = &bytes[consumed..];
            let step = if handshake.awaits_tls_answer() {
                let Some(answer) = rest.first() else { return Ok((consumed, None)) };
                consumed += 1;
                handshake.tls_answer(*answer, out)?
            } else {
                let Some((tag, body)) = message(rest)? else { return Ok((consumed, None)) };
                let length = HEADER_BYTES + body.len();
                if tag == b'E' {
                    let said = said(body);
                    return Err(Broken::Refused { code: said.code().to_string(), message: said.text });
                }
                consumed += length;
                handshake.message(&rest[..length], out)?
            };
            match step {
                Step::More => {}
                Step::StartTls => return Ok((consumed, Some(Event::StartTls))),
                Step::Done => {
                    self.server_version = std::mem::take(&mut handshake.server_version);
                    self.backend = handshake.backend;
                    self.state = State::Idle;
                    return Ok((consumed, Some(Event::LoggedIn)));
                }
            }
        }
    }

    fn expect(&mut self, state: State) {
        self.state = state;
        self.reply = Reply::default();
    }

    #[inline]
    fn message_in(&mut self, tag: u8, body: &[u8], rows: &mut impl Rows) -> Result<Option<Event>, Broken> {
        match tag {
            b'D' => {
                self.reply.rows += 1;
                self.reply.row_bytes += body.len() as u64;
                rows.row(body);
            }
            // ParseComplete, BindComplete, NoData, EmptyQuery, ParameterStatus, Notification
            b'1' | b'2' | b'n' | b'I' | b'S' | b'A' => {}
            b'N' => return Ok(self.noticed(body)),
            b'C' => self.reply.affected += affected(body),
            b'Z' => return Ok(Some(self.ready(body))),
            b'E' => return Ok(self.failed(said(body))),
            b'T' if matches!(self.state, State::Running) => {
                rows.begin();
                column_names(body).for_each(|name| rows.column(name));
            }
            b'T' => {}
            b't' => self.described(body),
            b'G' => return Ok(Some(Event::CopyIn)),
            _ => return Err(Broken::Malformed(format!("a message of type {:?}", char::from(tag)))),
        }
        Ok(None)
    }

    fn ready(&mut self, body: &[u8]) -> Event {
        self.reply.in_transaction = body.first() != Some(&b'I');
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Preparing if self.reply.error.is_none() => Event::Prepared,
            _ => Event::Done(self.reply),
        }
    }

    /// ReadyForQuery follows an error, except an error that ends the connection.
    fn failed(&mut self, said: Said) -> Option<Event> {
        self.reply.error = Some(said.code());
        self.reply.hangs_up = said.is_last;
        self.message = said.text;
        (said.is_last || matches!(self.state, State::Idle)).then_some(Event::Done(self.reply))
    }

    /// A notice is ignored, unless the server closes the connection after it.
    #[cold]
    fn noticed(&mut self, body: &[u8]) -> Option<Event> {
        let said = said(body);
        if said.is_last { self.failed(said) } else { None }
    }

    /// Handles a ParameterDescription: it decides the format of each value.
    fn described(&mut self, body: &[u8]) {
        let types: Vec<u32> = body
            .get(2..)
            .unwrap_or_default()
            .chunks_exact(4)
            .map(|oid| u32::from_be_bytes([oid[0], oid[1], oid[2], oid[3]]))
            .collect();
        let mut bind = format!("\0w{}\0", self.statements.len()).into_bytes();
        // A message has at most 65535 parameters, because the count is a 16-bit number.
        let count = u16::try_from(types.len()).unwrap_or(u16::MAX).to_be_bytes();
        bind.extend_from_slice(&count);
        types.iter().for_each(|oid| bind.extend_from_slice(&u16::from(is_binary(*oid)).to_be_bytes()));
        bind.extend_from_slice(&count);
        self.statements.push(Statement { bind, types });
    }
}

fn is_binary(oid: u32) -> bool {
    matches!(oid, OID_INT2 | OID_INT4 | OID_INT8)
}

#[inline]
fn write_value(param: Param, oid: u32, texts: &[u8], out: &mut Vec<u8>) {
    match (param, oid) {
        // A value that does not fit its column's type is sent at full width, and the server refuses it (22P03): truncated it would be another value.
        (Param::Int(value), OID_INT2 | OID_INT4 | OID_INT8) => {
            match (oid, i16::try_from(value), i32::try_from(value)) {
                (OID_INT2, Ok(value), _) => {
                    out.extend_from_slice(&[0, 0, 0, 2]);
                    out.extend_from_slice(&value.to_be_bytes());
                }
                (OID_INT4, _, Ok(value)) => {
                    out.extend_from_slice(&[0, 0, 0, 4]);
                    out.extend_from_slice(&value.to_be_bytes());
                }
                _ => {
                    out.extend_from_slice(&[0, 0, 0, 8]);
                    out.extend_from_slice(&value.to_be_bytes());
                }
            }
        }
        (Param::Int(value), _) => {
            let start = out.len();
            out.extend_from_slice(&[0; 4]);
            // A Vec takes every byte.
            drop(write!(out, "{value}"));
            let length = u32::try_from(out.len() - start - 4).unwrap_or(0).to_be_bytes();
            out[start..start + 4].copy_from_slice(&length);
        }
        // A number that is written as text is sent as that number. Another text is sent as more bytes than any number has, and the server refuses it (22P03).
        (Param::Text { start, end }, OID_INT2 | OID_INT4 | OID_INT8) => {
            let text = &texts[start as usize..end as usize];
            match std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()) {
                Some(value) => write_value(Param::Int(value), oid, texts, out),
                None => {
                    out.extend_from_slice(&[0, 0, 0, 16]);
                    out.extend_from_slice(&[0; 16]);
                }
            }
        }
        (Param::Text { start, end }, _) => {
            out.extend_from_slice(&(end - start).to_be_bytes());
            out.extend_from_slice(&texts[start as usize..end as usize]);
        }
    }
}

/// The names in a RowDescription: each a zero-terminated string, then 18 bytes of type.
fn column_names(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = body.get(2..).unwrap_or_default();
    std::iter::from_fn(move || {
        let end = rest.iter().position(|byte| *byte == 0)?;
        let name = &rest[..end];
        rest = rest.get(end + 19..).unwrap_or_default();
        Some(name)
    })
}
