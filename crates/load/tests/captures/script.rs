// SPDX-License-Identifier: Apache-2.0
//! What is said while a capture is taken, and again when it is played back.

use load::protocol::Session;
use workload::Param;

/// One thing for the client to say, after the last one has been answered.
#[derive(Debug, Clone, Copy)]
pub enum Say {
    Query(&'static str),
    Prepare(&'static str),
    /// Prepared statement by number, with these parameters.
    Execute(usize, &'static [Value]),
    /// Data for the bulk load that was just begun, and its end.
    Data(&'static [u8]),
}

#[derive(Debug, Clone, Copy)]
pub enum Value {
    Int(i64),
    Text(&'static [u8]),
}

use Say::{Data, Execute, Prepare, Query};
use Value::{Int, Text};

pub const MYSQL: &[Say] = &[
    Query("CREATE TEMPORARY TABLE wringer_capture (id INT PRIMARY KEY, k INT, c CHAR(20))"),
    Prepare("INSERT INTO wringer_capture VALUES (?, ?, ?)"),
    Prepare("SELECT c, k FROM wringer_capture WHERE id BETWEEN ? AND ?"),
    Execute(0, &[Int(1), Int(-5), Text(b"one")]),
    Execute(0, &[Int(2), Int(7), Text(b"two")]),
    Execute(0, &[Int(2), Int(7), Text(b"twice")]),
    Execute(1, &[Int(1), Int(2)]),
    Execute(1, &[Int(5), Int(2)]),
    Query("START TRANSACTION"),
    Query("UPDATE wringer_capture SET k = k + 1"),
    Query("SELECT id, NULL, c FROM wringer_capture ORDER BY id"),
    Query("SELECT nonsense"),
    Query("ROLLBACK"),
    Query("LOAD DATA LOCAL INFILE 'x' INTO TABLE wringer_capture"),
    Data(b"3\t30\tthree\n4\t40\tfour\n"),
    Prepare("SELECT nothing FROM nowhere"),
    Query("SELECT repeat('x', 3000)"),
];

pub const POSTGRESQL: &[Say] = &[
    Query("CREATE TEMPORARY TABLE wringer_capture (id INT PRIMARY KEY, k BIGINT, c VARCHAR(20))"),
    Prepare("INSERT INTO wringer_capture VALUES ($1, $2, $3)"),
    Prepare("SELECT c, k FROM wringer_capture WHERE id BETWEEN $1 AND $2"),
    Execute(0, &[Int(1), Int(-5), Text(b"one")]),
    Execute(0, &[Int(2), Int(7), Text(b"two")]),
    Execute(0, &[Int(2), Int(7), Text(b"twice")]),
    Execute(1, &[Int(1), Int(2)]),
    Execute(1, &[Int(5), Int(2)]),
    Query("BEGIN"),
    Query("UPDATE wringer_capture SET k = k + 1"),
    Query("SELECT id, NULL, c FROM wringer_capture ORDER BY id"),
    Query("SELECT nonsense"),
    Query("ROLLBACK"),
    Query("COPY wringer_capture FROM STDIN"),
    Data(b"3\t30\tthree\n4\t40\tfour\n"),
    Prepare("SELECT nothing FROM nowhere"),
    Query("SELECT repeat('x', 3000)"),
];

pub fn say(session: &mut Session, say: Say, out: &mut Vec<u8>) {
    match say {
        Query(sql) => session.query(out, |out| out.extend_from_slice(sql.as_bytes())),
        Prepare(sql) => session.prepare(sql, out),
        Execute(index, values) => {
            let mut texts = Vec::new();
            let params: Vec<Param> = values
                .iter()
                .map(|value| match value {
                    Int(value) => Param::Int(*value),
                    Text(text) => {
                        let start = u32::try_from(texts.len()).unwrap_or(0);
                        texts.extend_from_slice(text);
                        Param::Text { start, end: u32::try_from(texts.len()).unwrap_or(0) }
                    }
                })
                .collect();
            session.execute(index, &params, &texts, out);
        }
        Data(data) => {
            session.copy_data(data, out);
            session.copy_end(out);
        }
    }
}
