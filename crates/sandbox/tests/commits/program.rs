// SPDX-License-Identifier: Apache-2.0
//! For the test guest: one row after the other into a sandbox's running server, each a transaction of its own, numbered from 1, and a line once the
//! server has acknowledged it. Whoever reads the lines knows what must be there after a power cut. Goes on behind the rows that are there.
//!
//! usage: sandbox-test-commits SANDBOX; prints `ACKNOWLEDGED SANDBOX ID` for each. Ends, with 1, when the server does.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use host::places::Places;
use load::admin::Connection;
use sandbox::Sandbox;
use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

/// The key once more in a second index, for the server's own checks to compare.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS durable (id BIGINT PRIMARY KEY, twin BIGINT NOT NULL UNIQUE, pad VARCHAR(200) NOT NULL)";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name] = &args[..] else {
        eprintln!("usage: sandbox-test-commits SANDBOX");
        return ExitCode::from(2);
    };
    let Err(error) = commit(name);
    eprintln!("{name}: {error}");
    ExitCode::FAILURE
}

fn commit(name: &str) -> Result<std::convert::Infallible, Box<dyn Error>> {
    let sandbox = Sandbox::open(name, &Places::from_environment())?;
    let mut connection = Connection::open(&sandbox.connection()?)?;
    connection.execute(TABLE)?;
    let there = connection.query("SELECT COALESCE(MAX(id), 0) FROM durable")?;
    let mut id: u64 = there.parse(0, 0).ok_or("no number of rows")?;
    let pad = "x".repeat(150);
    loop {
        id += 1;
        connection.execute(&format!("INSERT INTO durable VALUES ({id}, {id}, '{pad}')"))?;
        // in one piece, so that no other program's line gets into it
        std::io::stdout().lock().write_all(format!("ACKNOWLEDGED {name} {id}\n").as_bytes())?;
    }
}
