// SPDX-License-Identifier: Apache-2.0
use super::login::{Features, Handshake, Step};
use super::{
    HEADER_BYTES, PAYLOAD_BYTES_MAX, STATUS_IN_TRANSACTION, STATUS_MORE_RESULTS, WHOLE_BYTES_MAX, error_fields,
    length_encoded, ok_fields, packet, string, write_packet,
};
use crate::protocol::{Broken, Code, Event, Fed, Login, Reply, Rows};
use workload::Param;

const COM_QUIT: u8 = 0x01;
const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
/// `MYSQL_TYPE_LONGLONG`, signed; `MYSQL_TYPE_VAR_STRING`.
const TYPE_INT: [u8; 2] = [0x08, 0];
const TYPE_TEXT: [u8; 2] = [0xfd, 0];

/// After these errors the server closes the connection: `ER_SERVER_SHUTDOWN`, `ER_NET_PACKET_TOO_LARGE`, MariaDB's
/// `ER_CONNECTION_KILLED`, MySQL's `ER_SESSION_WAS_KILLED` and `ER_CLIENT_INTERACTION_TIMEOUT`.
const HANGS_UP: [u16; 5] = [1053, 1153, 1927, 3169, 4031];

/// One connection's conversation with a MySQL or MariaDB server.
pub struct Session {
    state: State,
    features: Features,
    statements: Vec<Statement>,
    reply: Reply,
    /// The status of the last reply that carried one.
    in_transaction: bool,
    message: String,
    /// The sequence number of the packet to answer, while a bulk load's data is sent.
    sequence: u8,
    /// The payload so far, while it goes on in the next packet.
    begun: Vec<u8>,
}

enum State {
    Login(Box<Handshake>),
    Idle,
    /// The first packet of a reply decides how to read the rest.
    Head {
        prepared: bool,
    },
    Columns {
        left: u64,
    },
    ColumnsEnd,
    Rows,
    PrepareHead,
    /// Descriptions of parameters and columns, and the EOF packet after each block.
    Describe {
        left: u64,
    },
    CopyIn,
}

struct Statement {
    id: u32,
    /// The parameter types of the last execution, which the server remembers: two bytes each.
    types: Vec<u8>,
}

impl Session {
    pub fn new(login: Login) -> Self {
        Self {
            state: State::Login(Box::new(Handshake::new(login))),
            features: Features::default(),
            statements: Vec::new(),
            reply: Reply::default(),
            in_transaction: false,
            message: String::new(),
            sequence: 0,
            begun: Vec::new(),
        }
    }

    pub(crate) fn secured(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        match &mut self.state {
            State::Login(handshake) => handshake.secured(out),
            _ => Ok(()),
        }
    }

    #[inline]
    pub(crate) fn query(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        self.expect(State::Head { prepared: false });
        write_packet(0, out, |out| {
            out.push(COM_QUERY);
            write(out);
        });
    }

    pub(crate) fn prepare(&mut self, sql: &str, out: &mut Vec<u8>) {
        self.expect(State::PrepareHead);
        write_packet(0, out, |out| {
            out.push(COM_STMT_PREPARE);
            out.extend_from_slice(sql.as_bytes());
        });
    }

    #[inline]
    pub(crate) fn execute(&mut self, index: usize, params: &[Param], texts: &[u8], out: &mut Vec<u8>) {
        self.expect(State::Head { prepared: true });
        let statement = &mut self.statements[index];
        write_packet(0, out, |out| {
            let [a, b, c, d] = statement.id.to_le_bytes();
            // flags 0: no cursor; iteration count 1
            out.extend_from_slice(&[COM_STMT_EXECUTE, a, b, c, d, 0, 1, 0, 0, 0]);
            if !params.is_empty() {
                out.resize(out.len() + params.len().div_ceil(8), 0);
                statement.write_types(params, out);
                params.iter().for_each(|param| write_value(param, texts, out));
            }
        });
    }

    pub(crate) fn copy_data(&mut self, data: &[u8], out: &mut Vec<u8>) {
        for piece in data.chunks(PAYLOAD_BYTES_MAX - 1) {
            self.sequence = self.sequence.wrapping_add(1);
            write_packet(self.sequence, out, |out| out.extend_from_slice(piece));
        }
    }

    pub(crate) fn copy_end(&mut self, out: &mut Vec<u8>) {
        self.sequence = self.sequence.wrapping_add(1);
        write_packet(self.sequence, out, |_| {});
        self.state = State::Head { prepared: false };
    }

    pub(crate) fn quit(&mut self, out: &mut Vec<u8>) {
        write_packet(0, out, |out| out.push(COM_QUIT));
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn server_version(&self) -> &str {
        // MariaDB 10 and 11 prefix their version with this, for replicas that do not accept a two-digit version.
        let version = &self.features.server_version;
        version.strip_prefix("5.5.5-").unwrap_or(version)
    }

    #[inline]
    pub(crate) fn feed(&mut self, bytes: &[u8], rows: &mut impl Rows, out: &mut Vec<u8>) -> Result<Fed, Broken> {
        let mut consumed = 0;
        while let Some((sequence, payload)) = packet(&bytes[consumed..]) {
            consumed += HEADER_BYTES + payload.len();
            let is_piece = payload.len() == PAYLOAD_BYTES_MAX || !self.begun.is_empty();
            let event = match is_piece {
                true => self.piece(sequence, payload, rows, out)?,
                false => self.packet(sequence, payload, rows, out)?,
            };
            if let Some(event) = event {
                return Ok(Fed { consumed, event: Some(event) });
            }
        }
        Ok(Fed { consumed, event: None })
    }

    fn expect(&mut self, state: State) {
        self.state = state;
        self.reply = Reply::default();
    }

    /// One packet of a payload that comes in several: the last one is shorter than the others, and may be empty.
    #[cold]
    fn piece(
        &mut self,
        sequence: u8,
        payload: &[u8],
        rows: &mut impl Rows,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event>, Broken> {
        self.begun.extend_from_slice(payload);
        if self.begun.len() > WHOLE_BYTES_MAX as usize {
            return Err(Broken::Malformed("a packet of more than 1 GiB".into()));
        }
        if payload.len() == PAYLOAD_BYTES_MAX {
            return Ok(None);
        }
        let whole = std::mem::take(&mut self.begun);
        self.packet(sequence, &whole, rows, out)
    }

    #[inline]
    fn packet(
        &mut self,
        sequence: u8,
        payload: &[u8],
        rows: &mut impl Rows,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event>, Broken> {
        let Some(&first) = payload.first() else { return Err(Broken::Malformed("an empty packet".into())) };
        match self.state {
            // a row whose first value has 16 MiB or more begins with this byte, too
            State::Rows if first == 0xfe && payload.len() < PAYLOAD_BYTES_MAX => self.end_of_rows(payload),
            State::Rows if first == 0xff => self.failed(payload),
            State::Rows => {
                self.reply.rows += 1;
                self.reply.row_bytes += payload.len() as u64;
                rows.row(payload);
                Ok(None)
            }
            State::Head { prepared } => self.head(sequence, prepared, payload, rows),
            State::Columns { left } => {
                if let Some(name) = column_name(payload) {
                    rows.column(name);
                }
                self.state = self.after_columns(left.saturating_sub(1));
                Ok(None)
            }
            State::ColumnsEnd => {
                self.state = State::Rows;
                Ok(None)
            }
            State::PrepareHead => self.prepare_head(payload),
            State::Describe { left } => Ok(self.described(left - 1)),
            State::Login(ref mut handshake) => match handshake.packet(sequence, payload, out)? {
                Step::More => Ok(None),
                Step::StartTls => Ok(Some(Event::StartTls)),
                Step::Done(features) => {
                    self.features = features;
                    self.state = State::Idle;
                    Ok(Some(Event::LoggedIn))
                }
            },
            // A server that shuts down or kills the connection sends an error without a request.
            State::Idle if first == 0xff => {
                self.reply = Reply { hangs_up: true, ..Reply::default() };
                self.failed(payload)
            }
            State::CopyIn if first == 0xff => self.failed(payload),
            State::Idle | State::CopyIn => Err(Broken::Malformed("a packet that nobody asked for".into())),
        }
    }

    fn head(
        &mut self,
        sequence: u8,
        prepared: bool,
        payload: &[u8],
        rows: &mut impl Rows,
    ) -> Result<Option<Event>, Broken> {
        match payload[0] {
            0x00 => {
                let (affected, status) = ok_fields(payload).ok_or_else(short)?;
                self.reply.affected += affected;
                Ok(self.end_of_result(status, prepared))
            }
            0xff => self.failed(payload),
            0xfb => {
                self.sequence = sequence;
                self.state = State::CopyIn;
                Ok(Some(Event::CopyIn))
            }
            _ => {
                let (columns, length) = length_encoded(payload).ok_or_else(short)?;
                let described = !self.features.cached_metadata || payload.get(length) != Some(&0);
                rows.begin();
                self.state = self.after_columns(if described { columns } else { 0 });
                Ok(None)
            }
        }
    }

    fn after_columns(&self, left: u64) -> State {
        match left {
            0 if self.features.no_eof => State::Rows,
            0 => State::ColumnsEnd,
            left => State::Columns { left },
        }
    }

    fn end_of_rows(&mut self, payload: &[u8]) -> Result<Option<Event>, Broken> {
        let status = if self.features.no_eof {
            ok_fields(payload).ok_or_else(short)?.1
        } else {
            payload.get(3..5).map(|s| u16::from_le_bytes([s[0], s[1]])).ok_or_else(short)?
        };
        Ok(self.end_of_result(status, false))
    }

    fn end_of_result(&mut self, status: u16, prepared: bool) -> Option<Event> {
        if status & STATUS_MORE_RESULTS != 0 {
            self.state = State::Head { prepared };
            return None;
        }
        self.in_transaction = status & STATUS_IN_TRANSACTION != 0;
        self.reply.in_transaction = self.in_transaction;
        self.state = State::Idle;
        Some(Event::Done(self.reply))
    }

    /// An ERR packet carries no status: a transaction that was open before may still be open.
    fn failed(&mut self, payload: &[u8]) -> Result<Option<Event>, Broken> {
        let (code, message) = error_fields(payload)?;
        self.message = message;
        self.reply.error = Some(code);
        self.reply.hangs_up |= matches!(code, Code::Number(number) if HANGS_UP.contains(&number));
        self.reply.in_transaction = self.in_transaction;
        self.state = State::Idle;
        Ok(Some(Event::Done(self.reply)))
    }

    fn prepare_head(&mut self, payload: &[u8]) -> Result<Option<Event>, Broken> {
        if payload[0] == 0xff {
            return self.failed(payload);
        }
        let fields = payload.first_chunk::<9>().ok_or_else(short)?;
        let id = u32::from_le_bytes([fields[1], fields[2], fields[3], fields[4]]);
        let columns = u64::from(u16::from_le_bytes([fields[5], fields[6]]));
        let params = u64::from(u16::from_le_bytes([fields[7], fields[8]]));
        self.statements.push(Statement { id, types: Vec::new() });
        let block = |count: u64| if count > 0 && !self.features.no_eof { count + 1 } else { count };
        let left = block(params) + block(columns);
        Ok(self.described(left))
    }

    fn described(&mut self, left: u64) -> Option<Event> {
        self.state = if left > 0 { State::Describe { left } } else { State::Idle };
        (left == 0).then_some(Event::Prepared)
    }
}

impl Statement {
    /// The types are sent when they differ from those of the last execution.
    #[inline]
    fn write_types(&mut self, params: &[Param], out: &mut Vec<u8>) {
        let bound = out.len();
        out.push(1);
        for param in params {
            out.extend_from_slice(if matches!(param, Param::Int(_)) { &TYPE_INT } else { &TYPE_TEXT });
        }
        if out[bound + 1..] == *self.types {
            out.truncate(bound);
            out.push(0);
        } else {
            self.types.clear();
            self.types.extend_from_slice(&out[bound + 1..]);
        }
    }
}

#[inline]
fn write_value(param: &Param, texts: &[u8], out: &mut Vec<u8>) {
    match *param {
        Param::Int(value) => out.extend_from_slice(&value.to_le_bytes()),
        Param::Text { start, end } => {
            let text = &texts[start as usize..end as usize];
            write_length(text.len(), out);
            out.extend_from_slice(text);
        }
    }
}

/// A length-encoded integer.
fn write_length(length: usize, out: &mut Vec<u8>) {
    let bytes = length.to_le_bytes();
    match length {
        0..=0xfa => out.push(bytes[0]),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&bytes[..2]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&bytes[..8]);
        }
    }
}

/// The fifth string of a column description: catalogue, schema, table, original table, name.
fn column_name(payload: &[u8]) -> Option<&[u8]> {
    let mut rest = payload;
    for _ in 0..4 {
        rest = string(rest)?.1;
    }
    string(rest).map(|(name, _)| name)
}

fn short() -> Broken {
    Broken::Malformed("a packet is cut short".into())
}
